//! x
pub mod since_0_1;
