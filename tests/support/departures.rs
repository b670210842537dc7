//! Where we depart from the recordings on purpose, and by which rule: `vectors/sdk/departures.toml`. A departure
//! rewrites what is expected; whether it was needed is found out by playing.

use std::{fs, ops::RangeInclusive};

use serde::Deserialize;
use serde_json::Value;

use super::vector::{self, Line, What, folder};

/// One departure.
#[derive(Debug, Clone)]
pub struct Departure {
    /// The rule behind it, for example `S-48`.
    pub rule: String,
    pub because: String,
    file: String,
    /// A file that `file` would mean and that is as it was recorded.
    except: Option<String>,
    place: Where,
    /// What stands in the way's place.
    instead: Vec<Value>,
}

#[derive(Debug, Clone)]
enum Where {
    /// These lines of the file, all of them frames that came.
    Lines(RangeInclusive<usize>),
    /// This place in every event of this type.
    Event { kind: String, path: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    departure: Vec<Raw>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    rule: String,
    because: String,
    /// A file name; `*` at its end stands for any rest.
    file: String,
    /// A file that `file` would mean and that is as it was recorded.
    #[serde(default)]
    except: Option<String>,
    lines: Option<(usize, usize)>,
    event: Option<String>,
    path: Option<String>,
    /// JSON texts: frames in place of lines, or one value in place of another.
    instead: Vec<String>,
}

/// A frame that is to come.
#[derive(Debug, Clone)]
pub struct Expected {
    /// The line of the file that it stands for.
    pub line: usize,
    pub frame: Value,
    /// What was recorded, where a departure changed a place in it.
    pub recorded: Option<Value>,
    /// The departures behind it, by their place in the list.
    pub departures: Vec<usize>,
}

/// What is to be played.
#[derive(Debug, Clone)]
pub enum Step {
    Other(Line),
    Receive(Expected),
}

/// All departures, in the order of the file.
pub fn all() -> Vec<Departure> {
    let path = folder().join("departures.toml");
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The departures in this text.
pub fn parse(text: &str) -> Result<Vec<Departure>, toml::de::Error> {
    let raw: RawFile = toml::from_str(text)?;
    Ok(raw.departure.into_iter().map(checked).collect())
}

fn checked(raw: Raw) -> Departure {
    let name = format!("departure of {} in {}", raw.rule, raw.file);
    let instead: Vec<_> = raw
        .instead
        .iter()
        .map(|text| vector::parse(text).unwrap_or_else(|error| panic!("{name}: {error} in {text}")))
        .collect();
    let place = match (raw.lines, raw.event, raw.path) {
        (Some((first, last)), None, None) => Where::Lines(first..=last),
        (None, Some(kind), Some(path)) => {
            assert_eq!(instead.len(), 1, "{name}: one value takes the place of another");
            Where::Event { kind, path }
        }
        _ => panic!("{name}: a departure names `lines`, or `event` and `path`"),
    };
    Departure {
        rule: raw.rule,
        because: raw.because,
        file: raw.file,
        except: raw.except,
        place,
        instead,
    }
}

impl Departure {
    /// Whether it speaks of this file.
    pub fn means(&self, file: &str) -> bool {
        if self.except.as_deref() == Some(file) {
            return false;
        }
        match self.file.strip_suffix('*') {
            Some(start) => file.starts_with(start),
            None => self.file == file,
        }
    }

    /// Whether it has anything to change in these lines.
    pub fn applies(&self, lines: &[Line]) -> bool {
        lines.iter().any(|line| match (&line.what, &self.place) {
            (What::Receive(_), Where::Lines(range)) => range.contains(&line.number),
            (What::Receive(frame), Where::Event { kind, path }) => {
                is_event(frame, kind) && frame.pointer(path).is_some()
            }
            _ => false,
        })
    }

    /// What was recorded where this stands instead, if whole lines are replaced.
    pub fn replaced(&self, lines: &[Line]) -> Option<Vec<Value>> {
        let Where::Lines(range) = &self.place else { return None };
        let frames = lines.iter().filter(|line| range.contains(&line.number));
        let frames = frames.filter_map(|line| match &line.what {
            What::Receive(frame) => Some(frame.clone()),
            _ => None,
        });
        Some(frames.collect())
    }
}

/// The lines of a file as they are expected today.
pub fn rewrite(file: &str, lines: &[Line], departures: &[Departure]) -> Vec<Step> {
    let ours: Vec<_> =
        departures.iter().enumerate().filter(|(_, departure)| departure.means(file)).collect();
    let mut steps = Vec::new();
    for line in lines {
        let What::Receive(frame) = &line.what else {
            let inside = ours.iter().find(|(_, departure)| {
                matches!(&departure.place, Where::Lines(range) if range.contains(&line.number))
            });
            assert!(
                inside.is_none(),
                "{file}:{}: a departure replaces only frames that came",
                line.number
            );
            steps.push(Step::Other(line.clone()));
            continue;
        };
        let replacing = ours.iter().find_map(|(index, departure)| match &departure.place {
            Where::Lines(range) if range.contains(&line.number) => {
                Some((*index, *range.start(), departure))
            }
            _ => None,
        });
        if let Some((index, first, departure)) = replacing {
            if line.number == first {
                steps.extend(departure.instead.iter().map(|frame| {
                    let frame = frame.clone();
                    Step::Receive(Expected {
                        line: first,
                        frame,
                        recorded: None,
                        departures: vec![index],
                    })
                }));
            }
            continue;
        }
        let mut expected = Expected {
            line: line.number,
            frame: frame.clone(),
            recorded: None,
            departures: Vec::new(),
        };
        for (index, departure) in &ours {
            if let Where::Event { kind, path } = &departure.place
                && is_event(frame, kind)
                && let Some(place) = expected.frame.pointer_mut(path)
            {
                *place = departure.instead[0].clone();
                expected.recorded = Some(frame.clone());
                expected.departures.push(*index);
            }
        }
        steps.push(Step::Receive(expected));
    }
    steps
}

/// The value at the place that a departure changes in each frame of an event type.
pub fn place(departure: &Departure) -> Option<&str> {
    match &departure.place {
        Where::Event { path, .. } => Some(path),
        Where::Lines(_) => None,
    }
}

fn is_event(frame: &Value, kind: &str) -> bool {
    frame.pointer("/params/event/type").is_some_and(|found| found == kind)
}
