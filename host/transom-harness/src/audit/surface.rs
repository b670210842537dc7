//! The surface: which messages the next request shows, and in which order (L-8, L-9).

use super::{
    Checked, bad, ensure,
    envelope::{Envelope, Joins},
};
use crate::vocabulary::Members;

/// The nodes in surface order, which a replacement can make another than that of their seqs.
#[derive(Debug, Default)]
pub(super) struct Surface {
    pub(super) nodes: Vec<Node>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) seq: u64,
    /// The message's id.
    pub(super) message: String,
    /// Requests show it: an answer without content is left out (L-9).
    pub(super) shown: bool,
    /// Of a tool's result: everything but the result itself.
    result: Option<String>,
}

impl Surface {
    /// `message` is that of the event.
    pub(super) fn join(&mut self, event: &Envelope<'_>, message: &Members<'_>) -> Checked {
        let said = message.list("content").is_some_and(|content| !content.is_empty());
        let node = Node {
            seq: event.seq,
            message: message.text("id").unwrap_or_default().into_owned(),
            shown: said || event.kind != "assistant/message",
            result: (event.kind == "tool/result").then(|| all_but_result(&event.data, message)),
        };
        match event.joins {
            Some(Joins::Replace { start, end }) => self.replace(event, node, start, end),
            Some(Joins::Append) | None => {
                self.nodes.push(node);
                Ok(())
            }
        }
    }

    fn replace(&mut self, event: &Envelope<'_>, node: Node, start: u64, end: u64) -> Checked {
        let place = |of: u64| self.nodes.iter().position(|node| node.seq == of);
        let (first, last) = match (place(start), place(end)) {
            (Some(first), Some(last)) if first <= last => (first, last),
            (None, _) => {
                return bad(
                    "L-8",
                    format!("replaces from seq {start}, which is not on the surface"),
                );
            }
            (_, None) => {
                return bad("L-8", format!("replaces to seq {end}, which is not on the surface"));
            }
            _ => {
                return bad(
                    "L-8",
                    format!("replaces from seq {start} to seq {end}, which stands before it"),
                );
            }
        };
        let hidden = self.nodes.get(first..=last).unwrap_or_default();
        let sources = event.sources.as_deref().unwrap_or_default();
        if let Some(unnamed) = hidden.iter().find(|node| !sources.contains(&node.seq)) {
            let seq = unnamed.seq;
            return bad("L-8", format!("hides seq {seq}, which its sourceEventSeqs do not name"));
        }
        if node.result.is_some() {
            let same = match hidden {
                [old] => old.result == node.result,
                _ => false,
            };
            ensure(same, "L-8", || {
                "a tool/result must replace exactly one tool/result, and change only its content"
                    .to_owned()
            })?;
        }
        self.nodes.splice(first..=last, [node]);
        Ok(())
    }
}

/// The data of a `tool/result` without the content of its block, its members in a fixed order.
fn all_but_result(data: &Members<'_>, message: &Members<'_>) -> String {
    let block = message.list("content").and_then(|content| Members::read(content.first()?.get()));
    let mut lines = without(data, "message");
    lines.extend(without(message, "content"));
    lines.extend(block.iter().flat_map(|block| without(block, "content")));
    lines.join("\n")
}

fn without(members: &Members<'_>, name: &str) -> Vec<String> {
    let others = members.names().filter(|other| *other != name);
    let mut lines: Vec<_> =
        others.filter_map(|name| Some(format!("{name} {}", members.raw(name)?.get()))).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}
