//! Request and snapshot in, Permit or Denial out; pure.
