//! Loads machine code that was compiled earlier. The only place in the host that is not safe by construction;
//! whether bytes may come here is decided in `cache.rs`.

use wasmtime::{Engine, component::Component};

/// Code that this program compiled, kept, and found unchanged. Only `cache.rs` makes one.
pub(crate) struct Proven(Vec<u8>);

impl Proven {
    /// Whoever calls this has checked what the SAFETY paragraph below says.
    pub(crate) fn new(bytes: Vec<u8>) -> Proven {
        Proven(bytes)
    }
}

/// Makes a component of it. Code for another engine or machine is refused by the engine's own header.
#[expect(unsafe_code, reason = "compiled code can only be trusted, not checked")]
pub(crate) fn load(engine: &Engine, code: &Proven) -> wasmtime::Result<Component> {
    // SAFETY: `Component::deserialize` runs what it is given, so the bytes must be what `Component::serialize` gave.
    // They are: `cache.rs` reads them from a regular file that belongs to this user and that nobody else can write, in a
    // folder of which the same is true, and compares them with a SHA-256 over content and key that was written with
    // them. The key names component, wasmtime version, target and configuration. Whoever could forge all that
    // owns this user's account, and needs no forged cache to run code under it. The bytes are in our own memory
    // by then, so the file cannot change between check and use.
    unsafe { Component::deserialize(engine, &code.0) }
}
