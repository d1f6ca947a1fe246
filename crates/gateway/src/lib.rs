//! The heart: sessions, profile views, meta-tools, operations and the one call path.
