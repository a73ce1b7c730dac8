//! The daemon's counters at one instant, read from the JSON of `link show` and `tc -s -j`.

use serde_json::Value;
use txweir::daemon::protocol::Ask;
use txweir::daemon::{Client, LINKS_MAX};
use txweir::device::clock;
use txweir::tc::printable::clean_in_place;

use super::tree;
use crate::Failure;

/// Most rows that are kept of a link's qdiscs, classes and tins. A link may have ten thousand
/// classes; a person reads a screen of them.
pub const ROWS_MAX: usize = 2048;

/// All links at one instant, and the qdiscs of one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The monotonic clock when the daemon had answered, nanoseconds.
    pub at_ns: u64,
    /// Every link, in the daemon's order.
    pub links: Vec<Link>,
    /// The link whose qdiscs are in `rows`.
    pub of: Option<String>,
    /// Its qdiscs, their classes and tins, in the order of the tree.
    pub rows: Vec<Row>,
    /// Number of further rows, which are not kept.
    pub more_rows: usize,
}

/// Counters of a link, qdisc, class or tin; `None` if it does not count this.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub bytes: Option<u64>,
    pub packets: Option<u64>,
    pub drops: Option<u64>,
    pub marks: Option<u64>,
    /// Waiting bytes at the instant.
    pub backlog: Option<u64>,
    /// Waiting packets at the instant.
    pub qlen: Option<u64>,
}

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    pub name: String,
    pub kind: String,
    pub state: String,
    /// Rate of the line, bit/s.
    pub line: Option<u64>,
    pub counters: Counters,
    /// The byte limits of all queues, bytes.
    pub limit: Option<u64>,
    /// Bytes in the device.
    pub inflight: u64,
    pub drop_reasons: Vec<(String, u64)>,
    pub mark_reasons: Vec<(String, u64)>,
}

/// A qdisc, class or tin of the chosen link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The name that it keeps while it lives: kind, handle and parent.
    pub key: String,
    /// The name that is shown.
    pub name: String,
    /// Its level in the tree, from 0.
    pub depth: usize,
    pub counters: Counters,
}

impl Snapshot {
    /// Asks the daemon for all links, and for the qdiscs of the one that `choose` names.
    ///
    /// # Errors
    /// The daemon is gone, or its answer cannot be read.
    pub fn take(
        client: &mut Client,
        choose: impl FnOnce(&[Link]) -> Option<String>,
    ) -> Result<Self, Failure> {
        let show = Ask::Link { args: words("show --json") };
        let links: Vec<Link> = list(&asked(client, &show)?)?.iter().take(LINKS_MAX).map(link).collect();
        let at_ns = clock::now_ns();
        let of = choose(&links);
        let mut rows = Vec::new();
        if let Some(name) = &of {
            let mut shown = |what: &str| -> Result<Vec<Value>, Failure> {
                let words = words(&format!("-s -j {what} show dev {name}"));
                let ask = Ask::Tc { args: words, batch: None, class_names: None };
                list(&asked(client, &ask)?)
            };
            rows = tree::rows(&shown("qdisc")?, &shown("class")?);
        }
        let more_rows = rows.len().saturating_sub(ROWS_MAX);
        rows.truncate(ROWS_MAX);
        Ok(Self { at_ns, links, of, rows, more_rows })
    }

    /// Returns a link by its name.
    pub fn link(&self, name: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.name == name)
    }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(String::from).collect()
}

/// Returns the output of a request; nothing for one that the daemon refuses, because a link may be
/// removed between two requests.
fn asked(client: &mut Client, ask: &Ask) -> Result<String, Failure> {
    let reply = client.ask(ask).map_err(Failure::usage)?;
    Ok(if reply.status == 0 { reply.stdout } else { String::new() })
}

/// Reads a list of objects; no text is an empty one.
fn list(text: &str) -> Result<Vec<Value>, Failure> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(text)
        .map_err(|e| Failure::usage(format!("the daemon's answer: expected a list of objects in JSON: {e}")))
}

/// Reads a link of `link show --json`. A key that is missing, as from another version of the
/// daemon, is shown as nothing.
fn link(object: &Value) -> Link {
    let drop_reasons = reasons(&object["drop_reasons"]);
    let mark_reasons = reasons(&object["mark_reasons"]);
    let n = |key: &str| object[key].as_u64();
    Link {
        name: text(&object["name"]),
        kind: text(&object["type"]),
        state: text(&object["state"]),
        line: n("rate_bit_s"),
        counters: Counters {
            bytes: n("bytes"),
            packets: n("packets"),
            drops: n("drops"),
            marks: Some(mark_reasons.iter().map(|(_, n)| n).sum()),
            backlog: n("backlog_bytes"),
            qlen: n("backlog_packets"),
        },
        limit: object["bql"]["limit"].as_u64(),
        inflight: n("inflight_bytes").unwrap_or(0),
        drop_reasons,
        mark_reasons,
    }
}

/// Reads counters by reason, the greatest first.
fn reasons(object: &Value) -> Vec<(String, u64)> {
    let all = object.as_object().into_iter().flatten();
    let mut all: Vec<_> =
        all.map(|(name, n)| (clean_in_place(name).into_owned(), n.as_u64().unwrap_or(0))).collect();
    all.sort_by(|(a, m), (b, n)| n.cmp(m).then_with(|| a.cmp(b)));
    all
}

/// Returns a text without characters that command a terminal.
pub fn text(value: &Value) -> String {
    clean_in_place(value.as_str().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_read_by_its_keys() {
        let read = link(&serde_json::json!({
            "name": "lan\u{1b}[2J", "type": "wire", "state": "up", "rate_bit_s": 10_000_000, "packets": 40,
            "bytes": 60560, "drops": 999, "backlog_packets": 961, "backlog_bytes": 1_454_954,
            "inflight_bytes": 1514, "bql": {"limit": 3028, "inflight": 1514},
            "drop_reasons": {"congested": 1, "overlimit": 998}, "mark_reasons": {"ce": 3, "l4s": 4},
        }));
        assert!(!read.name.contains('\u{1b}') && read.name.starts_with("lan"), "{:?}", read.name);
        let (bytes, packets, marks) = (read.counters.bytes, read.counters.packets, read.counters.marks);
        assert_eq!((bytes, packets, marks), (Some(60560), Some(40), Some(7)));
        assert_eq!((read.counters.backlog, read.counters.qlen), (Some(1_454_954), Some(961)));
        assert_eq!((read.line, read.limit, read.inflight), (Some(10_000_000), Some(3028), 1514));
        assert_eq!(read.drop_reasons, [("overlimit".to_owned(), 998), ("congested".to_owned(), 1)]);
        // A key that an older daemon does not print is nothing.
        assert_eq!(link(&serde_json::json!({"name": "a"})).counters.bytes, None);
    }

    #[test]
    fn an_answer_that_is_no_list_is_an_error() {
        assert_eq!(list("").map(|all| all.len()).ok(), Some(0));
        assert_eq!(list("[{}]\n").map(|all| all.len()).ok(), Some(1));
        assert!(list("{}").is_err() && list("[").is_err());
    }
}
