//! Each tool of the units with known values, and what is refused.

use super::*;

fn ask(tool: &str, arguments: Value) -> Result<ToolReply, String> {
    let arguments = Arguments::new(arguments).unwrap();
    UnitsServer.call(tool, &arguments).unwrap().map_err(|wrong| wrong.0)
}

fn check_refused(tool: &str, arguments: Value, part: &str) {
    let shown = format!("{tool} {arguments}");
    let wrong = ask(tool, arguments).unwrap_err();
    assert!(wrong.contains(part), "{shown}: {wrong}");
}

#[test]
fn units_are_converted() {
    for (quantity, value, from, to, expected) in [
        ("length", 26.2, "mile", "kilometre", 42.1648128),
        ("length", 0.1, "metre", "centimetre", 10.0),
        ("length", -6.0, "foot", "inch", -72.0),
        ("mass", 1.0, "stone", "pound", 14.0),
        ("volume", 1.0, "us_gallon", "us_cup", 16.0),
        ("volume", 8.0, "imperial_pint", "imperial_gallon", 1.0),
        ("area", 640.0, "acre", "square_mile", 1.0),
        ("speed", 90.0, "kilometre_per_hour", "metre_per_second", 25.0),
        ("data_size", 1.0, "GiB", "MB", 1_073.741824),
        ("temperature", 100.0, "celsius", "fahrenheit", 212.0),
        ("temperature", -40.0, "fahrenheit", "celsius", -40.0),
        ("temperature", 0.0, "kelvin", "rankine", 0.0),
    ] {
        let told = ask(&format!("convert_{quantity}"), json!({ "value": value, "from": from, "to": to })).unwrap();
        assert_eq!(told.structured, json!({ "value": expected, "unit": to }), "{value} {from}");
    }
    assert_eq!(
        ask("convert_length", json!({"value": 26.2, "from": "mile", "to": "kilometre"})).unwrap().text,
        "26.2 mile = 42.1648128 kilometre"
    );
    check_refused("convert_length", json!({"value": 1, "from": "parsec", "to": "metre"}), "`from` must be one of");
    check_refused("convert_length", json!({"value": 1, "from": "metre"}), "`to` is missing");
    check_refused("convert_length", json!({"value": 1e308, "from": "kilometre", "to": "millimetre"}), "too large");
    check_refused("convert_temperature", json!({"value": -300, "from": "celsius", "to": "kelvin"}), "absolute zero");
}

#[test]
fn every_quantity_has_one_base_unit() {
    for quantity in QUANTITIES {
        assert_eq!(quantity.units.iter().filter(|(_, factor)| *factor == 1.0).count(), 1, "{}", quantity.name);
    }
    let told = ask("list_units", json!({})).unwrap();
    assert_eq!(told.text.lines().count(), QUANTITIES.len());
    assert_eq!(ask("list_units", json!({"quantity": "mass"})).unwrap().structured["mass"]["base"], "kilogram");
    check_refused("list_units", json!({"quantity": "charm"}), "one of length");
}

#[test]
fn numbers_are_summed_up() {
    let told = ask("statistics", json!({"numbers": [4, 1, 3, 2], "percentiles": [0, 25, 100]})).unwrap();
    assert_eq!(
        told.structured,
        json!({
            "count": 4, "sum": 10.0, "mean": 2.5, "median": 2.5, "min": 1.0, "max": 4.0,
            "standard_deviation": 1.29099444874, "percentiles": {"0": 1.0, "25": 1.75, "100": 4.0},
        })
    );
    assert_eq!(ask("statistics", json!({"numbers": [7]})).unwrap().structured.get("standard_deviation"), None);
    check_refused("statistics", json!({"numbers": []}), "empty");
    check_refused("statistics", json!({"numbers": [1], "percentiles": [101]}), "0 to 100");
    check_refused("statistics", json!({"numbers": [1e308, 1e308]}), "too large");
    let fit = ask("linear_fit", json!({"x": [0, 1, 2], "y": [1, 3, 5]})).unwrap();
    assert_eq!(fit.structured, json!({"slope": 2.0, "intercept": 1.0, "r_squared": 1.0, "points": 3}));
    check_refused("linear_fit", json!({"x": [1, 1], "y": [1, 2]}), "equal");
    check_refused("linear_fit", json!({"x": [1], "y": [1, 2]}), "as many");
    assert_eq!(ask("percentage_change", json!({"before": -50, "after": -25})).unwrap().structured["percent"], 50.0);
    check_refused("percentage_change", json!({"before": 0, "after": 1}), "no percentage");
}
