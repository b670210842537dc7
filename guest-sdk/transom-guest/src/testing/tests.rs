//! Every line of the notation, read and written, through a machine that turns inputs into like outputs.

use super::*;

/// Gives each input back; faults on a unit `fault`, and forgets what it should keep where it is told to.
struct Mirror {
    count: u8,
    faulted: bool,
}

impl Machine for Mirror {
    fn describe() -> Manifest {
        Manifest { protocol: "mirror".to_owned(), state_format: 1, ..Manifest::default() }
    }

    fn open(out: &mut Outputs, setup: Setup) -> Result<Mirror, Fault> {
        match setup.fact("refuse") {
            Some(why) => Err(Fault::new(FaultKind::Unsupported, why)),
            None => {
                out.deadline(Some(30_000));
                Ok(Mirror { count: 0, faulted: false })
            }
        }
    }

    fn handle(&mut self, out: &mut Outputs, now: Millis, input: Input) -> Result<(), Fault> {
        self.count += 1;
        self.faulted |= matches!(&input, Input::Unit(unit) if unit.bytes == b"fault");
        if self.faulted {
            return Err(Fault::new(FaultKind::Malformed, "as told"));
        }
        let output = match input {
            Input::Head(head) => Output::Head(head),
            Input::Unit(unit) if unit.bytes == b"count" => {
                Output::Note("count".to_owned(), self.count.to_string())
            }
            Input::Unit(unit) => Output::Unit(unit),
            Input::Skipped(Skipped { lane, why, bytes }) => {
                Output::Note(format!("{why:?}"), format!("[{lane},{bytes}]"))
            }
            Input::End(Ending { lane, broken: None }) => Output::End(lane),
            Input::End(Ending { lane, broken: Some(reason) }) => {
                out.push(Output::Abort(lane));
                Output::Close(Closing { code: Some(1011), reason })
            }
            Input::Frame(frame) => Output::Frame(frame),
            Input::Deadline => Output::Deadline((now < 100).then_some(now + 1)),
            Input::Drain(farewell) => {
                Output::Close(Closing { code: None, reason: format!("{farewell:?}") })
            }
            Input::Other(name, json) => Output::Other(name, json),
        };
        out.push(output);
        Ok(())
    }

    fn suspend(&self) -> Vec<u8> {
        vec![self.count]
    }

    fn resume(setup: Setup, _format: u32, state: &[u8]) -> Result<Mirror, Fault> {
        let forgets = setup.fact("forget").is_some();
        let count = if forgets { 0 } else { state.first().copied().unwrap_or_default() };
        Ok(Mirror { count, faulted: false })
    }
}

#[test]
fn every_line_is_read_and_written_in_the_same_words() {
    for (input, output) in [
        (r#"1 unit {"hello":1}"#, r#"unit {"hello":1}"#),
        ("1 unit", "unit "),
        ("1 unit lane=3 a  b", "unit lane=3 a  b"),
        ("1 binary 00ff", "binary 00ff"),
        ("1 unfinished {\"hel", "unfinished {\"hel"),
        (
            "1 head lane=1 :status=200 reason=\"not now\" empty=\"\" last=a=b",
            "head lane=1 :status=200 reason=\"not now\" empty=\"\" last=a=b",
        ),
        ("1 skipped too-long 70000", "note TooLong [0,70000]"),
        ("1 skipped lane=2 too-deep 513", "note TooDeep [2,513]"),
        ("1 end", "end"),
        ("1 end lane=2", "end lane=2"),
        ("1 end lane=2 broken exit 3", "abort lane=2\n< close 1011 exit 3"),
        (
            "1 frame request session/prompt session=main id=2 {\"a\": 1}",
            "frame request session/prompt session=main id=2 {\"a\": 1}",
        ),
        ("1 frame reply models/check id=2", "frame reply models/check id=2 {}"),
        (
            "1 frame failure session/open id=a-1 {\"code\":\"x\"}",
            "frame failure session/open id=a-1 {\"code\":\"x\"}",
        ),
        (
            "1 frame notice session/status session=main {}",
            "frame notice session/status session=main {}",
        ),
        ("1 deadline", "deadline 2"),
        ("100 deadline", "deadline none"),
        ("1 drain shutdown", "close Shutdown"),
        ("1 drain replaced", "close Replaced"),
        ("1 other later {\"a\":1}", "other later {\"a\":1}"),
    ] {
        assert_eq!(play::<Mirror>(&[input]), format!("< deadline 30000\n> {input}\n< {output}\n"));
    }
}

#[test]
fn a_fault_ends_the_story_and_is_repeated() {
    assert_eq!(
        play::<Mirror>(&["1 unit fault", "2 unit a"]),
        "< deadline 30000\n> 1 unit fault\n! malformed: as told\n> 2 unit a\n! malformed: as told\n"
    );
}

#[test]
fn a_refused_open_is_written_as_a_fault() {
    let setup = Setup { facts: vec![("refuse".to_owned(), "not today".to_owned())], ..setup() };
    assert_eq!(play_with::<Mirror>(setup, &[]), "! unsupported: not today\n");
}

#[test]
fn swaps_leave_no_trace_in_a_machine_that_keeps_its_state() {
    let story = ["1 unit a", "2 unit count", "3 unit fault", "4 unit a"];
    assert_eq!(play_with_swaps::<Mirror>(setup(), &story), play::<Mirror>(&story));
    assert!(play::<Mirror>(&story).contains("note count 2"));
}

/// Runs what must panic and gives its words.
fn complaint(run: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let panic = std::panic::catch_unwind(run).expect_err("it must complain");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().map_or(String::new(), |text| (*text).to_owned()),
    }
}

#[test]
fn a_machine_that_forgets_is_found_out() {
    let setup = Setup { facts: vec![("forget".to_owned(), String::new())], ..setup() };
    let complaint = complaint(|| drop(play_with_swaps::<Mirror>(setup, &["1 unit a", "2 unit a"])));
    assert!(complaint.contains("a resumed machine holds the same state"), "{complaint}");
}

#[test]
fn a_line_that_cannot_be_read_says_what_would_be_right() {
    for (line, says) in [
        ("unit a", "begins with the time"),
        ("1 unity a", "there are unit, binary"),
        ("1 skipped too-wide 3", "`too-long` or `too-deep`"),
        ("1 skipped too-long many", "a number of bytes"),
        ("1 end soon", "`broken` and a reason"),
        ("1 end lane=x", "a lane is a number"),
        ("1 frame shout a", "a request, reply, failure or notice"),
        ("1 drain now", "`shutdown` or `replaced`"),
        ("1 binary 0g", "hex digits"),
    ] {
        let complaint = complaint(|| drop(play::<Mirror>(&[line])));
        assert!(
            complaint.contains(line) || complaint.contains("lane=x") || complaint.contains("0g"),
            "{complaint}"
        );
        assert!(complaint.contains(says), "{complaint}");
    }
}
