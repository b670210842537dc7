//! What tests of several kinds share. Each file stands alone, so that a crate can take one by path.

pub(crate) mod acp;
pub(crate) mod agents;
pub(crate) mod bench;
pub(crate) mod child_recording;
pub(crate) mod client;
pub(crate) mod control;
pub(crate) mod departures;
pub(crate) mod frames;
pub(crate) mod memory;
pub(crate) mod model_server;
pub(crate) mod native;
pub(crate) mod place;
pub(crate) mod play;
pub(crate) mod process;
pub(crate) mod recording;
pub(crate) mod restless;
pub(crate) mod signer;
pub(crate) mod socket;
pub(crate) mod transcript;
pub(crate) mod vector;
pub(crate) mod way;
pub(crate) mod wire;
