//! A codec that would look at clocks: it imports two interfaces and uses both.

use transom_guest::{Fault, Outputs};
use transom_programs::{Crime, Program};

transom_guest::export!(Program<ImportsClock>);

struct ImportsClock;

impl Crime for ImportsClock {
    fn unit(out: &mut Outputs, text: &str) -> Option<Result<(), Fault>> {
        (text == "time").then(|| {
            out.unit(now().to_string());
            Ok(())
        })
    }
}

#[cfg(target_arch = "wasm32")]
fn now() -> u64 {
    imports::wasi::clocks::monotonic_clock::now() + imports::programs::clocks::sundial::hour()
}

/// Outside a component there is no clock to import.
#[cfg(not(target_arch = "wasm32"))]
fn now() -> u64 {
    0
}

#[cfg(target_arch = "wasm32")]
#[allow(missing_docs, unsafe_code, clippy::all, reason = "generated")]
mod imports {
    wit_bindgen::generate!({
        inline: "
            package programs:clocks;
            interface sundial { hour: func() -> u64; }
            world imports-clock {
                import wasi:clocks/monotonic-clock@0.2.6;
                import sundial;
            }
            package wasi:clocks@0.2.6 {
                interface monotonic-clock { now: func() -> u64; }
            }
        ",
        world: "programs:clocks/imports-clock",
        generate_all,
    });
}
