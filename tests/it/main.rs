//! The integration tests: one module for each question, on top of `support`.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and support may know more than one test asks"
)]

#[path = "../support/mod.rs"]
mod support;

mod acp_child;
mod acp_rows;
mod acp_standard;
mod acp_vectors;
mod cli;
mod conformance;
mod durability;
mod governance_rows;
mod hostile;
mod killed;
mod limits;
mod logs;
mod loop_rows;
mod operator;
mod pages;
mod pins;
mod swap;
mod vectors;
