//! Text in, ranked tools out; pure.
