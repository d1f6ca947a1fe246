//! Charts as SVG: columns of counts, lines of durations. Values in, markup out; colours and sizes are the style's.
//!
//! A chart stands beside a table that says the same, so it is hidden from who reads by ear, and its links are not among
//! those that the keyboard steps through.

use std::fmt::{self, Write};

use askama::filters::HtmlSafe;

use crate::text::Visible;

/// The size of the drawing area, and what stands around it, in the chart's own units.
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 52.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 20.0;
/// How many labels stand below, at most.
const LABELS: usize = 7;

/// A chart.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    /// How values are drawn.
    pub form: ChartForm,
    /// The unit of its values; empty for counts.
    pub unit: &'static str,
    /// What each series is, in the order of a point's values.
    pub series: Vec<ChartSeries>,
    /// The points, from left to right.
    pub points: Vec<ChartPoint>,
}

/// How values are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChartForm {
    /// Columns, one part upon the other.
    #[default]
    Columns,
    /// Lines.
    Lines,
}

/// One of the things that a chart shows.
#[derive(Debug, Clone, Copy)]
pub struct ChartSeries {
    /// What it is.
    pub label: &'static str,
    /// Its class in the style: `a`, `b` or `c`.
    pub class: &'static str,
}

/// The values of one time.
#[derive(Debug, Clone)]
pub struct ChartPoint {
    /// When, in a few characters.
    pub label: String,
    /// What it says in words.
    pub title: String,
    /// Where it leads.
    pub path: String,
    /// A value for each series; none where there is none.
    pub values: Vec<Option<f64>>,
}

// === impl Chart ===

impl Chart {
    /// Whether there is anything to see.
    pub fn is_empty(&self) -> bool {
        self.points.iter().flat_map(|point| &point.values).all(|value| value.is_none_or(|value| value <= 0.0))
    }

    /// The largest value that is drawn.
    fn most(&self) -> f64 {
        let of_point = |point: &ChartPoint| {
            let values = point.values.iter().flatten().copied();
            match self.form {
                ChartForm::Columns => values.sum::<f64>(),
                ChartForm::Lines => values.fold(0.0, f64::max),
            }
        };
        round_up(self.points.iter().map(of_point).fold(0.0, f64::max))
    }

    fn grid(&self, out: &mut String, most: f64) -> fmt::Result {
        for share in [0.0, 0.5, 1.0] {
            let y = TOP + HEIGHT * (1.0 - share);
            let label = figure(most * share, self.unit);
            write!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"axis end\" x=\"{:.0}\" y=\"{:.1}\">{label}</text>",
                LEFT + WIDTH,
                LEFT - 6.0,
                y + 4.0
            )?;
        }
        let every = self.points.len().div_ceil(LABELS).max(1);
        let step = self.step();
        for (index, point) in self.points.iter().enumerate().step_by(every) {
            let x = LEFT + step * index as f64;
            let y = TOP + HEIGHT + BOTTOM - 4.0;
            write!(out, "<text class=\"axis\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", Visible(point.label.clone()))?;
        }
        Ok(())
    }

    fn step(&self) -> f64 {
        WIDTH / self.points.len().max(1) as f64
    }

    fn columns(&self, out: &mut String, most: f64) -> fmt::Result {
        let step = self.step();
        let width = (step * 0.78).max(0.5);
        for (index, point) in self.points.iter().enumerate() {
            let x = LEFT + step * index as f64 + (step - width) / 2.0;
            let mut y = TOP + HEIGHT;
            self.open_link(out, point, index)?;
            for (series, value) in self.series.iter().zip(&point.values) {
                let Some(value) = value.filter(|value| *value > 0.0) else { continue };
                // What is there is seen, however little it is.
                let height = (HEIGHT * value / most).max(1.5);
                y -= height;
                write!(
                    out,
                    "<rect class=\"{}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>",
                    series.class
                )?;
            }
            out.push_str("</a>");
        }
        Ok(())
    }

    fn lines(&self, out: &mut String, most: f64) -> fmt::Result {
        let step = self.step();
        let at = |index: usize, value: f64| (LEFT + step * (index as f64 + 0.5), TOP + HEIGHT * (1.0 - value / most));
        for (series, number) in self.series.iter().zip(0..) {
            let mut path = String::new();
            let mut is_drawing = false;
            for (index, point) in self.points.iter().enumerate() {
                let Some(value) = point.values.get(number).copied().flatten() else {
                    is_drawing = false;
                    continue;
                };
                let (x, y) = at(index, value);
                write!(path, "{}{x:.1} {y:.1}", if is_drawing { "L" } else { "M" })?;
                is_drawing = true;
                write!(out, "<circle class=\"{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.2\"/>", series.class)?;
            }
            write!(out, "<path class=\"{}\" d=\"{path}\"/>", series.class)?;
        }
        for (index, point) in self.points.iter().enumerate() {
            self.open_link(out, point, index)?;
            out.push_str("</a>");
        }
        Ok(())
    }

    /// A point's link, over its whole height.
    fn open_link(&self, out: &mut String, point: &ChartPoint, index: usize) -> fmt::Result {
        let (step, x) = (self.step(), LEFT + self.step() * index as f64);
        write!(
            out,
            "<a href=\"{}\" tabindex=\"-1\"><title>{}</title>\
             <rect class=\"hit\" x=\"{x:.1}\" y=\"{TOP}\" width=\"{step:.1}\" height=\"{HEIGHT}\"/>",
            Visible(point.path.clone()),
            Visible(point.title.clone()),
        )
    }
}

impl fmt::Display for Chart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        let most = self.most();
        let (width, height) = (LEFT + WIDTH + 8.0, TOP + HEIGHT + BOTTOM);
        write!(
            out,
            "<svg class=\"chart\" viewBox=\"0 0 {width:.0} {height:.0}\" aria-hidden=\"true\" focusable=\"false\">"
        )?;
        self.grid(&mut out, most)?;
        match self.form {
            ChartForm::Columns => self.columns(&mut out, most)?,
            ChartForm::Lines => self.lines(&mut out, most)?,
        }
        out.push_str("</svg>");
        f.write_str(&out)
    }
}

impl HtmlSafe for Chart {}

/// The next number that people like: 1, 2 or 5 times a power of ten.
fn round_up(most: f64) -> f64 {
    if most <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(most.log10().floor());
    let found = [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|step| *step >= most);
    found.unwrap_or(most)
}

/// A value at the axis.
fn figure(value: f64, unit: &str) -> String {
    let (value, thousand) = match value {
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e4 => (value / 1e3, "k"),
        value => (value, ""),
    };
    let digits = if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") };
    match unit {
        "" => format!("{digits}{thousand}"),
        unit => format!("{digits}{thousand} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(form: ChartForm, values: &[[Option<f64>; 2]]) -> Chart {
        let series = vec![ChartSeries { label: "ok", class: "a" }, ChartSeries { label: "errors", class: "b" }];
        let points = values.iter().enumerate().map(|(index, values)| ChartPoint {
            label: format!("{index}:00"),
            title: format!("<{index}>"),
            path: format!("/ui/audit?since={index}&x=\"y\""),
            values: values.to_vec(),
        });
        Chart { form, unit: "", series, points: points.collect() }
    }

    #[test]
    fn each_point_leads_to_its_rows_and_nothing_of_it_is_markup() {
        let html = chart(ChartForm::Columns, &[[Some(3.0), Some(1.0)], [None, None], [Some(0.0), None]]).to_string();
        assert_eq!(html.matches("<a href=").count(), 3);
        assert_eq!(html.matches("class=\"a\"").count(), 1, "what is nothing is not drawn");
        assert!(html.contains("since=0&amp;x=&quot;y&quot;") && html.contains("<title>&lt;0&gt;</title>"), "{html}");
        assert!(html.contains(">5</text>") && html.contains(">2.5</text>"), "the axis ends at a round number: {html}");
        assert!(!html.contains("style=") && html.contains("tabindex=\"-1\""));
    }

    #[test]
    fn a_line_breaks_where_nothing_was() {
        let html = chart(ChartForm::Lines, &[[Some(1.0), None], [None, None], [Some(2.0), None]]).to_string();
        assert_eq!(html.matches('M').count(), 2, "{html}");
        assert!(chart(ChartForm::Lines, &[[None, None]]).is_empty());
        // Nothing at all is drawn, too.
        assert!(Chart::default().to_string().ends_with("</svg>"));
    }

    #[test]
    fn axes_end_at_round_numbers() {
        for (most, expected) in [(0.0, 1.0), (1.0, 1.0), (3.0, 5.0), (12.0, 20.0), (501.0, 1000.0)] {
            assert!((round_up(most) - expected).abs() < 1e-9, "{most}");
        }
        assert_eq!((figure(25_000.0, ""), figure(2.5, "ms")), ("25k".to_owned(), "2.5 ms".to_owned()));
    }
}
