//! The example server `units`: conversion between units of measurement, and sums over lists of numbers.

mod convert;
mod numbers;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use super::tool::{self, Effect};
use super::{ArgumentError, Arguments, Example, ExampleInfo, Tool, ToolReply};
use convert::{AREA, DATA, LENGTH, MASS, QUANTITIES, Quantity, SPEED, VOLUME};

/// How many numbers a list may have.
const NUMBERS: usize = 10_000;
/// To how many significant digits results are shown.
const DIGITS: usize = 12;

const ABOUT: ExampleInfo = ExampleInfo {
    name: "units",
    title: "Units and numbers",
    instructions: "Converts between units of measurement with exact factors and calculates simple statistics. Ask \
                   `list_units` which units are known.",
};

/// The server. It keeps nothing.
pub(crate) struct UnitsServer;

const TOOLS: &[Tool<UnitsServer>] = &[
    Tool {
        name: "convert_length",
        title: "Convert a length",
        description: "Convert a length or distance between metric, imperial and nautical units, for example miles to \
                      kilometres.",
        effect: Effect::Reads,
        properties: || conversion(&LENGTH),
        required: &["value", "from", "to"],
        run: |_, arguments| convert_by(&LENGTH, arguments),
    },
    Tool {
        name: "convert_mass",
        title: "Convert a mass",
        description: "Convert a mass or weight between metric, avoirdupois and troy units, for example pounds to kilograms.",
        effect: Effect::Reads,
        properties: || conversion(&MASS),
        required: &["value", "from", "to"],
        run: |_, arguments| convert_by(&MASS, arguments),
    },
    Tool {
        name: "convert_temperature",
        title: "Convert a temperature",
        description: "Convert a temperature between Celsius, Fahrenheit, Kelvin and Rankine. Refuses temperatures below \
                      absolute zero.",
        effect: Effect::Reads,
        properties: || {
            let units: Vec<&str> = convert::TEMPERATURES.iter().map(|(name, ..)| *name).collect();
            json!({
                "value": { "type": "number", "description": "The temperature to convert" },
                "from": { "type": "string", "enum": units, "description": "Its scale" },
                "to": { "type": "string", "enum": units, "description": "The wanted scale" },
            })
        },
        required: &["value", "from", "to"],
        run: convert_temperature,
    },
    Tool {
        name: "convert_volume",
        title: "Convert a volume",
        description: "Convert a volume between metric, US and imperial units, also those of kitchens such as cups and \
                      tablespoons.",
        effect: Effect::Reads,
        properties: || conversion(&VOLUME),
        required: &["value", "from", "to"],
        run: |_, arguments| convert_by(&VOLUME, arguments),
    },
    Tool {
        name: "convert_area",
        title: "Convert an area",
        description: "Convert an area between square metres, hectares, acres and others.",
        effect: Effect::Reads,
        properties: || conversion(&AREA),
        required: &["value", "from", "to"],
        run: |_, arguments| convert_by(&AREA, arguments),
    },
    Tool {
        name: "convert_speed",
        title: "Convert a speed",
        description: "Convert a speed between km/h, mph, knots and others.",
        effect: Effect::Reads,
        properties: || conversion(&SPEED),
        required: &["value", "from", "to"],
        run: |_, arguments| convert_by(&SPEED, arguments),
    },
    Tool {
        name: "convert_data_size",
        title: "Convert an amount of data",
        description: "Convert an amount of data between bits, bytes and their decimal (MB) and binary (MiB) multiples.",
        effect: Effect::Reads,
        properties: || conversion(&DATA),
        required: &["value", "from", "to"],
        run: |_, arguments| convert_by(&DATA, arguments),
    },
    Tool {
        name: "list_units",
        title: "List units",
        description: "List the units that can be converted, with how much each is in the quantity's base unit.",
        effect: Effect::Reads,
        properties: || {
            let names: Vec<&str> = QUANTITIES.iter().map(|quantity| quantity.name).collect();
            json!({ "quantity": { "type": "string", "enum": names, "description": "Only units of this quantity" } })
        },
        required: &[],
        run: list_units,
    },
    Tool {
        name: "statistics",
        title: "Statistics of a list",
        description: "Calculate count, sum, mean, median, minimum, maximum and sample standard deviation of a list of \
                      numbers, and percentiles if asked for (linear interpolation).",
        effect: Effect::Reads,
        properties: || {
            json!({
                "numbers": numbers_schema("The numbers", 1),
                "percentiles": {
                    "type": "array", "maxItems": 20, "items": { "type": "number", "minimum": 0, "maximum": 100 },
                    "description": "Which percentiles, such as [50, 90, 99]",
                },
            })
        },
        required: &["numbers"],
        run: numbers::statistics,
    },
    Tool {
        name: "linear_fit",
        title: "Fit a line",
        description: "Fit a straight line y = slope · x + intercept through points by least squares, and tell how well it \
                      fits (r squared).",
        effect: Effect::Reads,
        properties: || {
            json!({
                "x": numbers_schema("The x values", 2),
                "y": numbers_schema("The y values, as many as x values", 2),
            })
        },
        required: &["x", "y"],
        run: numbers::linear_fit,
    },
    Tool {
        name: "percentage_change",
        title: "Percentage change",
        description: "Tell by how many percent a value changed.",
        effect: Effect::Reads,
        properties: || {
            json!({
                "before": { "type": "number", "description": "The value before; not 0" },
                "after": { "type": "number", "description": "The value after" },
            })
        },
        required: &["before", "after"],
        run: numbers::percentage_change,
    },
];

fn conversion(quantity: &Quantity) -> Value {
    let units: Vec<&str> = quantity.units.iter().map(|(name, _)| *name).collect();
    json!({
        "value": { "type": "number", "description": format!("The {} to convert", quantity.name.replace('_', " ")) },
        "from": { "type": "string", "enum": units, "description": "Its unit" },
        "to": { "type": "string", "enum": units, "description": "The wanted unit" },
    })
}

fn numbers_schema(description: &str, least: usize) -> Value {
    json!({ "type": "array", "items": { "type": "number" }, "minItems": least, "maxItems": NUMBERS, "description": description })
}

// === impl UnitsServer ===

impl Example for UnitsServer {
    fn about(&self) -> &'static ExampleInfo {
        &ABOUT
    }

    fn tools(&self) -> Vec<Value> {
        tool::entries(TOOLS)
    }

    fn call(&self, name: &str, arguments: &Arguments) -> Option<Result<ToolReply, ArgumentError>> {
        tool::call(TOOLS, self, name, arguments)
    }
}

fn convert_by(quantity: &Quantity, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let value = arguments.needed_number("value")?;
    let (from, to) = (arguments.needed_text("from")?, arguments.needed_text("to")?);
    let result = finite(value * quantity.factor("from", from)? / quantity.factor("to", to)?)?;
    Ok(converted(&Amount { value, unit: from }, &Amount { value: rounded(result), unit: to }))
}

fn convert_temperature(_: &UnitsServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let value = arguments.needed_number("value")?;
    let (from, to) = (arguments.needed_text("from")?, arguments.needed_text("to")?);
    let result = finite(convert::temperature(value, from, to)?)?;
    Ok(converted(&Amount { value, unit: from }, &Amount { value: rounded(result), unit: to }))
}

/// So much of a unit.
struct Amount<'a> {
    value: f64,
    unit: &'a str,
}

fn converted(from: &Amount<'_>, to: &Amount<'_>) -> ToolReply {
    let text = format!("{} {} = {} {}", from.value, from.unit, to.value, to.unit);
    ToolReply::new(text, json!({ "value": to.value, "unit": to.unit }))
}

fn list_units(_: &UnitsServer, arguments: &Arguments) -> Result<ToolReply, ArgumentError> {
    let wanted = arguments.text("quantity")?;
    let shown: Vec<&Quantity> =
        QUANTITIES.iter().copied().filter(|quantity| wanted.is_none_or(|name| name == quantity.name)).collect();
    if shown.is_empty() {
        let names: Vec<&str> = QUANTITIES.iter().map(|quantity| quantity.name).collect();
        return Err(ArgumentError(format!("`quantity` must be one of {}", names.join(", "))));
    }
    let mut structured = json!({});
    let mut lines = Vec::new();
    for quantity in shown {
        let base = quantity.base();
        let units: Vec<Value> =
            quantity.units.iter().map(|(unit, factor)| json!({ "unit": unit, "in_base": factor })).collect();
        structured[quantity.name] = json!({ "base": base, "units": units });
        let names: Vec<&str> = quantity.units.iter().map(|(name, _)| *name).collect();
        lines.push(format!("{} (base {base}): {}", quantity.name, names.join(", ")));
    }
    Ok(ToolReply::new(lines.join("\n"), structured))
}

fn finite(value: f64) -> Result<f64, ArgumentError> {
    if value.is_finite() { Ok(value) } else { Err(ArgumentError("the result is too large for a number".to_owned())) }
}

/// To [`DIGITS`] significant digits, so that 0.1 + 0.2 reads as 0.3.
fn rounded(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}
