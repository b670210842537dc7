//! Whatever is packed comes back to the letter (L-76, row 37).

use std::sync::Arc;

use proptest::{collection::vec, option, prelude::*};
use serde_json::{Value, json};
use transom_harness::{
    chunk::{BlockType, Chunk},
    event::{Data, envelope},
    ports::Append,
};

use super::lines;
use crate::jsonl::line::Row;

fn append(seq: u64, time: u64, kind: &str, text: Arc<str>) -> Append {
    let (session, header) = ("main".into(), "{}".into());
    Append { number: seq + 1, session, header, seq, time, kind: kind.into(), text }
}

fn chunk(seq: u64, time: u64, turn: u64, chunk: &Chunk) -> Append {
    let data = Data::AssistantChunk { turn, step: 1, chunk };
    append(seq, time, "assistant/chunk", envelope(seq, time, &data, None))
}

fn text(index: u32, text: &str) -> Chunk {
    Chunk::TextDelta { index, text: text.to_owned() }
}

fn reasoning(text: &str) -> Chunk {
    Chunk::ReasoningDelta { index: 0, text: text.to_owned() }
}

fn call(id: &str, name: Option<&str>, piece: &str) -> Chunk {
    let (id, name) = (id.to_owned(), name.map(str::to_owned));
    Chunk::ToolCallDelta { index: 0, id, name, arguments_delta: piece.to_owned() }
}

fn rows(events: &[Append], packed: bool) -> Vec<String> {
    let text = String::from_utf8(lines(&events.iter().collect::<Vec<_>>(), packed)).unwrap();
    text.split_terminator('\n').map(str::to_owned).collect()
}

fn texts(events: &[Append]) -> Vec<String> {
    events.iter().map(|event| event.text.to_string()).collect()
}

fn unpacked(rows: &[String]) -> Vec<String> {
    let texts = |row: &String| match Row::parse(row).unwrap() {
        Row::Event { text, .. } => vec![text.to_owned()],
        Row::Packed(packed) => packed.texts().map(|text| text.to_string()).collect(),
    };
    rows.iter().flat_map(texts).collect()
}

/// The rows of a batch at times 100, 101, …
fn written(chunks: &[Chunk]) -> Vec<String> {
    let events: Vec<Append> =
        (0..).zip(chunks).map(|(seq, piece)| chunk(seq, 100 + seq, 1, piece)).collect();
    assert_eq!(rows(&events, false), texts(&events), "nothing is packed unless it is asked for");
    let rows = rows(&events, true);
    assert_eq!(unpacked(&rows), texts(&events));
    rows
}

#[test]
fn runs_are_of_one_kind_and_place() {
    let start = Chunk::BlockStart { index: 0, block_type: BlockType::Text };
    let (plain, packed) = ("assistant/chunk", "text-chunks");
    for (chunks, expected) in [
        (vec![text(0, "a"); 3], vec![packed]),
        (vec![text(0, "a"); 2], vec![plain; 2]),
        (vec![text(0, "a"), text(0, "b"), text(1, "c"), text(1, "d")], vec![plain; 4]),
        ([vec![text(0, "a"); 3], vec![text(1, "a"); 4]].concat(), vec![packed; 2]),
        ([vec![start], vec![text(0, "a"); 3]].concat(), vec![plain, packed]),
        (vec![reasoning("a"), reasoning("b"), reasoning("")], vec!["reasoning-chunks"]),
        (vec![reasoning("a"), reasoning("b"), text(0, "c")], vec![plain; 3]),
        (
            [vec![call("c", Some("bash"), "")], vec![call("c", None, "{"); 3]].concat(),
            vec![plain, "tool-call-chunks"],
        ),
        (vec![call("c", None, ""), call("d", None, ""), call("c", None, "")], vec![plain; 3]),
    ] {
        let rows: Vec<Value> =
            written(&chunks).iter().map(|row| serde_json::from_str(row).unwrap()).collect();
        let kinds: Vec<&str> = rows.iter().map(|row| row["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, expected, "{chunks:?}");
    }
}

#[test]
fn rows_read_as_they_are_specified() {
    assert_eq!(
        written(&[text(2, "a"), text(2, "\"\u{e9}\n"), text(2, "")]),
        [concat!(
            r#"{"type":"text-chunks","seq0":0,"time0":100,"data":{"turn":1,"step":1,"index":2,"#,
            r#""dt":[1,1],"texts":["a","\"é\n",""]}}"#
        )]
    );
    assert_eq!(
        written(&[call("c", None, "{"), call("c", None, "1"), call("c", None, "}")]),
        [concat!(
            r#"{"type":"tool-call-chunks","seq0":0,"time0":100,"data":{"turn":1,"step":1,"index":0,"id":"c","#,
            r#""dt":[1,1],"args":["{","1","}"]}}"#
        )]
    );
    let named = written(&vec![call("c", Some("bash"), "{"); 3]);
    assert!(named[0].contains(r#""id":"c","name":"bash","dt":"#), "{}", named[0]);
}

#[test]
fn a_clock_that_goes_back_ends_a_run() {
    let times = [5, 6, 7, 3, 4, 4];
    let events: Vec<Append> =
        (0..).zip(times).map(|(seq, time)| chunk(seq, time, 1, &text(0, "a"))).collect();
    let rows = rows(&events, true);
    let differences: Vec<Value> = rows
        .iter()
        .map(|row| serde_json::from_str::<Value>(row).unwrap()["data"]["dt"].clone())
        .collect();
    assert_eq!(differences, [json!([1, 1]), json!([1, 0])]);
}

fn any_chunk() -> impl Strategy<Value = Chunk> {
    let piece = || prop_oneof!["[a-z]{0,3}", any::<String>()];
    let ids = prop_oneof![Just(String::new()), Just("c".to_owned()), any::<String>()];
    prop_oneof![
        6 => (0..2_u32, piece()).prop_map(|(index, text)| Chunk::TextDelta { index, text }),
        6 => (0..2_u32, piece()).prop_map(|(index, text)| Chunk::ReasoningDelta { index, text }),
        6 => (0..2_u32, ids, option::of("n?"), piece()).prop_map(
            |(index, id, name, arguments_delta)| Chunk::ToolCallDelta { index, id, name, arguments_delta }
        ),
        1 => (0..2_u32).prop_map(|index| Chunk::BlockStart { index, block_type: BlockType::Text }),
    ]
}

/// Sequences in which runs are likely: each chunk comes several times.
fn any_events() -> impl Strategy<Value = Vec<Append>> {
    let element = (any_chunk(), 1..6_usize, 1..3_u64, 0..3_u64, any::<bool>());
    vec(element, 0..12).prop_map(|elements| {
        let mut events: Vec<Append> = Vec::new();
        let mut time = 1_000_000;
        for (piece, times, turn, pause, is_odd) in elements {
            for _ in 0..times {
                let mut event = chunk(events.len() as u64, time, turn, &piece);
                if is_odd && pause == 0 {
                    // The same event as another program would print it.
                    event.text = event.text.replace("\"data\":", "\"data\": ").into();
                }
                events.push(event);
                time += pause;
            }
            time -= 1;
            if is_odd {
                let seq = events.len() as u64;
                let text = envelope(seq, time, &Data::TurnStart { turn }, None);
                events.push(append(seq, time, "turn/start", text));
            }
        }
        events
    })
}

proptest! {
    #[test]
    fn what_was_packed_is_unpacked_to_the_letter(
        events in any_events(),
        cuts in vec(1..9_usize, 1..9),
    ) {
        let (mut rest, mut written) = (&events[..], Vec::new());
        for cut in cuts.iter().cycle() {
            let (batch, later) = rest.split_at((*cut).min(rest.len()));
            written.extend(rows(batch, true));
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(unpacked(&written), texts(&events));
        let (mut seq, mut last) = (0, None);
        for row in &written {
            let row = Row::parse(row).unwrap();
            prop_assert_eq!(row.seq(), seq);
            seq += row.events();
            last = Some(row.last_time());
        }
        prop_assert_eq!(last, events.last().map(|event| event.time));
    }
}
