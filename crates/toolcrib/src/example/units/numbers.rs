//! Statistics of lists of numbers.

use serde_json::json;

use super::{ArgumentError, Arguments, NUMBERS, ToolReply, UnitsServer, finite, rounded};
use crate::example::arguments::missing;

/// How many percentiles may be asked for at a time.
const PERCENTILES: usize = 20;

pub(super) fn statistics(_: &UnitsServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let mut numbers = arguments.numbers("numbers", NUMBERS)?.ok_or_else(|| missing("numbers"))?;
    let percentiles = arguments.numbers("percentiles", PERCENTILES)?.unwrap_or_default();
    if percentiles.iter().any(|percentile| !(0.0..=100.0).contains(percentile)) {
        return Err(ArgumentError("`percentiles` must be from 0 to 100".to_owned()));
    }
    numbers.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (numbers.first().copied(), numbers.last().copied()) else {
        return Err(ArgumentError("`numbers` is empty".to_owned()));
    };
    let count = numbers.len() as f64;
    let sum = finite(numbers.iter().sum())?;
    let mean = sum / count;
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    let mut structured = json!({
        "count": numbers.len(), "sum": rounded(sum), "mean": rounded(mean), "median": rounded(percentile(&numbers, 50.0)),
        "min": least, "max": most,
    });
    let mut text = format!(
        "{} numbers from {least} to {most}: sum {}, mean {}, median {}",
        numbers.len(),
        structured["sum"],
        structured["mean"],
        structured["median"]
    );
    if numbers.len() > 1 {
        let deviation = rounded(finite((squares / (count - 1.0)).sqrt())?);
        text.push_str(&format!(", standard deviation {deviation}"));
        structured["standard_deviation"] = json!(deviation);
    }
    if !percentiles.is_empty() {
        let mut found = json!({});
        for wanted in percentiles {
            let value = rounded(finite(percentile(&numbers, wanted))?);
            text.push_str(&format!(", percentile {wanted}: {value}"));
            found[wanted.to_string()] = json!(value);
        }
        structured["percentiles"] = found;
    }
    Ok(ToolReply::new(text, structured))
}

/// Of sorted numbers that are at least one, by linear interpolation.
fn percentile(sorted: &[f64], percentile: f64) -> f64 {
    let place = percentile / 100.0 * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

pub(super) fn linear_fit(_: &UnitsServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let x = arguments.numbers("x", NUMBERS)?.ok_or_else(|| missing("x"))?;
    let y = arguments.numbers("y", NUMBERS)?.ok_or_else(|| missing("y"))?;
    if x.len() != y.len() || x.len() < 2 {
        return Err(ArgumentError(format!(
            "`x` has {} numbers and `y` {}: give as many of both, at least 2",
            x.len(),
            y.len()
        )));
    }
    let count = x.len() as f64;
    let (mean_x, mean_y) = (x.iter().sum::<f64>() / count, y.iter().sum::<f64>() / count);
    let sum = |term: fn(f64, f64) -> f64| x.iter().zip(&y).map(|(x, y)| term(x - mean_x, y - mean_y)).sum::<f64>();
    let (xx, xy, yy) = (sum(|x, _| x * x), sum(|x, y| x * y), sum(|_, y| y * y));
    if xx == 0.0 {
        return Err(ArgumentError("all `x` are equal: no line can be fitted".to_owned()));
    }
    let slope = finite(xy / xx)?;
    let intercept = rounded(finite(mean_y - slope * mean_x)?);
    // Points on a level line are met exactly.
    let r_squared = if yy == 0.0 { 1.0 } else { rounded(finite(xy * xy / (xx * yy))?) };
    let slope = rounded(slope);
    let text = format!("y = {slope} · x + {intercept}, r squared {r_squared}, from {} points", x.len());
    Ok(ToolReply::new(
        text,
        json!({ "slope": slope, "intercept": intercept, "r_squared": r_squared, "points": x.len() }),
    ))
}

pub(super) fn percentage_change(_: &UnitsServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let (before, after) = (arguments.needed_number("before")?, arguments.needed_number("after")?);
    if before == 0.0 {
        return Err(ArgumentError("`before` is 0: a change from it has no percentage".to_owned()));
    }
    let percent = rounded(finite((after - before) / before.abs() * 100.0)?);
    let direction = if percent < 0.0 { "" } else { "+" };
    Ok(ToolReply::new(format!("{before} to {after} is {direction}{percent} %"), json!({ "percent": percent })))
}
