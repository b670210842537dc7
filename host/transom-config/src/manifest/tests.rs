//! Manifests against their expected complaints, and what the good ones come to.

use std::{collections::BTreeMap, path::Path, sync::mpsc, thread, time::Duration};

use transom_policy::Limits;

use super::{BUILT_IN, CHILD_TOOLS, Carrier, Manifest, TOOLS, TOOLS_OTHERWISE, state_directory};
use crate::{
    error::ConfigErrors,
    lock::Lock,
    tests::{expected, messages},
};

/// The complaint stands in the `.err` beside each file. `ACCEPT_MESSAGES=1` writes it there; read the diff.
#[test]
fn a_wrong_manifest_is_refused_with_its_complaint() {
    let files = messages("config/invalid");
    assert!(files.len() >= 20, "{} cases", files.len());
    let wrong: Vec<_> = files
        .iter()
        .filter_map(|(path, bytes)| match Manifest::parse(Path::new("transom.toml"), bytes) {
            Ok(manifest) => Some(format!("{path:?} is accepted: {manifest:?}")),
            Err(errors) => expected(path, "err", &format!("{errors}\n")),
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn a_good_manifest_is_read_whole() {
    let wrong: Vec<_> = messages("config/valid")
        .iter()
        .filter_map(|(path, bytes)| {
            let manifest = Manifest::parse(Path::new("/etc/transom/transom.toml"), bytes).unwrap();
            expected(path, "out", &format!("{manifest:#?}\n"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn without_a_manifest_there_are_two_doors_and_the_scripted_model() {
    let manifest = Manifest::built_in(Path::new("/state")).unwrap();
    let listen = |door: &str| match &manifest.doors[door].carrier {
        Carrier::Unix { listen } => listen.to_str().unwrap().to_owned(),
        Carrier::Stdio => "stdio".to_owned(),
    };
    assert_eq!(manifest.doors.keys().collect::<Vec<_>>(), ["frames", "sdk"]);
    assert_eq!(
        (listen("frames"), listen("sdk")),
        ("/state/frames.sock".to_owned(), "/state/sdk.sock".to_owned())
    );
    assert_eq!(manifest.doors["sdk"].route_map["deepseek-official"], "scripted");
    assert_eq!(manifest.model.provider.as_deref(), Some("scripted"));
    assert_eq!(manifest.store.path.as_deref(), Some(Path::new("/state/store.db")));
    assert_eq!(manifest.tools.enabled, TOOLS_OTHERWISE);
    // The text can be shown, copied and changed.
    assert!(Manifest::parse(Path::new("transom.toml"), BUILT_IN.as_bytes()).is_ok());
}

#[test]
fn the_tools_of_a_manifest_that_names_none_are_all_but_those_for_children() {
    let mut all = TOOLS.to_owned();
    assert!(all.is_sorted());
    assert!(CHILD_TOOLS.iter().all(|tool| TOOLS.contains(tool)));
    all.retain(|tool| !CHILD_TOOLS.contains(tool));
    assert_eq!(all, TOOLS_OTHERWISE);
}

#[test]
fn a_state_directory_too_deep_for_sockets_is_named() {
    let deep = format!("/{}", "x".repeat(100));
    let error = Manifest::built_in(Path::new(&deep)).unwrap_err().to_string();
    assert_eq!(
        error,
        "built-in manifest:4:10: the socket's path has 110 bytes, 107 or fewer are possible; choose a shorter directory\n\
         built-in manifest:10:10: the socket's path has 113 bytes, 107 or fewer are possible; choose a shorter directory"
    );
}

#[test]
fn a_doors_limits_replace_those_of_its_policy() {
    let text = b"[door.sdk]\ncomponent = 'sdk'\ncarrier = 'stdio'\nlimits = { nesting-max = 9, sessions-max = 0 }\n";
    let manifest = Manifest::parse(Path::new("t.toml"), text).unwrap();
    let mut limits = Limits::default();
    manifest.doors["sdk"].limits.apply(&mut limits);
    assert_eq!(limits, Limits { nesting_max: 9, sessions_max: 0, ..Limits::default() });
}

#[test]
fn a_file_that_is_not_there_or_not_text_is_named() {
    let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
    assert_eq!(
        ConfigErrors::unreadable(Path::new("a/transom.toml"), &missing).to_string(),
        "a/transom.toml: cannot be read: entity not found"
    );
    let error = Manifest::parse(Path::new("transom.toml"), b"# \xc3\xa4\n# \xe4\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "transom.toml:2:3: the byte 0xe4 is not UTF-8; save the file as UTF-8"
    );
}

#[test]
fn the_state_directory_follows_the_environment() {
    let check = |variables: &[(&str, &str)], expected: Option<&str>| {
        let environment: BTreeMap<String, String> = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        assert_eq!(
            state_directory(&environment).as_deref(),
            expected.map(Path::new),
            "{variables:?}"
        );
    };
    check(&[], None);
    check(&[("HOME", "/h")], Some("/h/.local/state/transom"));
    check(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s")], Some("/s/transom"));
    check(&[("HOME", "/h"), ("XDG_STATE_HOME", "s")], Some("/h/.local/state/transom"));
    check(&[("TRANSOM_STATE_DIR", "/t"), ("XDG_STATE_HOME", "/s")], Some("/t"));
    check(&[("TRANSOM_STATE_DIR", ""), ("HOME", "/h")], Some("/h/.local/state/transom"));
}

/// The blocks of a page that are marked with a language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let start = format!("```{language}\n");
    page.split(start.as_str()).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn what_the_page_shows_is_accepted() {
    let page = include_str!("../../../../docs/manifest.md");
    let shown = blocks(page, "toml");
    assert!(!shown.is_empty());
    for text in shown {
        let checked = Manifest::parse(Path::new("transom.toml"), text.as_bytes());
        assert!(checked.is_ok(), "{text}\n{checked:?}");
    }
    let [lock] = blocks(page, "toml-lock")[..] else { panic!("one lock is shown") };
    let checked = Lock::parse(Path::new("transom.lock"), lock.as_bytes()).unwrap();
    assert!(checked.to_string().ends_with(lock), "{checked}");
}

/// As many as a program may have written. It takes seconds; were the text, or what was named already, gone through again
/// for each of them, it would take minutes.
#[test]
fn complaints_and_lists_are_read_in_one_go_however_long_they_are() {
    let (done, ended) = mpsc::sync_channel(1);
    let reading = thread::spawn(move || {
        read_long_ones();
        done.send(())
    });
    let ended = ended.recv_timeout(Duration::from_secs(60));
    assert_ne!(ended, Err(mpsc::RecvTimeoutError::Timeout));
    reading.join().unwrap().unwrap();
}

fn read_long_ones() {
    const COUNT: usize = 60_000;
    let (mut keys, mut rules) = (String::new(), String::new());
    for number in 0..COUNT {
        keys.push_str(&format!("k{number} = 1\n"));
        rules.push_str(&format!(
            "[[permissions.rule]]\ntool = \"t{number}\"\ndecision = \"deny\"\n"
        ));
    }
    let parse = |text: &str| Manifest::parse(Path::new("transom.toml"), text.as_bytes());
    let complaints = parse(&format!("{BUILT_IN}\n[jobs]\n{keys}")).unwrap_err().0;
    let above = BUILT_IN.lines().count() + 2;
    let expected: Vec<_> = (1..=COUNT).map(|line| Some((above + line, 1))).collect();
    let positions: Vec<_> = complaints.iter().map(|complaint| complaint.position).collect();
    assert!(positions == expected, "{} complaints", positions.len());

    let names: Vec<_> = (0..COUNT).map(|number| format!("\"N{number}\"")).collect();
    let tools = format!("[tools]\nkeep-environment = [{}]\n", names.join(","));
    let manifest = parse(&format!("{BUILT_IN}\n{tools}{rules}")).unwrap();
    assert_eq!(manifest.tools.keep_environment.len(), COUNT);
    let last = manifest.permissions.rules.last().unwrap().line;
    assert_eq!(last, BUILT_IN.lines().count() + 4 + 3 * (COUNT - 1));

    let twice = format!("[tools]\nkeep-environment = [{},{}]\n", names.join(","), names.join(","));
    let complaints = parse(&format!("{BUILT_IN}\n{twice}")).unwrap_err().0;
    assert_eq!(complaints.len(), COUNT);
}
