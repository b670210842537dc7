//! x
mod wit {
    wasmtime::component::bindgen!({
        path: "../../wit/codec/0.1",
        world: "codec-component",
        ownership: Borrowing { duplicate_if_necessary: true },
    });
}
