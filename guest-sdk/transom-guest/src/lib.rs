//! What an author needs to write a codec component: types, the [`Machine`] trait, [`export!`], a reader of JSON, the
//! ids of JSON-RPC, options of doors, bytes for states, and the transcript player for tests (feature `testing`). The host's half stands in `transom-connection`.

#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod bindings;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod component;
pub mod json;
pub mod jsonrpc;
pub mod options;
pub mod pack;
#[cfg(feature = "testing")]
pub mod testing;
mod types;

pub use crate::types::*;

/// Makes this crate's component: `transom_guest::export!(Conversation);`, once per crate.
///
/// Built for any other target than WebAssembly it only checks that the type is a [`Machine`], so that the
/// same crate serves native tests and tools.
#[macro_export]
macro_rules! export {
    ($machine:ty) => {
        #[cfg(target_arch = "wasm32")]
        #[allow(
            unsafe_code,
            unreachable_pub,
            reason = "the interface's calling convention, generated"
        )]
        const _: () = {
            type Exported = $crate::component::Exported<$machine>;
    $crate::bindings::export_codec!(Exported with_types_in $crate::bindings);
        };

        #[cfg(not(target_arch = "wasm32"))]
        const _: fn() -> $crate::Manifest = <$machine as $crate::Machine>::describe;
    };
}
