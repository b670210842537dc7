//! Names of directories, as L-75 and row 38 give them.

use super::{project, segment};

/// L-75, row 38.
#[test]
fn a_working_directory_is_a_slug() {
    let long = "/".to_owned() + &"x".repeat(300);
    for (cwd, expected) in [
        (None, "_no-cwd".to_owned()),
        (Some("/home/u/my app"), "--home-u-my~0020app--".to_owned()),
        (Some("/a b"), "--a~0020b--".to_owned()),
        (Some("/"), "--root--".to_owned()),
        (Some(""), "--root--".to_owned()),
        (Some("/-/-x"), "--x--".to_owned()),
        (Some(r"C:\\Users//me"), "--C-Users-me--".to_owned()),
        (Some("/a/.b_c-1/"), "--a-.b_c-1---".to_owned()),
        (Some("/~/\u{e9}\u{1F980}"), "--~007E-~00E9~D83E~DD80--".to_owned()),
        (Some(long.as_str()), format!("--{}--", "x".repeat(251))),
    ] {
        assert_eq!(project(cwd), expected, "{cwd:?}");
    }
}

/// L-75, row 38.
#[test]
fn an_id_is_a_segment() {
    for (id, expected) in [
        ("main", "main"),
        ("a/b", "a~002Fb"),
        (".", "~002E"),
        ("..", "~002E~002E"),
        ("...", "..."),
        ("../../etc/passwd", "..~002F..~002Fetc~002Fpasswd"),
        ("~0020", "~007E0020"),
        ("你", "~4F60"),
    ] {
        assert_eq!(segment(&id.into()).as_deref(), Ok(expected), "{id:?}");
    }
}

#[test]
fn an_id_that_no_directory_can_have_is_refused() {
    let empty = segment(&"".into()).unwrap_err().to_string();
    assert!(empty.starts_with("a session with an empty id has no place"), "{empty}");
    assert!(segment(&"x".repeat(255).as_str().into()).is_ok());
    let long = segment(&"x".repeat(256).as_str().into()).unwrap_err().to_string();
    assert!(long.ends_with("256 bytes where 255 are possible"), "{long}");
}
