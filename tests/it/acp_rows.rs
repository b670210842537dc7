//! The conformance checklist of the ACP door (acp.md §19), one test for each row of the automation surface, against the
//! real binary with the scripted model. Rows 48 to 50 are about the child backend, row 51 about the standard surface and
//! row 52 about published clients (`tests/peers`); row 47 is looked at with every frame that comes.

mod cancel;
mod ending;
mod framing;
mod handshake;
mod launch;
mod longest;
mod permissions;
mod prompts;
mod sessions;
