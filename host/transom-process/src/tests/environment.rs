//! The examples of L-83 and L-84 and row 39 of the loop's checklist.

use crate::{is_withheld, scrub};

fn pairs(names: &[&str]) -> Vec<(String, String)> {
    names.iter().map(|name| ((*name).to_owned(), format!("value of {name}"))).collect()
}

fn names(pairs: &[(String, String)]) -> Vec<&str> {
    pairs.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn names_that_speak_of_secrets_are_withheld() {
    let withheld = [
        "MYKEY",
        "monkey",
        "KEYBOARD_LAYOUT",
        "ssh_token_path",
        "dsh_x",
        "DSH_HOME",
        "DEEPSEEK_API_KEY",
        "MONKEY",
        "my_Secret",
        "PASSWORD",
        "pgPassword",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        // L-84
        "GOOGLE_APPLICATION_CREDENTIALS",
        "PASSWD",
        "GPG_PASSPHRASE",
        "PRIVATE_STUFF",
        "SESSION_COOKIE",
        "bearer",
        // decision 32
        "TRANSOM_HOME",
        "transom_x",
    ];
    for name in withheld {
        assert!(is_withheld(name), "{name} reaches children");
    }
    let kept = [
        "PATH",
        "HOME",
        "LANG",
        "HTTP_PROXY",
        "SSH_AUTH_SOCK",
        "PGPASSFILE",
        "AWS_PROFILE",
        "MY_DSH_HOME",
        "XTRANSOM_",
        "TRANSOM",
        "DSH",
        // Not ASCII: no machine folds it to a K.
        "\u{212A}EY",
        "",
    ];
    for name in kept {
        assert!(!is_withheld(name), "{name} is withheld");
    }
}

#[test]
fn row_39_sees_path_and_language() {
    let parent =
        pairs(&["DEEPSEEK_API_KEY", "MONKEY", "my_Secret", "DSH_HOME", "dsh_x", "PATH", "LANG"]);
    let managed = [("DSH_SHELL".to_owned(), Some("1".to_owned()))];
    let made = scrub(&parent, &[], &managed);
    assert_eq!(names(&made.variables), ["DSH_SHELL", "LANG", "PATH"]);
    assert_eq!(made.withheld, ["DEEPSEEK_API_KEY", "DSH_HOME", "MONKEY", "dsh_x", "my_Secret"]);
}

#[test]
fn values_are_never_reported() {
    let made = scrub(&[("A_TOKEN".to_owned(), "hunter2".to_owned())], &[], &[]);
    assert!(!format!("{made:?}").contains("hunter2"));
}

#[test]
fn the_keep_list_is_exact() {
    let parent = pairs(&["KEYBOARD_LAYOUT", "keyboard_layout", "PATH"]);
    let made = scrub(&parent, &["KEYBOARD_LAYOUT".to_owned()], &[]);
    assert_eq!(names(&made.variables), ["KEYBOARD_LAYOUT", "PATH"]);
    assert_eq!(made.withheld, ["keyboard_layout"]);
}

#[test]
fn explicit_entries_come_last() {
    let explicit = [
        ("API_KEY".to_owned(), Some("given".to_owned())),
        ("PATH".to_owned(), None),
        ("LANG".to_owned(), Some("C".to_owned())),
        ("KEPT_KEY".to_owned(), None),
        ("ABSENT".to_owned(), None),
    ];
    let parent = pairs(&["API_KEY", "PATH", "LANG", "KEPT_KEY"]);
    let made = scrub(&parent, &["KEPT_KEY".to_owned()], &explicit);
    let expected =
        [("API_KEY".to_owned(), "given".to_owned()), ("LANG".to_owned(), "C".to_owned())];
    assert_eq!(made.variables, expected);
    assert_eq!(made.withheld, [""; 0]);
}
