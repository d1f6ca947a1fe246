//! Load generator, yardsticks and search evaluation; a development crate.
