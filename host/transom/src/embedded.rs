//! Components that are part of the program.

/// The bytes of a built-in component.
pub(crate) fn component(name: &str) -> Option<&'static [u8]> {
    match name {
        "acp" => Some(include_bytes!(concat!(env!("OUT_DIR"), "/acp.wasm"))),
        "acp-child" => Some(include_bytes!(concat!(env!("OUT_DIR"), "/acp-child.wasm"))),
        "sdk" => Some(include_bytes!(concat!(env!("OUT_DIR"), "/sdk.wasm"))),
        _ => None,
    }
}
