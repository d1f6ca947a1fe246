//! The units by quantity, each with its exact factor to the quantity's base unit.

use super::ArgumentError;

/// A quantity with its units.
#[derive(Debug)]
pub(super) struct Quantity {
    pub(super) name: &'static str,
    /// Name and factor; the factor of the base unit is 1.
    pub(super) units: &'static [(&'static str, f64)],
}

pub(super) const QUANTITIES: [&Quantity; 6] = [&LENGTH, &MASS, &VOLUME, &AREA, &SPEED, &DATA];

/// The international yard and pound agreement (1959); the nautical mile by the BIPM.
pub(super) const LENGTH: Quantity = Quantity {
    name: "length",
    units: &[
        ("millimetre", 0.001),
        ("centimetre", 0.01),
        ("metre", 1.0),
        ("kilometre", 1_000.0),
        ("inch", 0.0254),
        ("foot", 0.3048),
        ("yard", 0.9144),
        ("mile", 1_609.344),
        ("nautical_mile", 1_852.0),
    ],
};

pub(super) const MASS: Quantity = Quantity {
    name: "mass",
    units: &[
        ("milligram", 0.000_001),
        ("gram", 0.001),
        ("kilogram", 1.0),
        ("tonne", 1_000.0),
        ("ounce", 0.028_349_523_125),
        ("pound", 0.453_592_37),
        ("stone", 6.350_293_18),
        ("troy_ounce", 0.031_103_476_8),
    ],
};

/// US customary units after NIST Handbook 44, imperial ones after the Units of Measurement Regulations 1995.
pub(super) const VOLUME: Quantity = Quantity {
    name: "volume",
    units: &[
        ("millilitre", 0.001),
        ("litre", 1.0),
        ("cubic_metre", 1_000.0),
        ("teaspoon", 0.004_928_921_593_75),
        ("tablespoon", 0.014_786_764_781_25),
        ("us_cup", 0.236_588_236_5),
        ("us_fluid_ounce", 0.029_573_529_562_5),
        ("us_pint", 0.473_176_473),
        ("us_gallon", 3.785_411_784),
        ("imperial_pint", 0.568_261_25),
        ("imperial_gallon", 4.546_09),
    ],
};

pub(super) const AREA: Quantity = Quantity {
    name: "area",
    units: &[
        ("square_metre", 1.0),
        ("hectare", 10_000.0),
        ("square_kilometre", 1_000_000.0),
        ("square_foot", 0.092_903_04),
        ("acre", 4_046.856_422_4),
        ("square_mile", 2_589_988.110_336),
    ],
};

pub(super) const SPEED: Quantity = Quantity {
    name: "speed",
    units: &[
        ("metre_per_second", 1.0),
        ("kilometre_per_hour", 1.0 / 3.6),
        ("mile_per_hour", 0.447_04),
        ("foot_per_second", 0.3048),
        ("knot", 1_852.0 / 3_600.0),
    ],
};

pub(super) const DATA: Quantity = Quantity {
    name: "data_size",
    units: &[
        ("bit", 0.125),
        ("byte", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("KiB", 1_024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("TiB", 1_099_511_627_776.0),
    ],
};

/// Name, kelvins in one degree, and the zero of the scale in degrees above absolute zero.
pub(super) const TEMPERATURES: [(&str, f64, f64); 4] =
    [("celsius", 1.0, 273.15), ("fahrenheit", 5.0 / 9.0, 459.67), ("kelvin", 1.0, 0.0), ("rankine", 5.0 / 9.0, 0.0)];

// === impl Quantity ===

impl Quantity {
    /// How many base units one `unit` is.
    pub(super) fn factor(&self, key: &str, unit: &str) -> Result<f64, ArgumentError> {
        let found = self.units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.units.iter().map(|(name, _)| *name).collect();
            ArgumentError(format!("`{key}` must be one of {}", names.join(", ")))
        })
    }

    /// The unit that the factors refer to.
    pub(super) fn base(&self) -> &'static str {
        self.units.iter().find(|(_, factor)| *factor == 1.0).map_or("none", |(name, _)| name)
    }
}

pub(super) fn temperature(value: f64, from: &str, to: &str) -> Result<f64, ArgumentError> {
    let scale = |key: &str, name: &str| {
        let found = TEMPERATURES.iter().find(|(known, ..)| *known == name);
        found.map(|(_, degree, zero)| (*degree, *zero)).ok_or_else(|| {
            ArgumentError(format!("`{key}` must be one of {}", TEMPERATURES.map(|(known, ..)| known).join(", ")))
        })
    };
    let ((degree, zero), (wanted_degree, wanted_zero)) = (scale("from", from)?, scale("to", to)?);
    let above_zero = value + zero;
    if above_zero < 0.0 {
        return Err(ArgumentError(format!("{value} {from} is below absolute zero")));
    }
    if from == to {
        return Ok(value);
    }
    Ok(above_zero * degree / wanted_degree - wanted_zero)
}
