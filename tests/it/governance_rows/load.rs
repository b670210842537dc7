//! Too much of everything: jobs, output, asks.
