//! Why a component cannot be loaded, in words for the operator who named it.
//! What goes wrong with a loaded one, call by call, is a `CodecError`.

use std::path::PathBuf;

use transom_connection::codec::CodecError;

/// Why a component, or the sandbox itself, cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file has no bytes at all, as after a copy that failed.
    #[error("the file is empty; a component was expected")]
    Empty,
    /// The file does not begin as WebAssembly does.
    #[error(
        "the file is not WebAssembly: it begins with {begins}, a component begins with 00 61 73 6d 0d 00 01 00"
    )]
    NotWasm {
        /// Its first bytes in hex.
        begins: String,
    },
    /// A core module, which a compiler gives before it is encoded.
    #[error(
        "the file is a core WebAssembly module; encode it as a component, for example with `wasm-tools component new`"
    )]
    CoreModule,
    /// A binary format of another time.
    #[error(
        "the file is WebAssembly of a kind this host does not know (version {version}, layer {layer})"
    )]
    UnknownFormat {
        /// The format's version.
        version: u16,
        /// 0 stands for modules, 1 for components.
        layer: u16,
    },
    /// The file ends in the middle of a section.
    #[error(
        "the file is cut short: the section at byte {at} needs {needed} bytes and {left} are left; fetch it again"
    )]
    Truncated {
        /// Where the last section begins.
        at: usize,
        /// How many bytes it announces.
        needed: u64,
        /// How many there are.
        left: usize,
    },
    /// The file is longer than this host compiles: compiling cannot be interrupted.
    #[error(
        "the component has {bytes} bytes, {allowed} are allowed; raise the limit if it is meant to be that large"
    )]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The bound.
        allowed: usize,
    },
    /// The file is complete, and its content breaks the rules of the format.
    #[error("the component is damaged: {detail}")]
    Malformed {
        /// What is wrong, and where.
        detail: String,
    },
    /// Codecs import nothing (design, section 2).
    #[error("the component imports {}; a codec imports nothing", quoted(names))]
    Imports {
        /// Every import.
        names: Vec<String>,
    },
    /// What it exports is not `transom:codec@0.1`.
    #[error(
        "the component does not fit transom:codec@0.1:{}{}{}",
        listed("missing", missing),
        listed("extra", extra),
        listed("changed", changed)
    )]
    Contract {
        /// What the contract has and the component has not.
        missing: Vec<String>,
        /// What the component has and the contract has not.
        extra: Vec<String>,
        /// What both have, with other types: what was expected and what was found.
        changed: Vec<String>,
    },
    /// The code is valid, and the compiler refuses it: it uses a feature or a size that this host does not allow.
    #[error("the component cannot be compiled: {detail}")]
    Compile {
        /// The compiler's words.
        detail: String,
    },
    /// The component compiles, and cannot say what it is: it failed or crossed a limit when it was first started.
    #[error("the component failed when it was asked to describe itself: {0}")]
    Describe(CodecError),
    /// What the component says of itself cannot be used.
    #[error("the component describes itself with {problem}")]
    Manifest {
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A limit of the policy allows nothing.
    #[error("the limit `{name}` is 0, which allows nothing; give a number or leave it out")]
    Limit {
        /// The limit.
        name: &'static str,
    },
    /// The folder for compiled code is not this user's alone, so what lies in it could be anybody's code.
    #[error("compiled code cannot be kept in {}: {problem}", path.display())]
    Cache {
        /// The folder.
        path: PathBuf,
        /// What was found, and what would be right.
        problem: String,
    },
    /// The machine cannot give what the engine needs.
    #[error("the sandbox cannot start: {detail}")]
    Engine {
        /// What was missing.
        detail: String,
    },
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn listed(title: &str, items: &[String]) -> String {
    items.iter().map(|item| format!("\n  {title}: {item}")).collect()
}
