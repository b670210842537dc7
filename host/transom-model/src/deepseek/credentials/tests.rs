//! Keys and endpoints of L-86.

use super::*;

fn endpoint(base_url: Option<&str>) -> Endpoint {
    Endpoint { base_url: base_url.map(str::to_owned), key: None }
}

#[test]
fn a_base_url_becomes_one_address() {
    let default = "https://api.deepseek.com/chat/completions";
    let table = [
        (None, default),
        (Some(""), default),
        (Some("  "), default),
        (Some("http://127.0.0.1:9"), "http://127.0.0.1:9/chat/completions"),
        (Some("https://h/v1"), "https://h/v1/chat/completions"),
        (Some(" https://h/v1// "), "https://h/v1/chat/completions"),
        (Some("HTTPS://H"), "https://h/chat/completions"),
    ];
    for (base, expected) in table {
        assert_eq!(endpoint(base).url().map(String::from), Ok(expected.to_owned()), "{base:?}");
    }
}

#[test]
fn passwords_in_addresses_are_not_shown() {
    let table = [
        ("http://h:1/v1", "http://h:1/v1"),
        ("http://u:p@h:1/v1", "http://h:1/v1"),
        ("http://u:p@w@h", "http://h"),
        ("http://h/a@b", "http://h/a@b"),
        ("nonsense", "nonsense"),
    ];
    for (base, shown) in table {
        assert_eq!(endpoint(Some(base)).shown(), shown);
    }
}

#[test]
fn the_bearer_is_trimmed_and_marked_as_secret() {
    let endpoint = Endpoint { base_url: None, key: Some(Key::new("\t sk-1234 \n")) };
    let bearer = endpoint.bearer().unwrap();
    assert_eq!(bearer, "Bearer sk-1234");
    assert_eq!(format!("{bearer:?} {endpoint:?}").matches("1234").count(), 0);
}
