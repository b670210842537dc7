//! Agents as programs of a shell.
