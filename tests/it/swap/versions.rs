//! What one version takes over from another, what it is refused for, and what becomes of connections that cannot go on in it.

use std::fs;

use serde_json::{Value, json};

use super::{House, manifest, program, renamed, says};
use crate::support::{
    process::built,
    wire::{Signal, Wire},
};

#[test]
fn counts_two_and_counts_take_over_from_each_other() {
    // Two state formats, each of which both versions resume.
    let mut house = House::new("counts.wasm", "");
    let [one, two] = [house.place.root().join("counts.wasm"), built("programs/counts_two.wasm")];
    let mut peer = house.peer("counts");
    says(&mut peer, "a", "1 a");
    house.swap("counts", &two).expect("an upgrade");
    says(&mut peer, "bb", "2 bb (2)");
    says(&mut house.peer("counts"), "a", "1 a (1)");
    house.swap("counts", &one).expect("and the other way round");
    says(&mut peer, "c", "3 c");
    house.control.ask("rollback", json!({"component": "counts"})).expect("back");
    says(&mut peer, "d", "4 d (1)");
    // Without a word in between: what a version has not heard of it passes on.
    for (file, stayed) in [(&one, 0), (&two, 0), (&one, 0)] {
        let answer = house.swap("counts", file).expect("it is swapped");
        assert_eq!(answer["doors"][0]["stayed"], stayed, "{answer}");
    }
    says(&mut peer, "e", "5 e");
}

#[test]
fn a_version_is_judged_by_its_types_and_not_by_what_it_calls_itself() {
    let mut house = House::new("counts.wasm", "");
    let called = |name: &str| {
        let mut component = fs::read(built(&format!("programs/{name}.wasm"))).expect("a component");
        component.extend(b"\0\x0d\x07version1.0.0");
        component
    };
    let good = house.place.file("good.wasm", called("counts"));
    let other = house.place.file("other.wasm", called("wrong_types"));
    let mut peer = house.peer("counts");
    says(&mut peer, "a", "1 a");
    house.swap("counts", &good).expect("it is swapped");
    let version = |house: &mut House| house.control.door("counts")["identity"].clone();
    let before = version(&mut house);
    assert!(
        before.as_str().is_some_and(|text| text.starts_with("counts 1.0.0 sha256:")),
        "{before}"
    );
    let refused = house.swap("counts", &other).expect_err("refused");
    assert!(refused.contains("missing: `connection.suspend"), "{refused}");
    assert_eq!(version(&mut house), before);
    says(&mut peer, "b", "2 b");
}

#[test]
fn other_bytes_at_the_same_path_are_swapped_in_once() {
    let mut house = House::new("counts.wasm", "");
    let mut peer = house.peer("counts");
    says(&mut peer, "a", "1 a");
    house.place.file("counts.wasm", renamed(program("counts"), "other"));
    let answer = house.control.ask("reload", json!({})).expect("read again");
    assert_eq!(answer["changes"], json!([]), "the manifest says the same");
    let doors: Vec<_> = answer["swaps"].as_array().expect("rows").iter().collect();
    assert_eq!(doors.len(), 2, "both doors with that file: {answer}");
    assert!(doors.iter().all(|row| row["from"] != row["to"]), "{answer}");
    says(&mut peer, "b", "2 b");
    let answer = house.control.ask("reload", json!({})).expect("read again");
    assert_eq!(answer, json!({"changes": [], "swaps": [], "restart": []}));
}

#[test]
fn a_full_door_is_swapped_like_any_other() {
    // A connection that moves has two instances for a moment.
    let mut house = House::with("counts.wasm", "", "");
    let narrow =
        manifest("counts.wasm", "", "").replace("connections-max = 1200", "connections-max = 3");
    house.place.file("transom.toml", narrow);
    house.process.signal(Signal::Terminate);
    house = House::at(house.place);
    let mut peers = [(); 3].map(|()| house.peer("counts"));
    for peer in &mut peers {
        says(peer, "a", "1 a");
    }
    assert_eq!(house.peer("counts").line(), None, "it is full");
    let second = house.place.file("second.wasm", renamed(program("counts"), "second"));
    for (round, file) in
        [&second, &house.place.root().join("counts.wasm")].into_iter().cycle().take(10).enumerate()
    {
        let answer = house.swap("counts", file).expect("it is swapped");
        assert_eq!(
            (&answer["doors"][0]["moved"], &answer["doors"][0]["stayed"]),
            (&json!(3), &json!(0)),
            "{answer}"
        );
        for peer in &mut peers {
            says(peer, "b", &format!("{} b", round + 2));
        }
    }
}

#[test]
fn forgets_leaves_connections_where_they_are() {
    let mut house = House::new("counts.wasm", "");
    let mut peer = house.peer("counts");
    says(&mut peer, "a", "1 a");
    let answer = house.swap("counts", &built("programs/forgets.wasm")).expect("it is swapped");
    assert_eq!(
        (&answer["doors"][0]["moved"], &answer["doors"][0]["stayed"]),
        (&json!(0), &json!(1))
    );
    says(&mut peer, "b", "2 b");
    says(&mut house.peer("counts"), "a", "new a");
    let rows = house.control.ask("connections", json!({"door": "counts"})).expect("rows");
    assert_eq!(rows["connections"][0]["version"], 1, "{rows}");
    house.until("counts", |row| row["connections"] == 1 && row["behind"] == 1);

    // Whoever wants the old version gone drains the door.
    let asked = house.control.ask("drain", json!({"door": "counts"})).expect("asked");
    assert_eq!(asked["asked"], 1);
    assert_eq!(peer.line(), None, "this one ends when it is asked to");
}

#[test]
fn connections_that_cannot_be_moved_are_drained_where_the_manifest_says_so() {
    let mut house = House::new("counts.wasm", "swap = \"drain\"");
    let (mut stays, second) =
        (house.peer("counts"), house.place.file("second.wasm", renamed(program("counts"), "2")));
    says(&mut stays, "a", "1 a");
    house.swap("counts", &second).expect("it is swapped");
    says(&mut stays, "b", "2 b");
    house.swap("counts", &built("programs/forgets.wasm")).expect("it is swapped");
    assert_eq!(stays.line(), None, "asked to end, since it could not be moved");
    says(&mut house.peer("counts"), "a", "new a");
}

#[test]
fn whom_a_version_refuses_comes_to_no_harm_by_it() {
    // More connections than the faults that a new version may have: a refused state is none.
    for drains in [false, true] {
        let mut house = House::new("counts.wasm", if drains { "swap = \"drain\"" } else { "" });
        let mut peers = [(); 6].map(|()| house.peer("counts"));
        for peer in &mut peers {
            says(peer, "a", "1 a");
        }
        let answer = house.swap("counts", &built("programs/forgets.wasm")).expect("it is swapped");
        let row = &answer["doors"][0];
        assert_eq!((&row["moved"], &row["stayed"]), (&json!(0), &json!(6)), "{row}");
        for peer in &mut peers {
            match drains {
                true => assert_eq!(peer.line(), None, "asked to end"),
                false => says(peer, "b", "2 b"),
            }
        }
        says(&mut house.peer("counts"), "a", "new a");
        let left = if drains { 0 } else { 6 };
        let row = house.until("counts", |row| row["connections"] == left);
        let seen = ["version", "traps", "faults", "rollbacks", "behind", "state"];
        assert_eq!(
            seen.map(|key| row[key].clone()),
            [json!(2), json!(0), json!(0), json!(0), json!(left), json!("serving")],
            "{row}"
        );
        // A way back that refuses is no crash of the version that comes back either.
        let mut newer = [(); 6].map(|()| house.peer("counts"));
        for peer in &mut newer {
            says(peer, "a", "new a");
        }
        house.control.ask("rollback", json!({"component": "counts"})).expect("there is one before");
        let row = house.until("counts", |row| row["version"] == 1);
        assert_eq!((&row["traps"], &row["state"]), (&json!(0), &json!("serving")), "{row}");
        for peer in &mut newer {
            says(peer, "b", "new b");
        }
        let said = house.end();
        assert!(!said.contains("failed its probation"), "{said}");
    }
}

#[test]
fn a_version_that_traps_at_once_is_rolled_back_and_costs_nobody_anything() {
    // Decision 52; `traps` resumes the state of `counts` and traps at this word, which is the first that it hears.
    let mut house = House::new("counts.wasm", "");
    let mut peers = [house.peer("counts"), house.peer("counts"), house.peer("counts")];
    for peer in &mut peers {
        says(peer, "a", "1 a");
    }
    house.swap("counts", &built("programs/traps.wasm")).expect("it is swapped");
    says(&mut peers[0], "trap", "2 trap");
    assert_eq!(house.control.door("counts")["version"], 2, "one fault is allowed");
    says(&mut peers[1], "trap", "2 trap");
    // The third has heard nothing of it, and is moved back with what it had.
    let row = house.until("counts", |row| row["version"] == 1 && row["behind"] == 0);
    assert_eq!((&row["traps"], &row["rollbacks"]), (&json!(2), &json!(1)), "{row}");
    for peer in &mut peers {
        peer.write(b"z\n");
    }
    assert_eq!(
        peers.map(|mut peer| peer.line()),
        ["3 z", "3 z", "2 z"].map(|line| Some(line.to_owned()))
    );
    let said = house.end();
    assert_eq!(said.matches("new version failed its probation").count(), 1, "{said}");
}

#[test]
fn traps_in_resume_is_rolled_back_before_everybody_is_asked_to_end() {
    let mut house = House::new("counts.wasm", "swap = \"drain\"");
    let mut peers = [(); 6].map(|()| house.peer("counts"));
    for peer in &mut peers {
        says(peer, "a", "1 a");
    }
    house.swap("counts", &built("programs/traps_in_resume.wasm")).expect("it is swapped");
    let row = house.until("counts", |row| row["version"] == 1 && row["behind"] == 0);
    assert_eq!((&row["traps"], &row["rollbacks"]), (&json!(2), &json!(1)), "{row}");
    // Two traps are too many: by the first one peer was asked to end, and the other five hear nothing of it.
    let left = house.until("counts", |row| row["connections"] == 5);
    assert_eq!(left["state"], "serving", "{left}");
    let rows = house.control.ask("connections", json!({"door": "counts"})).expect("rows");
    let rows = rows["connections"].as_array().expect("a list");
    assert!(rows.iter().all(|row| row["version"] == 1), "{rows:?}");
}

#[test]
fn a_version_of_another_world_is_refused_with_the_difference() {
    let mut house = House::new("counts.wasm", "");
    let refused = |answer: Result<Value, String>, words: &[&str]| {
        let said = answer.expect_err("it is refused");
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    };
    refused(
        house.swap("counts", &built("programs/wrong_types.wasm")),
        &["does not fit transom:codec@0.1", "missing: `connection.suspend"],
    );
    refused(
        house.swap("counts", &built("programs/imports_clock.wasm")),
        &["a codec imports nothing"],
    );
    refused(
        house.swap("counts", &built("programs/mirrors.wasm")),
        &["speaks the protocol `mirrors`", "door `counts`"],
    );
    refused(
        house.swap("counts", &built("programs/spins_in_open.wasm")),
        &["cannot open a connection"],
    );
    refused(house.swap("counts", &house.socket("nowhere")), &["cannot read component"]);
    refused(
        house.swap("nobody", &built("programs/counts.wasm")),
        &["no door uses a component `nobody`"],
    );
    refused(house.control.ask("rollback", json!({"component": "counts"})), &["no version"]);
    let row = house.control.door("counts");
    assert_eq!((&row["version"], &row["history"]), (&json!(1), &json!([])), "nothing has changed");
}
