//! A deployment in one file.

use std::{collections::BTreeSet, fs, io::Read as _};

use insta::assert_snapshot;
use serde_json::json;

use super::{Site, digest, echo};
use crate::support::{
    control::Control,
    place::{Place, text},
    process::{Finished, Launch, workspace},
    wire::{Signal, Wire},
};

/// A bundle on a machine that has nothing else.
struct Elsewhere {
    place: Place,
}

impl Elsewhere {
    fn new(bundle: &[u8]) -> Elsewhere {
        let place = Place::new();
        place.file("cwd/x.tar", bundle);
        Elsewhere { place }
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        let launch = Launch::new(arguments).directory(&self.place.cwd);
        launch.env("HOME", self.place.root()).run("")
    }

    fn error(&self) -> String {
        let finished = self.run(&["stdio", "echo", "--bundle", "x.tar"]);
        assert_eq!(finished.code, 1, "{finished:?}");
        // Nothing stays behind.
        let left = fs::read_dir(self.place.root().join(".local/state/transom/bundles"));
        assert_eq!(left.expect("a directory").count(), 0);
        finished.stderr.replace(text(self.place.root()), "<place>")
    }
}

fn bundled(site: &Site) -> Vec<u8> {
    let finished = site.run(&["bundle", "--manifest", "transom.toml", "--out", "x.tar"]);
    assert_eq!(finished.code, 0, "{finished:?}");
    site.read("x.tar")
}

/// An archive of these entries, whatever they are called.
fn archive(entries: &[(&str, &[u8], tar::EntryType)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes, kind) in entries {
        let mut header = tar::Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        header.set_size(bytes.len() as u64);
        header.set_cksum();
        archive.append(&header, *bytes).expect("a buffer takes everything");
    }
    archive.into_inner().expect("a buffer takes everything")
}

/// The entries of a bundle, with changes.
fn changed(bundle: &[u8], change: impl Fn(&str, Vec<u8>) -> Vec<u8>) -> Vec<u8> {
    let mut archive = tar::Archive::new(bundle);
    let entries: Vec<(String, Vec<u8>)> = archive
        .entries()
        .expect("an archive")
        .map(|entry| {
            let mut entry = entry.expect("an entry");
            let name = String::from_utf8(entry.path_bytes().into_owned()).expect("text");
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("bytes");
            let bytes = change(&name, bytes);
            (name, bytes)
        })
        .collect();
    let entries: Vec<_> = entries
        .iter()
        .map(|(name, bytes)| (name.as_str(), bytes.as_slice(), tar::EntryType::Regular))
        .collect();
    self::archive(&entries)
}

#[test]
fn a_bundle_needs_no_other_file() {
    let site = Site::new();
    site.file("site.toml", "[model]\nprovider = \"scripted\"\nscript = \"script.json\"\n");
    site.file(
        "script.json",
        fs::read(workspace().join("docs/examples/greeting.json")).expect("an example"),
    );
    let layers = ["--manifest", "transom.toml", "--manifest", "site.toml"];
    let pinned = site.run(&[&["pin"], &layers[..]].concat());
    assert_eq!(pinned.code, 0, "{pinned:?}");
    let made = site.run(&[&["bundle", "--json", "--out", "x.tar"], &layers[..]].concat());
    let made: serde_json::Value = serde_json::from_str(&made.stdout).expect("JSON");
    assert_eq!(made["digest"], digest(&site.read("x.tar")));
    assert_snapshot!(made["files"], @r#"["components/echo.wasm","components/sdk.wasm","manifests/00.toml","manifests/01.toml","model-script.json","policies/component.echo.toml","transom.lock"]"#);

    let elsewhere = Elsewhere::new(&site.read("x.tar"));
    let served = elsewhere.run(&["stdio", "echo", "--bundle", "x.tar"]);
    assert_eq!((served.code, served.stderr.as_str()), (0, ""), "{served:?}");
    let checked = elsewhere.run(&["check", "--strict", "--bundle", "x.tar"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    // The store of a relative path is where the program was started, and the bundle's own files are gone.
    assert!(elsewhere.place.cwd.join("store.db").is_file());
    let left = fs::read_dir(elsewhere.place.root().join(".local/state/transom/bundles"));
    assert_eq!(left.expect("a directory").count(), 0);
}

#[test]
fn personas_are_moved_and_programs_are_not() {
    let site = Site::pinned();
    site.file("reader.md", "You read.");
    let kind = "[subagents.reader]\ndescription = \"reads\"\npersona-file = \"reader.md\"\n";
    let hook = "[[hook]]\nname = \"look\"\nevent = \"pre-execute\"\ncommand = [\"./look\"]\n";
    let manifest = String::from_utf8(site.read("transom.toml")).expect("text");
    site.file("transom.toml", format!("{manifest}{kind}"));
    let elsewhere = Elsewhere::new(&bundled(&site));
    let checked = elsewhere.run(&["check", "--strict", "--bundle", "x.tar"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    let served = elsewhere.run(&["stdio", "echo", "--bundle", "x.tar"]);
    assert_eq!((served.code, served.stderr.as_str()), (0, ""), "{served:?}");

    site.file("transom.toml", format!("{manifest}{hook}"));
    assert_snapshot!(site.shown(&["bundle", "--manifest", "transom.toml", "--out", "y.tar"]), @"
    exit 1
    stderr: transom: the program of hook `look` is a file, and a bundle holds no programs; name one that is looked up in PATH
    ");
    let checked = site.run(&["check", "--manifest", "transom.toml"]);
    assert!(
        checked.stdout.contains("error: the program of hook `look` is not a file"),
        "{checked:?}"
    );
}

#[test]
fn equal_deployments_make_equal_bundles() {
    let (one, other) = (Site::pinned(), Site::pinned());
    assert_eq!(digest(&bundled(&one)), digest(&bundled(&other)));
    // And nothing of the directory is in one.
    let bundle = bundled(&one);
    let root = text(one.place.root()).as_bytes();
    assert!(!bundle.windows(root.len()).any(|part| part == root));
}

#[test]
fn only_what_is_pinned_is_bundled() {
    let site = Site::new();
    let bundle = ["bundle", "--manifest", "transom.toml", "--out", "x.tar"];
    assert_snapshot!(site.shown(&bundle), @"
    exit 1
    stderr: transom: a bundle holds a lock: there is no transom.lock, and `--locked` demands one; write it with `transom pin --manifest transom.toml`
    ");
    let site = Site::pinned();
    site.file("echo.wasm", echo("2.0.0"));
    assert_snapshot!(site.shown(&bundle), @"
    exit 1
    stderr: transom: transom.lock: component `echo` is <digest 2>, but the lock wants <digest 1> (version 1.0.0 from echo.wasm); if the change is meant, run `transom pin --update echo`
    ");
    assert!(!site.place.cwd.join("x.tar").exists());
}

#[test]
fn a_component_that_was_changed_inside_is_refused() {
    let bundle = bundled(&Site::pinned());
    let forged = changed(&bundle, |name, bytes| match name {
        "components/echo.wasm" => echo("2.0.0"),
        _ => bytes,
    });
    let error = Elsewhere::new(&forged).error();
    let error = error.replace(&digest(&echo("1.0.0")), "<digest 1>");
    assert_snapshot!(error.replace(&digest(&echo("2.0.0")), "<digest 2>"), @"transom: x.tar/transom.lock: component `echo` is <digest 2>, but the lock wants <digest 1> (version 1.0.0 from echo.wasm); if the change is meant, run `transom pin --update echo`");
}

#[test]
fn a_name_that_leads_elsewhere_is_refused() {
    let file = tar::EntryType::Regular;
    let check = |entries: &[(&str, &[u8], tar::EntryType)], expected: &str| {
        let elsewhere = Elsewhere::new(&archive(entries));
        let error = elsewhere.error();
        assert!(error.contains(expected), "{error}");
        assert!(!elsewhere.place.root().join("x").exists());
        assert!(!elsewhere.place.cwd.join("x").exists());
    };
    let no_name = "is no name that a bundle has";
    check(&[("../x", b"", file)], no_name);
    check(&[("components/../../x", b"", file)], no_name);
    check(&[("components/../x.wasm", b"", file)], no_name);
    check(&[("/tmp/x", b"", file)], no_name);
    check(&[("./transom.lock", b"", file)], no_name);
    check(&[("components/X.wasm", b"", file)], no_name);
    check(&[("policies/echo.toml", b"", file)], no_name);
    check(&[("readme", b"", file)], no_name);
    check(&[("transom.lock", b"", tar::EntryType::Symlink)], "is no plain file");
    check(&[("transom.lock", b"", tar::EntryType::Link)], "is no plain file");
    check(&[("components", b"", tar::EntryType::Directory)], "is no plain file");
    // Extensions by which the next entry would get another name.
    check(&[("x", b"transom.lock", tar::EntryType::GNULongName)], "is no plain file");
    check(&[("x", b"20 path=../x\n", tar::EntryType::XHeader)], "is no plain file");
    check(&[("transom.lock", b"", file), ("transom.lock", b"", file)], "is in it twice");
    check(&[("transom.lock", b"version = 1\n", file)], "it has no manifests/00.toml");
    check(&[("manifests/00.toml", b"", file)], "it has no transom.lock");
}

#[test]
fn what_is_too_large_or_cut_short_is_refused() {
    // The size is judged by what the entry announces, before anything of it is read.
    let mut header = tar::Header::new_ustar();
    header.set_path("transom.lock").expect("a short name");
    header.set_entry_type(tar::EntryType::Regular);
    header.set_size(1 << 40);
    header.set_cksum();
    let error = Elsewhere::new(header.as_bytes()).error();
    assert_snapshot!(error, @r#"transom: bundle x.tar: "transom.lock" in it has 1099511627776 bytes; 16777216 are allowed"#);

    let bundle = bundled(&Site::pinned());
    for length in [0, 100, 700, bundle.len() / 2] {
        let error = Elsewhere::new(&bundle[..length]).error();
        assert!(error.starts_with("transom: bundle x.tar: "), "{length}: {error}");
    }
    let error = Elsewhere::new(b"once upon a time, there was a file that was no archive").error();
    assert!(error.contains("bundle x.tar: "), "{error}");
}

#[test]
fn bundle_and_manifest_exclude_each_other() {
    let site = Site::pinned();
    let both = ["run", "--bundle", "x.tar", "--manifest", "transom.toml"];
    assert_eq!(site.run(&both).code, 2);
}

#[test]
fn what_a_killed_host_has_unpacked_is_removed_by_the_next_one() {
    let elsewhere = Elsewhere::new(&bundled(&Site::pinned()));
    let unpacked = || {
        let bundles = elsewhere.place.root().join(".local/state/transom/bundles");
        fs::read_dir(bundles)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").path())
            .collect::<BTreeSet<_>>()
    };
    let serving = || {
        let launch = Launch::new(["stdio", "echo", "--bundle", "x.tar"]);
        let launch = launch.directory(&elsewhere.place.cwd).env("HOME", elsewhere.place.root());
        let mut process = launch.start();
        process.write(b"hello\n");
        assert_eq!(process.line().as_deref(), Some("hello"), "{}", process.diagnostics());
        process
    };
    let mut killed = serving();
    let left = unpacked();
    assert_eq!(left.len(), 1);
    let mut lives = serving();
    let both = unpacked();
    assert!(both.len() == 2 && both.is_superset(&left), "one that is in use stays: {both:?}");
    killed.kill();
    let checked = elsewhere.run(&["check", "--bundle", "x.tar"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    assert_eq!(unpacked(), both.difference(&left).cloned().collect());
    lives.write(b"still here\n");
    assert_eq!(lives.line().as_deref(), Some("still here"));
    lives.close_input();
    assert_eq!(lives.exit(), 0, "{}", lives.diagnostics());
    assert_eq!(unpacked(), BTreeSet::new());
}

#[test]
fn a_host_follows_its_bundle_and_tells_one_from_its_like() {
    let site = Site::new();
    let manifest = super::MANIFEST.replace("\"stdio\"", "\"unix\"\nlisten = \"echo.sock\"");
    site.file("reader.md", "You read.");
    let kind = "[subagents.reader]\ndescription = \"reads\"\npersona-file = \"reader.md\"\n";
    let control = "[control]\nlisten = \"control.sock\"\n";
    site.file("transom.toml", format!("{manifest}{control}{kind}"));
    let pin = |more: &[&str]| {
        let pinned = site.run(&[&["pin", "--manifest", "transom.toml"], more].concat());
        assert_eq!(pinned.code, 0, "{pinned:?}");
    };
    pin(&[]);
    bundled(&site);
    let mut process = site.launch(&["run", "--bundle", "x.tar"]).start();
    while !process.line().expect("it starts").starts_with("ready") {}
    let mut control = Control::connect(&site.place.cwd.join("control.sock"));
    let nothing = json!({"changes": [], "swaps": [], "restart": []});
    assert_eq!(control.ask("reload", json!({})), Ok(nothing.clone()));

    // What was chosen by hand stays for as long as the bundle brings nothing else there.
    let file = site.file("same.wasm", echo("1.0.0"));
    let swap = json!({"component": "echo", "source": file});
    control.ask("swap", swap).expect("it is what the lock wants");
    assert_eq!(control.ask("reload", json!({})), Ok(nothing.clone()));
    assert_eq!(control.door("echo")["version"], 2);

    // The new bundle is held to its own lock.
    site.file("echo.wasm", echo("2.0.0"));
    pin(&["--update", "echo"]);
    bundled(&site);
    let answer = control.ask("reload", json!({})).expect("the bundle fits its lock");
    let rows = answer["changes"].as_array().expect("rows");
    let paths: Vec<_> = rows.iter().map(|row| row["path"].clone()).collect();
    assert_eq!(paths, ["component.echo.source"], "{answer}");
    // Long values are cut.
    let new = format!("x.tar/components/echo.wasm {:.20}", digest(&echo("2.0.0")));
    assert!(rows[0]["new"].as_str().is_some_and(|text| text.contains(&new)), "{answer}");
    let to = control.door("echo")["identity"].clone();
    assert!(to.as_str().is_some_and(|text| text.starts_with("echo 2.0.0 ")), "{to}");
    assert_eq!(control.ask("reload", json!({})), Ok(nothing));
    // And so is what comes by hand from now on.
    let refused = control.ask("swap", json!({"component": "echo", "source": file}));
    assert!(refused.is_err_and(|said| said.contains("but the lock wants")));

    // A persona is read at the start.
    site.file("reader.md", "You read aloud.");
    bundled(&site);
    let answer = control.ask("reload", json!({})).expect("read again");
    assert_eq!(answer["restart"], json!(["subagents.reader.persona-file"]), "{answer}");
    // The unpacking of the start and that of now, however often it was read.
    let below = site.place.root().join(".local/state/transom/bundles");
    assert_eq!(fs::read_dir(&below).expect("a directory").count(), 2);
    process.signal(Signal::Terminate);
    assert_eq!(process.exit(), 0, "{}", process.diagnostics());
    assert_eq!(fs::read_dir(&below).expect("a directory").count(), 0);
}
