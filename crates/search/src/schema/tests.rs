//! Schemas as servers write them, and as attackers do.
