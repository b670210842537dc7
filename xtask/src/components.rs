//! Builds guests: compiles codecs for `wasm32-unknown-unknown`, encodes each as a component and proves what it imports.
//! Which components a deployment uses, and whether it trusts them, is decided elsewhere.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail, ensure};
use sha2::{Digest as _, Sha256};
use wit_component::{ComponentEncoder, DecodedWasm};

const TARGET: &str = "wasm32-unknown-unknown";

/// The stack of a guest. Rust's default of 1 MiB would make an idle connection that much larger once a deep call has
/// touched it; the codecs here need a tenth of this.
const STACK_BYTES: u32 = 128 << 10;

/// A component on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// Its name, for example `sdk`.
    pub name: String,
    /// Where it lies.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// The digest of its content, in hex.
    pub sha256: String,
}

/// Builds every codec of the workspace into `target/components/<name>.wasm`, wherever `CARGO_TARGET_DIR` points.
pub fn build(workspace_root: &Path, progress: &mut dyn FnMut(&str)) -> anyhow::Result<Vec<Built>> {
    let mut codecs = vec![("echo".to_owned(), workspace_root.join("guest-sdk/echo"))];
    for folder in entries(&workspace_root.join("components"))? {
        if folder.join("Cargo.toml").is_file() {
            codecs.push((stem(&folder)?, folder));
        }
    }
    prepare(progress)?;
    progress(&format!("compiling {} codecs for {TARGET}", codecs.len()));

    let mut arguments = vec!["--lib".to_owned()];
    for (name, _) in &codecs {
        arguments.extend(["--package".to_owned(), format!("transom-{name}")]);
    }
    let modules = compile(workspace_root, &arguments)?;
    codecs
        .iter()
        .map(|(name, _)| {
            // As crates are called in code.
            let module = modules.join(format!("transom_{}.wasm", name.replace('-', "_")));
            let component = versioned(encode(&module)?, env!("CARGO_PKG_VERSION"));
            let imports = imports(&component)?;
            ensure!(
                imports.is_empty(),
                "{name} imports {}: a codec imports nothing; find the crate that brought this in",
                imports.join(", ")
            );
            publish(&workspace_root.join("target/components"), name, &component)
        })
        .collect()
}

/// Builds the hostile guests of `tests/programs` into `target/programs/<name>.wasm`. Imports are among their crimes.
pub fn programs(
    workspace_root: &Path,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Vec<Built>> {
    let mut names = Vec::new();
    for file in entries(&workspace_root.join("tests/programs"))? {
        if file.extension().is_some_and(|extension| extension == "rs") {
            names.push(stem(&file)?);
        }
    }
    prepare(progress)?;
    progress(&format!("compiling {} hostile programs for {TARGET}", names.len()));

    let arguments = ["--package", "transom-programs", "--examples"].map(str::to_owned);
    let modules = compile(workspace_root, &arguments)?.join("examples");
    names
        .iter()
        .map(|name| {
            let component = encode(&modules.join(format!("{name}.wasm")))?;
            publish(&workspace_root.join("target/programs"), name, &component)
        })
        .collect()
}

/// Makes sure that the target is there, adding it where rustup can.
fn prepare(progress: &mut dyn FnMut(&str)) -> anyhow::Result<()> {
    let by_hand = format!(
        "add it by hand with `rustup target add {TARGET}`; where rustup cannot fetch, see the guest toolchain in docs/"
    );
    let Ok(listed) = Command::new("rustup").args(["target", "list", "--installed"]).output() else {
        // Without rustup the toolchain is the distribution's, and the compiler itself says what it lacks.
        return Ok(());
    };
    if String::from_utf8_lossy(&listed.stdout).lines().any(|target| target.trim() == TARGET) {
        return Ok(());
    }
    progress(&format!("the target {TARGET} is missing; running `rustup target add {TARGET}`"));
    let added = Command::new("rustup").args(["target", "add", TARGET]).status();
    ensure!(
        added.is_ok_and(|status| status.success()),
        "`rustup target add {TARGET}` failed; {by_hand}"
    );
    Ok(())
}

/// Compiles guests into their own target directory and gives the folder of the results.
fn compile(workspace_root: &Path, arguments: &[String]) -> anyhow::Result<PathBuf> {
    let target = workspace_root.join("target/guests");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(&cargo)
        .current_dir(workspace_root)
        .args([
            "build",
            "--quiet",
            "--locked",
            "--profile",
            "guest",
            "--target",
            TARGET,
            "--target-dir",
        ])
        .arg(&target)
        .args(arguments)
        // Guests are the same whatever flags the host is built with.
        .env_remove("RUSTFLAGS")
        .env("CARGO_ENCODED_RUSTFLAGS", rustflags(workspace_root)?)
        .status()
        .with_context(|| format!("cannot run {}", cargo.display()))?;
    ensure!(
        status.success(),
        "compiling guests failed ({status}); the compiler's words stand above"
    );
    Ok(target.join(TARGET).join("guest"))
}

/// Flags for guests. Paths of this machine are renamed, so that everybody builds the same bytes and a pin holds.
fn rustflags(workspace_root: &Path) -> anyhow::Result<OsString> {
    let mut flags = OsString::from(format!("-Clink-arg=-zstack-size={STACK_BYTES}"));
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo_home = env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let mut renamed = vec![(cargo_home.clone(), "/cargo"), (workspace_root.to_owned(), "/transom")];
    // Crates lie in a folder named for the registry they came from, which may be a mirror. The last name that fits wins.
    renamed.extend(
        entries(&cargo_home.join("registry/src"))?.into_iter().map(|from| (from, "/crates")),
    );
    for (from, to) in renamed {
        // What separates flags in this variable is the unit separator.
        flags.push("\u{1f}--remap-path-prefix=");
        flags.push(from);
        flags.push(format!("={to}"));
    }
    Ok(flags)
}

fn encode(module: &Path) -> anyhow::Result<Vec<u8>> {
    let bytes = fs::read(module).with_context(|| format!("{} was not built", module.display()))?;
    let encoded = ComponentEncoder::default()
        .validate(true)
        .module(&bytes)
        .and_then(|encoder| encoder.encode());
    encoded.with_context(|| format!("{} cannot be encoded as a component", module.display()))
}

/// Adds the version where tools look for it: a custom section at the end. Codecs have the workspace's version.
fn versioned(mut component: Vec<u8>, version: &str) -> Vec<u8> {
    const NAME: &[u8] = b"version";
    // Lengths below 128 are one byte of LEB128; a version is a few characters.
    let length = |bytes: usize| (bytes & 0x7f) as u8;
    component.extend([0, length(1 + NAME.len() + version.len()), length(NAME.len())]);
    component.extend(NAME);
    component.extend(version.bytes());
    component
}

/// What a component imports, by name.
fn imports(component: &[u8]) -> anyhow::Result<Vec<String>> {
    let DecodedWasm::Component(resolve, world) = wit_component::decode(component)? else {
        bail!("the encoder gave something else than a component");
    };
    let Some(world) = resolve.worlds.get(world) else { bail!("the component has no world") };
    Ok(world.imports.keys().map(|key| resolve.name_world_key(key)).collect())
}

/// Puts a component in its place in one move, so that nobody ever reads half of one. One that is there already stays
/// untouched, with its time.
fn publish(folder: &Path, name: &str, component: &[u8]) -> anyhow::Result<Built> {
    let path = folder.join(format!("{name}.wasm"));
    if !fs::read(&path).is_ok_and(|there| there == component) {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let unfinished = folder.join(format!(".{name}.{}.tmp", std::process::id()));
        fs::write(&unfinished, component)
            .and_then(|()| fs::rename(&unfinished, &path))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(Built {
        name: name.to_owned(),
        path,
        bytes: component.len() as u64,
        sha256: hex::encode(Sha256::digest(component)),
    })
}

/// What lies in a folder, in order of name; a folder that is not there is empty.
fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut paths =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn stem(path: &Path) -> anyhow::Result<String> {
    let name = path.file_stem().and_then(|name| name.to_str());
    name.map(str::to_owned).with_context(|| format!("{} has no readable name", path.display()))
}
