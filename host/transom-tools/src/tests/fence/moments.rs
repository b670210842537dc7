//! What changes between one look and the next: moved directories, links and files that appear (P-47, P-48).

use std::{fs, os::unix::fs::symlink};

use serde_json::json;
use transom_harness::permissions::Mode;

use super::{Yard, assert_ok, failure, plain};
use crate::files::{self, Verb};

/// As a confined shell could, were the directory above a root.
fn exchange(yard: &Yard) {
    fs::rename(yard.path("work"), yard.path("moved")).unwrap();
    symlink("outside", yard.path("work")).unwrap();
}

#[tokio::test]
async fn p5_a_workspace_that_was_exchanged_for_a_link_is_no_root() {
    let mut yard = Yard::with(|confinement| {
        let more = confinement.user_home.as_ref().unwrap().with_file_name("more");
        fs::create_dir(&more).unwrap();
        confinement.write = vec![more];
    });
    yard.root = Some(yard.path("work"));
    let elsewhere = yard.shown("more/f");
    // Before the first call of the session.
    exchange(&yard);
    for path in ["f", "b", &elsewhere] {
        assert_eq!(failure(&yard.write(path, "x").await), yard.denied(), "{path}");
    }
    assert_eq!(failure(&yard.edit("f", "outside", "x").await), yard.denied());
    // Nor for one that works for it, or that goes on with it.
    yard.fence.forget("s");
    for session in ["s", "child"] {
        let error = yard.fence.places(session, &yard.path("work"), yard.root.as_deref());
        let error = error.unwrap_err().to_string();
        let expected = format!(
            "\" was \"{}\" and now leads to \"{}\"",
            yard.shown("work"),
            yard.shown("outside")
        );
        assert!(error.ends_with(&expected), "{error}");
    }
    assert_eq!(yard.content("outside/f"), "outside");
    assert_eq!(fs::read_dir(yard.path("outside")).unwrap().count(), 1);
    // Reading is not what a root is for.
    assert_ok(&yard.read("f").await);

    // Given back, it is a root again.
    fs::remove_file(yard.path("work")).unwrap();
    fs::rename(yard.path("moved"), yard.path("work")).unwrap();
    assert_ok(&yard.write("f", "x").await);
    assert_ok(&yard.write(&elsewhere, "x").await);
}

#[tokio::test]
async fn p5_a_directory_that_came_late_is_held_from_the_first_call_on() {
    let yard = Yard::with(|confinement| confinement.write = vec!["../user".into()]);
    let elsewhere = yard.shown("user/f");
    fs::remove_dir(yard.path("work")).unwrap();
    for path in ["a", &elsewhere] {
        assert_eq!(failure(&yard.write(path, "x").await), yard.denied(), "{path}");
    }
    fs::create_dir(yard.path("work")).unwrap();
    assert_ok(&yard.write("a", "x").await);
    assert_ok(&yard.write(&elsewhere, "x").await);

    exchange(&yard);
    assert_eq!(failure(&yard.write("f", "x").await), yard.denied());
    // All sessions without a root of their own share that one, also when the first has gone.
    let places = |session| yard.fence.places(session, &yard.path("work"), None);
    assert!(places("child").is_err());
    yard.fence.forget("s");
    assert!(places("child").is_err());
    assert_eq!(yard.content("outside/f"), "outside");
    // Without anybody who uses it, there is nothing to go by.
    yard.fence.forget("child");
    assert_eq!(places("later").unwrap().workspace, yard.path("outside"));
}

#[test]
fn a_link_that_appears_on_the_way_is_not_followed() {
    let mut yard = Yard::new();
    let shown = yard.path("work/dir/f");
    let real = shown.clone();
    for mode in [Mode::WorkspaceWrite, Mode::DangerFullAccess] {
        yard.put("work/dir/f", "inside");
        yard.mode = mode;
        let bounds = yard.bounds();
        assert_eq!(bounds.resolve(Verb::Write, &shown).unwrap(), real);
        fs::rename(yard.path("work/dir"), yard.path("work/aside")).unwrap();
        symlink("../outside", yard.path("work/dir")).unwrap();

        let moved = plain(format!(
            "cannot write \"{}\": its path was changed meanwhile — retry",
            shown.display()
        ));
        let expected = if mode == Mode::DangerFullAccess { moved } else { yard.denied() };
        let refused = bounds.reach(Verb::Write, &shown, &real, true).unwrap_err();
        assert_eq!(failure(&refused.into()), expected);
        let refused = bounds.reach(Verb::Read, &shown, &real, false).unwrap_err();
        assert!(refused.message.ends_with("its path was changed meanwhile — retry"));

        fs::remove_file(yard.path("work/dir")).unwrap();
        fs::remove_dir_all(yard.path("work/aside")).unwrap();
    }
}

#[test]
fn what_is_hidden_stays_hidden_when_it_is_moved() {
    let yard = Yard::new();
    let bounds = yard.bounds();
    fs::rename(yard.path("user/.ssh"), yard.path("work/pictures")).unwrap();
    let shown = yard.path("work/pictures/id");
    let real = bounds.resolve(Verb::Read, &shown).unwrap();
    let refused = bounds.reach(Verb::Read, &shown, &real, false).unwrap_err();
    assert!(refused.message.ends_with("hidden by this host"), "{refused}");

    // What takes a hidden file's place is hidden too, also under another path.
    fs::write(yard.path("work/fresh"), "key").unwrap();
    fs::rename(yard.path("work/fresh"), yard.path("user/.netrc")).unwrap();
    fs::rename(yard.path("user"), yard.path("work/user")).unwrap();
    let shown = yard.path("work/user/.netrc");
    let real = bounds.resolve(Verb::Read, &shown).unwrap();
    let refused = bounds.reach(Verb::Read, &shown, &real, false).unwrap_err();
    assert!(refused.message.ends_with("hidden by this host"), "{refused}");
}

#[test]
fn a_file_that_is_exchanged_during_a_write_is_left_alone() {
    let yard = Yard::new();
    let shown = yard.path("work/f");
    yard.put("work/f", "one");
    let bounds = yard.bounds();
    let (_, spot) = files::find(&bounds, Verb::Write, &shown).unwrap();
    let call = yard.request(json!({}));
    let (_, metadata) = files::content(&bounds, Verb::Write, &shown, &spot, &call.abort).unwrap();

    yard.put("work/other", "two");
    fs::rename(yard.path("work/other"), &shown).unwrap();
    let refused = files::replace(Verb::Write, &shown, &spot, b"new", Some(&metadata)).unwrap_err();
    assert_eq!(refused.code, Some(("FsError", "FS_STALE_VERSION")));
    assert_eq!(yard.content("work/f"), "two");

    // Thought to be new, and there all of a sudden; also as a link.
    let refused = files::replace(Verb::Write, &shown, &spot, b"new", None).unwrap_err();
    assert_eq!(refused.code, Some(("FsError", "FS_NOT_OBSERVED")));
    assert_eq!(yard.content("work/f"), "two");
    fs::remove_file(&shown).unwrap();
    symlink("../outside/f", &shown).unwrap();
    let refused = files::replace(Verb::Write, &shown, &spot, b"new", None).unwrap_err();
    assert_eq!(refused.code, Some(("FsError", "FS_NOT_OBSERVED")));
    let refused = files::replace(Verb::Write, &shown, &spot, b"new", Some(&metadata)).unwrap_err();
    assert!(refused.message.starts_with("cannot write"), "{refused}");
    assert_eq!(yard.content("outside/f"), "outside");

    // Nothing is left behind.
    let names = fs::read_dir(yard.path("work")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["f"]);
}

#[test]
fn a_look_that_is_no_call_leaves_nothing_behind() {
    // It may come when its session is forgotten already, and then nobody forgets it again.
    let yard = Yard::new();
    fs::create_dir(yard.path("late")).unwrap();
    let glance = || yard.fence.glance("s", &yard.path("late"), None);
    assert_eq!(glance().unwrap().workspace, yard.path("late"));
    fs::rename(yard.path("late"), yard.path("aside")).unwrap();
    symlink(yard.path("aside"), yard.path("late")).unwrap();
    assert_eq!(glance().unwrap().workspace, yard.path("aside"), "nobody holds it");
    // Once a call has decided, it counts.
    yard.fence.places("s", &yard.path("late"), None).unwrap();
    fs::remove_file(yard.path("late")).unwrap();
    fs::rename(yard.path("aside"), yard.path("late")).unwrap();
    assert!(glance().is_err());
}
