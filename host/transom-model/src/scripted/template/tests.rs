//! Places, and what they are filled with.

use super::*;

fn scene() -> Scene {
    let results = [
        ("a", "started background job bash-1"),
        ("b.c", "started subagent 7f-3."),
        ("a", "the second of its name, (see /tmp/x)"),
    ];
    Scene {
        prompt: "Look into dir=/tmp/a b, please".to_owned(),
        results: results.map(|(id, text)| (id.to_owned(), text.to_owned())).to_vec(),
        notice: "background job bash-2 (bash: x) finished\n".to_owned(),
        step: 4,
        ..Scene::default()
    }
}

#[test]
fn places_are_filled() {
    let table = [
        ("", ""),
        ("plain {{ text }", "plain {{ text }"),
        ("{{step}}{{step}}", "44"),
        ("<{{prompt}}>", "<Look into dir=/tmp/a b, please>"),
        ("{{result}}", "the second of its name, (see /tmp/x)"),
        (
            "{{result.1}} and {{result.2}}",
            "started background job bash-1 and started subagent 7f-3.",
        ),
        ("{{result.b.c}}", "started subagent 7f-3."),
        ("{{result.a}}", "the second of its name, (see /tmp/x)"),
        ("{{result.1 after background job}}", "bash-1"),
        ("{{result.2 after subagent}}!", "7f-3!"),
        ("{{result after (see}}", "/tmp/x"),
        ("{{prompt after dir=}}", "/tmp/a"),
        ("{{prompt after /tmp/a}}", "b"),
        ("{{notice after job}}", "bash-2"),
    ];
    for (text, expected) in table {
        assert_eq!(Template::read(text).unwrap().fill(&scene()).as_deref(), Ok(expected), "{text}");
    }
    let none = Scene::default();
    assert_eq!(Template::read("<{{result}}{{notice}}>").unwrap().fill(&none).as_deref(), Ok("<>"));
}

#[test]
fn what_is_not_there_is_said() {
    let table = [
        ("{{result.4}}", "there is no result \"4\" since the prompt, only those of [a, b.c, a]"),
        ("{{result.d}}", "there is no result \"d\" since the prompt, only those of [a, b.c, a]"),
        (
            "{{result.2 after background job}}",
            "no word follows \"background job\" in \"started subagent 7f-3.\"",
        ),
        (
            "{{result.1 after bash-1}}",
            "no word follows \"bash-1\" in \"started background job bash-1\"",
        ),
    ];
    for (text, expected) in table {
        let complaint = Template::read(text).unwrap().fill(&scene()).unwrap_err();
        assert_eq!(complaint, expected, "{text}");
    }
}

#[test]
fn places_without_a_meaning_are_refused() {
    for place in [
        "",
        "x",
        " prompt",
        "Prompt",
        "result.",
        "result.0",
        "results",
        "prompt.1",
        "prompt after  ",
        "step after x",
    ] {
        assert_eq!(Template::read(&format!("a{{{{{place}}}}}b")), Err(place.to_owned()));
    }
}
