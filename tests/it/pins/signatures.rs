//! Detached minisign signatures: `echo.wasm.minisig`.

use insta::assert_snapshot;

use super::{Site, echo};
use crate::support::signer::{Author, Form};

/// A deployment that trusts one author, and her.
fn signed(require: bool) -> (Site, Author) {
    let (site, author) = (Site::new(), Author::new(7));
    let (require, key) = (if require { "require-signature = true" } else { "" }, author.public());
    site.file("echo.toml", format!("[trust]\n{require}\nkeys = [{key:?}]\n"));
    (site, author)
}

fn outcome(site: &Site) -> String {
    let finished = site.run(&["stdio", "echo", "--manifest", "transom.toml"]);
    assert_eq!(finished.code == 0, finished.stderr.is_empty(), "{finished:?}");
    // Whatever is refused is refused before it is compiled.
    assert_eq!(finished.code == 0, site.has_compiled(), "{finished:?}");
    finished.stderr.trim_end().to_owned()
}

#[test]
fn a_good_signature_counts_in_both_forms() {
    for form in [Form::Prehashed, Form::Whole] {
        let (site, author) = signed(true);
        site.file("echo.wasm.minisig", author.sign(&echo("1.0.0"), form, "by hand"));
        assert_eq!(outcome(&site), "", "{form:?}");
        // The lock says by whom.
        let pinned = site.run(&["pin", "--manifest", "transom.toml"]);
        assert_eq!(pinned.code, 0, "{pinned:?}");
        let lock = String::from_utf8(site.read("transom.lock")).expect("text");
        assert!(lock.contains(&format!("signed-by = {:?}", author.public())), "{lock}");
        let checked = site.run(&["check", "--manifest", "transom.toml"]);
        let said = match form {
            Form::Prehashed => "(prehashed)",
            Form::Whole => "(of the file itself)",
        };
        assert!(checked.stdout.contains(said), "{checked:?}");
        assert_eq!(checked.code, 0, "{checked:?}");
    }
}

#[test]
fn a_signature_that_is_required_and_missing_is_told() {
    let (site, _) = signed(true);
    assert_snapshot!(outcome(&site), @"transom: component `echo` from echo.wasm bears no signature: there is no echo.wasm.minisig, and its policy requires one by RWQHBwcHBwcHB+pKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs (id 0707070707070707); make it with `minisign -Sm echo.wasm`");
    assert_eq!(site.run(&["pin", "--manifest", "transom.toml"]).code, 1);
}

#[test]
fn a_signature_by_somebody_else_is_told() {
    let (site, _) = signed(true);
    let other = Author::new(9);
    site.file("echo.wasm.minisig", other.sign(&echo("1.0.0"), Form::Prehashed, ""));
    assert_snapshot!(outcome(&site), @"transom: component `echo` from echo.wasm is signed by the key 0909090909090909, which its policy does not name; it names RWQHBwcHBwcHB+pKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs (id 0707070707070707)");
}

#[test]
fn a_changed_file_a_changed_comment_and_a_stranger_under_a_known_id_are_told() {
    let (site, author) = signed(true);
    site.file("echo.wasm.minisig", author.sign(&echo("2.0.0"), Form::Prehashed, "by hand"));
    assert_snapshot!(outcome(&site), @"transom: component `echo` from echo.wasm is not what RWQHBwcHBwcHB+pKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs signed: the file, its signature echo.wasm.minisig or the signature's trusted comment was changed since; fetch them again");
    let (site, author) = signed(true);
    site.file("echo.wasm.minisig", author.sign(&echo("2.0.0"), Form::Whole, "by hand"));
    assert!(outcome(&site).contains("is not what RWQ"));
    let (site, author) = signed(true);
    let signature = author.sign(&echo("1.0.0"), Form::Prehashed, "version 1");
    site.file("echo.wasm.minisig", signature.replace("version 1", "version 2"));
    assert!(outcome(&site).contains("is not what RWQ"));
    // Another key that calls itself by the same id.
    let (site, author) = signed(true);
    let stranger = Author::new(9).under(&author);
    site.file("echo.wasm.minisig", stranger.sign(&echo("1.0.0"), Form::Prehashed, "by hand"));
    assert!(outcome(&site).contains("is not what RWQ"));
}

#[test]
fn what_is_no_signature_is_told() {
    let (site, author) = signed(true);
    let signature = author.sign(&echo("1.0.0"), Form::Prehashed, "by hand");
    site.file("echo.wasm.minisig", "");
    assert_snapshot!(outcome(&site), @"transom: echo.wasm.minisig is no signature of minisign: it has four lines, two of them base64 and the third `trusted comment: …`; fetch it again");
    let lines: Vec<&str> = signature.lines().collect();
    for text in [lines[..3].join("\n"), signature.replace("RUQ", "AAQ"), "\u{fffd}".repeat(90)] {
        site.file("echo.wasm.minisig", text);
        assert!(outcome(&site).contains("is no signature of minisign"));
    }
}

#[test]
fn a_signature_that_is_not_required_must_still_be_good() {
    let (site, author) = signed(false);
    assert_eq!(outcome(&site), "");
    let (site, _) = signed(false);
    site.file("echo.wasm.minisig", author.sign(&echo("2.0.0"), Form::Prehashed, ""));
    assert!(outcome(&site).contains("is not what RWQ"));
}

#[test]
fn a_built_in_component_bears_no_signature() {
    let (site, author) = (Site::new(), Author::new(7));
    let policy = format!("[trust]\nrequire-signature = true\nkeys = [{:?}]\n", author.public());
    site.file("strict.toml", policy);
    assert_snapshot!(
        site.shown(&["stdio", "sdk", "--manifest", "transom.toml", "--set", "door.sdk.policy=strict.toml", "--set", "door.sdk.listen=x.sock"]),
        @"
    exit 1
    stderr: transom: built-in component `sdk` bears no signature, and its policy requires one; name a signed file with `source` in [component.sdk]
    "
    );
}
