//! What tests of several kinds share. Each file stands alone, so that a crate can take one by path.

pub mod model_server;
