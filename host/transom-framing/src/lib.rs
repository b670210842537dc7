//! Bytes to units and back: lines, with bounds on length and nesting.
//! What a unit says is left to the codec; reading and writing the carrier to `transom-io`.

mod lines;
mod nesting;

pub use crate::{
    lines::{Bounds, Cut, EmbeddedLineFeed, Lines, check_line, encode_line},
    nesting::nests_deeper_than,
};

/// Which bound a unit crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Excess {
    /// More bytes than a unit may have.
    TooLong,
    /// More open brackets at one place than a unit may have.
    TooDeep,
}
