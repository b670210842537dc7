//! The ACP child backend: rows 48 to 50 of the checklist, the recordings, agents that misbehave, and agents that are this
//! program itself.

mod adverse;
mod ends;
mod jobs;
mod own;
mod rows;
mod swap;
mod vectors;
