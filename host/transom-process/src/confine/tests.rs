//! What can be said of the confiner without starting one. Real walls are in `tests/confine.rs`.
