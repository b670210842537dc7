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

/// Nothing may be sent to an address with a user in it: its `authorization` would stand beside the key's.
#[test]
fn an_address_with_a_user_or_a_query_is_refused() {
    for base in ["http://u@h", "http://:p@h", "http://u:p@h/v1", "http://h?q", "http://h#f"] {
        assert_eq!(endpoint(Some(base)).url().unwrap_err().code, "INVALID_REQUEST", "{base}");
    }
}

#[test]
fn passwords_in_addresses_are_not_shown() {
    let table = [
        ("http://h:1/v1", "http://h:1/v1"),
        ("http://h/a@b", "http://h/a@b"),
        ("nonsense", "nonsense"),
        ("http://u:p@h:1/v1", "…@h:1/v1"),
        ("http://u:p@w@h", "…@h"),
        ("http:/u:p@h/v1", "…@h/v1"),
        ("http:///u:p@h", "…@h"),
        (r"http:\\u:p@h", "…@h"),
        ("u:p@h", "…@h"),
        ("http://h/v1?key=p", "http://h/v1?…"),
        ("http://h/v1#p", "http://h/v1?…"),
        ("u:p@h?key=p", "…@h?…"),
    ];
    for (base, shown) in table {
        let endpoint = endpoint(Some(base));
        assert_eq!(endpoint.shown(), shown);
        assert_eq!(
            format!("{endpoint:?}"),
            format!("Endpoint {{ base_url: {shown:?}, key: None }}")
        );
        if let Err(failure) = endpoint.url() {
            assert!(failure.message.starts_with(&format!("\"{shown}\" ")), "{}", failure.message);
        }
    }
}

#[test]
fn the_bearer_is_trimmed_and_marked_as_secret() {
    let endpoint = Endpoint { base_url: None, key: Some(Key::new("\t sk-1234 \n")) };
    let bearer = endpoint.bearer().unwrap();
    assert_eq!(bearer, "Bearer sk-1234");
    assert_eq!(format!("{bearer:?} {endpoint:?}").matches("1234").count(), 0);
}
