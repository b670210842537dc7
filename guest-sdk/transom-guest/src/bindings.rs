//! The generated half of `wit/codec/0.1`: how its types cross the boundary of a component.
//! Authors meet none of it; `component.rs` turns these types into ours.

#![allow(
    missing_docs,
    unreachable_pub,
    unsafe_code,
    unused_qualifications,
    clippy::all,
    clippy::unwrap_used,
    reason = "generated from the interface, which carries the comments"
)]

wit_bindgen::generate!({
    path: "../../wit/codec/0.1",
    world: "codec-component",
    pub_export_macro: true,
    export_macro_name: "export_codec",
    default_bindings_module: "transom_guest::bindings",
});
