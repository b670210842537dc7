//! Inputs read from lines, outputs written as lines. A line that cannot be read is a mistake in a test, so it panics
//! and says what would be right.

#![expect(clippy::panic, reason = "part of a test")]

use std::fmt::Write as _;

use crate::types::*;

/// Reads `5 unit {"hello":1}` and its like.
pub(super) fn input(line: &str) -> (Millis, Input) {
    let (now, rest) = word(line);
    let Ok(now) = now.parse() else {
        panic!("`{line}`: an input begins with the time in milliseconds")
    };
    let (kind, rest) = word(rest);
    let input = match kind {
        "unit" => unit(Form::Text, rest, |text| text.as_bytes().to_vec()),
        "binary" => unit(Form::Binary, rest, unhex),
        "unfinished" => unit(Form::Unfinished, rest, |text| text.as_bytes().to_vec()),
        "head" => {
            let (lane, rest) = lane(rest);
            Input::Head(Head { lane, fields: fields(rest) })
        }
        "skipped" => skipped(line, rest),
        "end" => {
            let (lane, rest) = lane(rest);
            Input::End(Ending { lane, broken: broken(line, rest) })
        }
        "frame" => Input::Frame(frame(line, rest)),
        "deadline" => Input::Deadline,
        "drain" => Input::Drain(match rest {
            "shutdown" => Farewell::Shutdown,
            "replaced" => Farewell::Replaced,
            _ => panic!("`{line}`: drain takes `shutdown` or `replaced`"),
        }),
        "other" => {
            let (name, json) = word(rest);
            Input::Other(name.to_owned(), json.to_owned())
        }
        _ => panic!(
            "`{line}`: no input is called `{kind}`; there are unit, binary, unfinished, head, skipped, end, frame, deadline, drain, other"
        ),
    };
    (now, input)
}

fn unit(form: Form, rest: &str, bytes: impl Fn(&str) -> Vec<u8>) -> Input {
    let (lane, rest) = lane(rest);
    Input::Unit(Unit { lane, form, bytes: bytes(rest) })
}

fn skipped(line: &str, rest: &str) -> Input {
    let (lane, rest) = lane(rest);
    let (why, bytes) = word(rest);
    let why = match why {
        "too-long" => Excess::TooLong,
        "too-deep" => Excess::TooDeep,
        _ => panic!("`{line}`: skipped takes `too-long` or `too-deep`"),
    };
    let Ok(bytes) = bytes.parse() else { panic!("`{line}`: skipped ends with a number of bytes") };
    Input::Skipped(Skipped { lane, why, bytes })
}

fn broken(line: &str, rest: &str) -> Option<String> {
    match word(rest) {
        ("", _) => None,
        ("broken", why) => Some(why.to_owned()),
        _ => panic!("`{line}`: end takes nothing, or `broken` and a reason"),
    }
}

fn frame(line: &str, rest: &str) -> Frame {
    let (kind, rest) = word(rest);
    let kind = match kind {
        "request" => FrameKind::Request,
        "reply" => FrameKind::Reply,
        "failure" => FrameKind::Failure,
        "notice" => FrameKind::Notice,
        _ => panic!("`{line}`: a frame is a request, reply, failure or notice"),
    };
    let (name, rest) = word(rest);
    let (session, rest) = member("session=", rest);
    let (id, body) = member("id=", rest);
    let body = if body.is_empty() { "{}" } else { body };
    Frame { kind, session, id, name: name.to_owned(), body: body.to_owned() }
}

/// Splits off the first word.
fn word(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

/// Splits off `prefix` with its value, if it comes next.
fn member<'a>(prefix: &str, text: &'a str) -> (Option<String>, &'a str) {
    match word(text) {
        (first, rest) if first.starts_with(prefix) => {
            (first.strip_prefix(prefix).map(str::to_owned), rest)
        }
        _ => (None, text),
    }
}

fn lane(text: &str) -> (Lane, &str) {
    match member("lane=", text) {
        (Some(lane), rest) => match lane.parse() {
            Ok(lane) => (lane, rest),
            Err(_) => panic!("`lane={lane}`: a lane is a number"),
        },
        (None, rest) => (0, rest),
    }
}

/// `name=value` separated by blanks; a value with blanks stands in quotes.
fn fields(mut text: &str) -> Fields {
    let mut fields = Vec::new();
    while let Some((name, rest)) = text.split_once('=') {
        let (value, rest) = match rest.strip_prefix('"').and_then(|quoted| quoted.split_once('"')) {
            Some((value, rest)) => (value, rest.trim_start()),
            None => word(rest),
        };
        fields.push((name.to_owned(), value.to_owned()));
        text = rest;
    }
    fields
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .map(|digit| match digit.to_digit(16) {
            Some(value) => value as u8,
            None => panic!("`{text}`: binary is written in hex digits"),
        })
        .collect();
    digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte * 16 + digit)).collect()
}

/// Writes the outputs of one call.
pub(super) fn outputs(to: &mut String, outputs: Vec<Output>) {
    for output in outputs {
        to.push_str("< ");
        write(to, output);
        to.push('\n');
    }
}

/// Writes a fault.
pub(super) fn fault(to: &mut String, fault: &Fault) {
    let _ = writeln!(to, "! {}: {}", fault.kind.as_str(), fault.detail);
}

fn write(to: &mut String, output: Output) {
    // Writing to a String cannot fail.
    let _ = match output {
        Output::Head(Head { lane, fields }) => {
            to.push_str("head");
            write_lane(to, lane);
            fields.iter().try_for_each(|(name, value)| {
                if value.contains(' ') || value.is_empty() {
                    write!(to, " {name}=\"{value}\"")
                } else {
                    write!(to, " {name}={value}")
                }
            })
        }
        Output::Unit(Unit { lane, form, bytes }) => {
            to.push_str(match form {
                Form::Text => "unit",
                Form::Binary => "binary",
                Form::Unfinished => "unfinished",
            });
            write_lane(to, lane);
            match form {
                Form::Text | Form::Unfinished => write!(to, " {}", String::from_utf8_lossy(&bytes)),
                Form::Binary => {
                    to.push(' ');
                    bytes.iter().try_for_each(|byte| write!(to, "{byte:02x}"))
                }
            }
        }
        Output::End(lane) => {
            to.push_str("end");
            write_lane(to, lane);
            Ok(())
        }
        Output::Abort(lane) => {
            to.push_str("abort");
            write_lane(to, lane);
            Ok(())
        }
        Output::Frame(frame) => write_frame(to, &frame),
        Output::Deadline(Some(at)) => write!(to, "deadline {at}"),
        Output::Deadline(None) => write!(to, "deadline none"),
        Output::Close(Closing { code, reason }) => {
            to.push_str("close");
            if let Some(code) = code {
                let _ = write!(to, " {code}");
            }
            if reason.is_empty() { Ok(()) } else { write!(to, " {reason}") }
        }
        Output::Note(name, json) => write!(to, "note {name} {json}"),
        Output::Other(name, json) => write!(to, "other {name} {json}"),
    };
}

/// Lane 0 goes without saying.
fn write_lane(to: &mut String, lane: Lane) {
    if lane != 0 {
        let _ = write!(to, " lane={lane}");
    }
}

fn write_frame(to: &mut String, frame: &Frame) -> std::fmt::Result {
    let kind = match frame.kind {
        FrameKind::Request => "request",
        FrameKind::Reply => "reply",
        FrameKind::Failure => "failure",
        FrameKind::Notice => "notice",
    };
    write!(to, "frame {kind} {}", frame.name)?;
    if let Some(session) = &frame.session {
        write!(to, " session={session}")?;
    }
    if let Some(id) = &frame.id {
        write!(to, " id={id}")?;
    }
    write!(to, " {}", frame.body)
}
