//! The steps of a workflow as SVG: one below the other, what runs at once side by side, what is repeated in a frame. A
//! dashed line leads from a step to each later one that reads its result. Values in, markup out; colours are the style's.
//!
//! It stands beside a table that says the same, so it is hidden from who reads by ear.

use std::collections::HashMap;
use std::fmt::{self, Write};

use askama::filters::HtmlSafe;

use crate::level::Level;
use crate::text::{clipped, is_invisible};

/// Sizes, in the graph's own units.
const WIDTH: u32 = 260;
const HEIGHT: u32 = 44;
const GAP: u32 = 26;
const BESIDE: u32 = 18;
const FRAME: u32 = 14;
const HEAD: u32 = 20;
/// Characters of a line in a box.
const LINE: usize = 36;
/// How wide a graph may be to be made to fit beside a form.
const FITTING: u32 = 680;
/// Steps that are drawn; a table has all.
const MOST: usize = 200;

/// A graph of steps.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// What runs, in order.
    pub nodes: Vec<GraphNode>,
}

/// A step, or several.
#[derive(Debug, Clone)]
pub enum GraphNode {
    /// One step.
    Step(GraphStep),
    /// Steps that run at once.
    Parallel {
        /// What they are called together.
        id: String,
        /// What runs beside each other.
        nodes: Vec<GraphNode>,
    },
    /// Steps in a frame with a word on it, one after the other.
    Frame {
        /// The word, such as what they are repeated for.
        label: String,
        /// What is in it.
        nodes: Vec<GraphNode>,
    },
}

/// One step.
#[derive(Debug, Clone)]
pub struct GraphStep {
    /// Its id.
    pub id: String,
    /// What it calls, and when.
    pub about: String,
    /// How it went.
    pub level: Level,
    /// The ids of the steps whose results it reads.
    pub reads: Vec<String>,
}

/// Where a box stands.
#[derive(Debug, Clone, Copy)]
struct Place {
    x: u32,
    y: u32,
}

/// What is being drawn.
#[derive(Default)]
struct GraphCanvas {
    out: String,
    /// Where each step stands.
    steps: HashMap<String, Place>,
    /// Who reads whose result.
    reads: Vec<(String, Place)>,
}

// === impl GraphNode ===

impl GraphNode {
    fn size(&self) -> (u32, u32) {
        match self {
            Self::Step(_) => (WIDTH, HEIGHT),
            Self::Parallel { nodes, .. } => {
                let sizes: Vec<(u32, u32)> = nodes.iter().map(Self::size).collect();
                let gaps = BESIDE * u32::try_from(nodes.len().saturating_sub(1)).unwrap_or(0);
                let width = sizes.iter().map(|(width, _)| width).sum::<u32>() + gaps + 2 * FRAME;
                (width, sizes.iter().map(|(_, height)| *height).max().unwrap_or(0) + 2 * FRAME + HEAD)
            }
            Self::Frame { nodes, .. } => {
                let (width, height) = size(nodes);
                (width + 2 * FRAME, height + 2 * FRAME + HEAD)
            }
        }
    }

    /// How many steps there are in it.
    fn count(&self) -> usize {
        match self {
            Self::Step(_) => 1,
            Self::Parallel { nodes, .. } | Self::Frame { nodes, .. } => nodes.iter().map(Self::count).sum(),
        }
    }
}

/// The size of steps one below the other.
fn size(nodes: &[GraphNode]) -> (u32, u32) {
    let sizes = nodes.iter().map(GraphNode::size);
    let (width, height) = sizes.fold((0, 0), |(width, height), it| (it.0.max(width), height + it.1 + GAP));
    (width, height.saturating_sub(GAP))
}

// === impl Graph ===

impl Graph {
    /// Whether there is something to draw, and not too much of it.
    pub fn is_drawn(&self) -> bool {
        (1..=MOST).contains(&self.nodes.iter().map(GraphNode::count).sum())
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, height) = size(&self.nodes);
        let mut drawing = GraphCanvas::default();
        drawing.sequence(&self.nodes, Place { x: 1, y: 1 }, width);
        let edges = drawing.edges();
        // Room for the lines on the right.
        let (width, height) = (width + 42, height + 2);
        // What is wider would be too small to read if it were made to fit.
        let wide = if width > FITTING { " wide" } else { "" };
        write!(
            f,
            "<svg class=\"graph{wide}\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             aria-hidden=\"true\" focusable=\"false\">{edges}{}</svg>",
            drawing.out
        )
    }
}

impl HtmlSafe for Graph {}

// === impl GraphCanvas ===

impl GraphCanvas {
    /// Steps one below the other, in the middle of a column.
    fn sequence(&mut self, nodes: &[GraphNode], place: Place, width: u32) {
        let mut y = place.y;
        for (at, node) in nodes.iter().enumerate() {
            let (own, height) = node.size();
            let middle = place.x + width / 2;
            if at > 0 {
                let (from, to) = (y - GAP + 2, y - 3);
                let _ = write!(
                    self.out,
                    "<path class=\"next\" d=\"M{middle} {from}V{to}M{} {}L{middle} {to}L{} {}\"/>",
                    middle - 4,
                    to - 5,
                    middle + 4,
                    to - 5
                );
            }
            self.node(node, Place { x: place.x + (width - own) / 2, y });
            y += height + GAP;
        }
    }

    fn node(&mut self, node: &GraphNode, place: Place) {
        match node {
            GraphNode::Step(step) => self.step(step, place),
            GraphNode::Parallel { id, nodes } => {
                self.frame(node, place, &format!("{id}: at once"));
                let mut x = place.x + FRAME;
                for node in nodes {
                    self.node(node, Place { x, y: place.y + FRAME + HEAD });
                    x += node.size().0 + BESIDE;
                }
                // Where the results of all of them are read from.
                self.steps.entry(id.clone()).or_insert(Place { x: place.x + node.size().0 - WIDTH, y: place.y });
            }
            GraphNode::Frame { label, nodes } => {
                self.frame(node, place, label);
                let inner = Place { x: place.x + FRAME, y: place.y + FRAME + HEAD };
                self.sequence(nodes, inner, node.size().0 - 2 * FRAME);
            }
        }
    }

    fn frame(&mut self, node: &GraphNode, Place { x, y }: Place, label: &str) {
        let (width, height) = node.size();
        let _ = write!(
            self.out,
            "<rect class=\"frame\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"5\"/>"
        );
        self.text("quiet", Place { x: x + FRAME, y: y + HEAD }, label);
    }

    fn step(&mut self, step: &GraphStep, Place { x, y }: Place) {
        let class = step.level.class();
        let _ = write!(
            self.out,
            "<rect class=\"step {class}\" x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"4\"/>"
        );
        self.text("id", Place { x: x + 10, y: y + 18 }, &step.id);
        self.text("quiet", Place { x: x + 10, y: y + 35 }, &step.about);
        self.steps.insert(step.id.clone(), Place { x, y });
        self.reads.extend(step.reads.iter().map(|id| (id.clone(), Place { x, y })));
    }

    fn text(&mut self, class: &str, Place { x, y }: Place, text: &str) {
        let _ = write!(self.out, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">");
        for character in clipped(text, LINE).chars() {
            match character {
                '&' => self.out.push_str("&amp;"),
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                _ if is_invisible(character) || character.is_control() => self.out.push('\u{fffd}'),
                _ => self.out.push(character),
            }
        }
        self.out.push_str("</text>");
    }

    /// The lines from results to who reads them, on the right of the boxes and behind them.
    fn edges(&mut self) -> String {
        let mut out = String::new();
        for (id, reader) in std::mem::take(&mut self.reads) {
            let Some(source) = self.steps.get(&id).filter(|source| source.y < reader.y) else { continue };
            let (from, to) = (source.x + WIDTH, reader.x + WIDTH);
            let far = from.max(to) + 14 + (reader.y - source.y).min(400) / 20;
            let (top, bottom) = (source.y + HEIGHT / 2, reader.y + HEIGHT / 2);
            let _ = write!(out, "<path class=\"reads\" d=\"M{from} {top}C{far} {top} {far} {bottom} {to} {bottom}\"/>");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(id: &str, reads: &[&str]) -> GraphNode {
        let reads = reads.iter().map(ToString::to_string).collect();
        GraphNode::Step(GraphStep { id: id.to_owned(), about: format!("calls {id}"), level: Level::Ok, reads })
    }

    #[test]
    fn steps_stand_in_order_and_results_lead_to_who_reads_them() {
        let graph = Graph {
            nodes: vec![
                step("one", &[]),
                GraphNode::Parallel { id: "both".into(), nodes: vec![step("left", &["one"]), step("right", &[])] },
                GraphNode::Frame { label: "for each item".into(), nodes: vec![step("inner", &["both", "gone"])] },
                step("last", &["left", "last"]),
            ],
        };
        assert!(graph.is_drawn());
        let svg = graph.to_string();
        let places: Vec<u32> = ["one", "left", "inner", "last"]
            .iter()
            .map(|id| {
                let text = format!(">{id}</text>");
                let before = &svg[..svg.find(&text).unwrap()];
                before.rsplit("y=\"").next().unwrap().split('"').next().unwrap().parse().unwrap()
            })
            .collect();
        assert!(places.is_sorted() && places.windows(2).all(|pair| pair[0] < pair[1]), "{places:?}");
        assert_eq!(svg.matches("class=\"reads\"").count(), 3, "not of what is gone, nor of itself: {svg}");
        assert_eq!(svg.matches("class=\"next\"").count(), 3);
        assert!(!Graph::default().is_drawn());
        assert!(!Graph { nodes: vec![step("x", &[]); MOST + 1] }.is_drawn());
    }

    #[test]
    fn names_are_text_and_never_markup() {
        let svg = Graph { nodes: vec![step("</text><script>alert(1)</script>\u{202e}\n", &[])] }.to_string();
        assert!(!svg.contains("<script") && !svg.contains('\u{202e}') && !svg.contains('\n'), "{svg}");
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    }
}
