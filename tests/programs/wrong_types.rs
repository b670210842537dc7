//! Exports `transom:codec/codec@0.1.0` by name, with other types in it: `handle` has a shorter clock and an input with
//! a case less, `suspend` is missing, and `pause` is nobody's.

#[cfg(target_arch = "wasm32")]
#[allow(missing_docs, unsafe_code, clippy::all, reason = "generated")]
mod exports {
    wit_bindgen::generate!({
        inline: "
            package transom:codec@0.1.0;
            interface codec {
                enum framing { lines, messages, exchange, outbound, chunks }
                record manifest {
                    protocol: string, revisions: list<string>, framings: list<framing>,
                    sends: list<string>, headers: list<string>, state-format: u32, resumes: list<u32>,
                }
                enum form { text, binary }
                record unit { lane: u32, form: form, bytes: list<u8> }
                variant input { unit(unit), deadline }

                describe: func() -> manifest;
                resource connection {
                    handle: func(now: u32, input: input) -> result<list<unit>, string>;
                    pause: func();
                }
            }
            world codec-component { export codec; }
        ",
    });

    use self::exports::transom::codec::codec::{Guest, GuestConnection, Input, Manifest, Unit};

    struct WrongTypes;
    struct Connection;

    impl Guest for WrongTypes {
        type Connection = Connection;

        fn describe() -> Manifest {
            Manifest {
                protocol: "wrong".to_owned(),
                revisions: vec![],
                framings: vec![],
                sends: vec![],
                headers: vec![],
                state_format: 1,
                resumes: vec![],
            }
        }
    }

    impl GuestConnection for Connection {
        fn handle(&self, _now: u32, _input: Input) -> Result<Vec<Unit>, String> {
            Ok(vec![])
        }

        fn pause(&self) {}
    }

    export!(WrongTypes);
}
