//! The checklist of the agent loop (`agent-loop.md` §21), row by row, against the real binary. A row that no peer of a
//! binary can bring about is tested beside the code; the table says where.

mod asks;
mod cancel;
mod delegation;
mod model;
mod order;
mod recovery;
mod stage;
mod tools;
