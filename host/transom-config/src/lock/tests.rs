//! Locks against their complaints, the text that is written, and what a pin says of a file.

use std::path::Path;

use super::{Digest, Lock, Pin, PinError, WrongDigest};
use crate::tests::{expected, messages};

fn digest(digit: char) -> Digest {
    Digest::parse(&format!("sha256:{}", digit.to_string().repeat(64))).unwrap()
}

fn pin(name: &str, digit: char) -> Pin {
    Pin {
        name: name.to_owned(),
        version: "0.1.0".to_owned(),
        digest: digest(digit),
        source: format!("components/{name}.wasm"),
        signed_by: None,
    }
}

/// The complaint stands in the `.err` beside each file. `ACCEPT_MESSAGES=1` writes it there; read the diff.
#[test]
fn a_wrong_lock_is_refused_with_its_complaint() {
    let files = messages("lock/invalid");
    assert!(files.len() >= 8, "{} cases", files.len());
    let wrong: Vec<_> = files
        .iter()
        .filter_map(|(path, bytes)| match Lock::parse(Path::new("transom.lock"), bytes) {
            Ok(lock) => Some(format!("{path:?} is accepted: {lock:?}")),
            Err(errors) => expected(path, "err", &format!("{errors}\n")),
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The `.out` is the text as it is written again.
#[test]
fn a_good_lock_is_read_whole_and_written_in_one_way() {
    for (path, bytes) in messages("lock/valid") {
        let lock = Lock::parse(&path, &bytes).unwrap();
        let text = lock.to_string();
        assert_eq!(expected(&path, "out", &text), None);
        assert_eq!(Lock::parse(&path, text.as_bytes()), Ok(lock));
    }
}

#[test]
fn the_order_of_pins_is_that_of_their_names() {
    let (one, two) = (pin("a", '1'), pin("b", '2'));
    let mut lock: Lock = [two.clone(), one.clone()].into_iter().collect();
    assert_eq!(lock.to_string(), [one.clone(), two].into_iter().collect::<Lock>().to_string());
    assert_eq!(lock.pins().map(|pin| pin.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(lock.put(pin("a", '3')), Some(one));
    assert_eq!(lock.find("a").map(|pin| pin.digest), Some(digest('3')));
    assert!(lock.remove("b").is_some());
    assert_eq!(lock.find("b"), None);
}

#[test]
fn any_text_survives_being_written() {
    for odd in ["\"", "\\", "a\nb", "\u{7f}", "é \t'''", "\u{0}", "#"] {
        let pin = Pin { version: odd.to_owned(), source: odd.to_owned(), ..pin("a", '1') };
        let lock: Lock = [pin].into_iter().collect();
        let read = Lock::parse(Path::new("transom.lock"), lock.to_string().as_bytes());
        assert_eq!(read, Ok(lock), "{odd:?}");
    }
}

#[test]
fn a_file_that_is_not_the_pinned_one_is_refused_with_both_digests() {
    let lock: Lock = [pin("sdk", 'a')].into_iter().collect();
    let check = |name: &str, digest: Digest, version: Option<&str>| {
        lock.check(name, &digest, version).map_err(|error| error.to_string())
    };
    assert_eq!(check("sdk", digest('a'), Some("0.1.0")), Ok(()));
    assert_eq!(check("sdk", digest('a'), None), Ok(()));
    assert_eq!(
        check("sdk", digest('b'), Some("0.2.0")),
        Err(format!(
            "component `sdk` is {}, but the lock wants {} (version 0.1.0 from components/sdk.wasm); if the change is \
             meant, run `transom pin --update sdk`",
            digest('b'),
            digest('a')
        ))
    );
    assert_eq!(
        check("sdk", digest('a'), Some("0.2.0")),
        Err(format!(
            "component `sdk` ({}) says that it is version 0.2.0, but the lock says 0.1.0; run `transom pin --update sdk`",
            digest('a')
        ))
    );
    assert_eq!(
        check("notes", digest('a'), None),
        Err("component `notes` is not in the lock; if it belongs to this deployment, run `transom pin --update notes`"
            .to_owned())
    );
    let unknown = lock.check("notes", &digest('a'), None);
    assert_eq!(unknown, Err(PinError::Unknown { name: "notes".to_owned() }));
}

#[test]
fn a_digest_has_one_text() {
    let text = format!("sha256:{}0123", "00ff9a".repeat(10));
    assert_eq!(Digest::parse(&text).map(|digest| digest.to_string()), Ok(text.clone()));
    let (short, long, upper) = (&text[..70], format!("{text}0"), text.to_uppercase());
    let (wide, bare) = (text.replacen("9a", "é", 1), &text[7..]);
    for wrong in ["", "sha256:", short, &long, &upper, &wide, bare] {
        assert_eq!(Digest::parse(wrong), Err(WrongDigest), "{wrong}");
    }
}
