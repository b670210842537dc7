//! A deployment as its operator holds it: manifests in layers, pins, signatures, and all of it in one file.

mod bundles;
mod checks;
mod locks;
mod signatures;

use std::{fs, path::PathBuf};

use sha2::{Digest as _, Sha256};

use crate::support::{
    place::{Place, text},
    process::{Finished, Launch, built},
};

const MANIFEST: &str = r#"[component.echo]
source = "echo.wasm"
policy = "echo.toml"

[door.echo]
component = "echo"
carrier = "stdio"

[door.sdk]
component = "sdk"
carrier = "unix"
listen = "sdk.sock"

[store]
path = "store.db"
"#;

/// A directory with a manifest, a component and its policy.
struct Site {
    place: Place,
}

impl Site {
    fn new() -> Site {
        let site = Site { place: Place::new() };
        site.file("transom.toml", MANIFEST);
        site.file("echo.toml", "[frames]\nallow = []\n");
        site.file("echo.wasm", echo("1.0.0"));
        site
    }

    /// With a lock.
    fn pinned() -> Site {
        let site = Site::new();
        let pinned = site.run(&["pin", "--manifest", "transom.toml"]);
        assert_eq!(pinned.code, 0, "{pinned:?}");
        site
    }

    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        self.place.file(&format!("cwd/{name}"), text)
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.place.cwd.join(name)).expect("a file")
    }

    fn launch(&self, arguments: &[&str]) -> Launch {
        Launch::new(arguments).directory(&self.place.cwd).env("HOME", self.place.root())
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        self.launch(arguments).run("")
    }

    /// What came of it, with the digests of these components as words.
    fn shown(&self, arguments: &[&str]) -> String {
        self.show(&self.run(arguments))
    }

    fn show(&self, finished: &Finished) -> String {
        let versions = ["1.0.0", "2.0.0"].map(|version| (digest(&echo(version)), version));
        let mut replaced: Vec<(&str, &str)> = vec![(text(self.place.root()), "<place>")];
        replaced.extend(versions.iter().map(|(digest, version)| {
            let word = if *version == "1.0.0" { "<digest 1>" } else { "<digest 2>" };
            (digest.as_str(), word)
        }));
        let sdk = built_in_digest(self);
        replaced.push((&sdk, "<digest sdk>"));
        finished.shown(&replaced)
    }

    /// Whether code was ever compiled here: what is compiled is cached.
    fn has_compiled(&self) -> bool {
        let cache = self.place.root().join(".cache/transom/components");
        fs::read_dir(cache).is_ok_and(|mut entries| entries.next().is_some())
    }
}

/// The digest of the built-in component, as the program itself tells it.
fn built_in_digest(site: &Site) -> String {
    let manifest = site.place.file(
        "sdk-only.toml",
        "[door.sdk]\ncomponent = \"sdk\"\ncarrier = \"stdio\"\n[store]\npath = \"s.db\"\n",
    );
    let checked = site.run(&["check", "--json", "--manifest", text(&manifest)]);
    let checked: serde_json::Value = serde_json::from_str(&checked.stdout).expect("JSON");
    checked["components"][0]["digest"].as_str().expect("a digest").to_owned()
}

/// A component that calls itself this version. Both do the same.
fn echo(version: &str) -> Vec<u8> {
    let mut bytes = fs::read(built("components/echo.wasm")).expect("a component");
    // What it already calls itself stands last.
    if let Some(at) = bytes.windows(7).rposition(|word| word == b"version")
        && bytes[at - 3] == 0
    {
        bytes.truncate(at - 3);
    }
    let size = u8::try_from(8 + version.len()).expect("a short version");
    bytes.extend([0, size, 7]);
    bytes.extend(b"version");
    bytes.extend(version.bytes());
    bytes
}

fn digest(bytes: &[u8]) -> String {
    let digits: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}
