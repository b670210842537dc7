//! Model providers: `deepseek-official` (chat completions over SSE) and `scripted` (deterministic,
//! keyless), behind one table. The loop that calls them is `transom-harness`; configuration and
//! environment are read by the program.

mod answer;
pub mod deepseek;
mod providers;
pub mod scripted;

pub use crate::{
    answer::Chunks,
    deepseek::DeepSeek,
    providers::{Offer, Provider, Providers, UnknownProvider},
    scripted::Scripted,
};
