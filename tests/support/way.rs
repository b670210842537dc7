//! The ways in which a recording is played.

use std::{fs, sync::Arc};

use transom_connection::codec::CodecSource;
use transom_guest::Machine;
use transom_sandbox::{Limits, Sandbox, SandboxConfig};

use super::{native::Native, process::built, restless::Restless};

/// How a conversation reaches a codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Native,
    NativeRestless,
    Sandboxed,
    SandboxedRestless,
    /// Through the program itself.
    Binary,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 5] =
        [Way::Native, Way::NativeRestless, Way::Sandboxed, Way::SandboxedRestless, Way::Binary];

    /// The codec that is played with, as a machine or as the component that is shipped; none where the program has its own.
    pub fn source<M: Machine + Send + 'static>(
        self,
        shipped: impl FnOnce() -> Arc<dyn CodecSource>,
    ) -> Option<Arc<dyn CodecSource>> {
        match self {
            Way::Native => Some(Native::<M>::source()),
            Way::NativeRestless => Some(Restless::source(Native::<M>::source())),
            Way::Sandboxed => Some(shipped()),
            Way::SandboxedRestless => Some(Restless::source(shipped())),
            Way::Binary => None,
        }
    }
}

/// The component as it is shipped, with the sandbox that it lives in.
pub fn shipped(name: &str) -> (Sandbox, Arc<dyn CodecSource>) {
    let sandbox = Sandbox::new(SandboxConfig::default()).expect("a sandbox");
    let bytes = fs::read(built(&format!("components/{name}.wasm"))).expect("the component");
    let component = sandbox.load(name, &bytes, Limits::default()).expect("the component loads");
    (sandbox, component)
}
