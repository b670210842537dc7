//! Ways out of confinement that somebody would try.
