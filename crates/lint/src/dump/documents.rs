//! The documents of a dump: JSON of tc, one value after the other, and lines of `tc class show` in
//! text, which earlier versions of tc print also with `-j`.

use super::json::{Reader, Value};
use super::members::is_word;
use super::{OBJECTS_MAX, Refusal, class};

/// The command whose output an object is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Qdisc,
    Class,
    /// `filter show dev D`: those of the root, which say their place.
    Filter,
    /// `filter show dev D ingress`.
    Ingress,
    /// `filter show dev D egress`.
    Egress,
}

impl Kind {
    /// The members of a document of several lists.
    const LISTS: [(&str, Self); 5] = [
        ("qdisc", Self::Qdisc),
        ("class", Self::Class),
        ("filter", Self::Filter),
        ("ingress", Self::Ingress),
        ("egress", Self::Egress),
    ];
}

/// An object of a dump.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) kind: Kind,
    /// The device, if the object or a document before it names it.
    pub(super) dev: Option<String>,
    pub(super) value: Value,
}

/// Documents that are being read.
struct Documents<'a> {
    name: &'a str,
    text: &'a str,
    objects: Vec<Object>,
    /// The device that the last document named.
    dev: Option<String>,
}

/// Reads all documents of a text.
pub(super) fn read(text: &str, name: &str) -> Result<Vec<Object>, Refusal> {
    let mut all = Documents { name, text, objects: Vec::new(), dev: None };
    let mut reader = Reader::new(text);
    // Bound: each turn takes a value or a line.
    while let Some(first) = reader.rest().bytes().next() {
        let at = reader.at();
        if matches!(first, b'[' | b'{') {
            let value =
                reader.value().map_err(|w| all.wrong(w.at, &format!("{}{}", w.message, hint(text))))?;
            all.document(value).map_err(|said| all.wrong(at, &said))?;
        } else {
            all.line(reader.line()).map_err(|said| all.wrong(at, &said))?;
        }
    }
    Ok(all.objects)
}

/// Returns what helps where a text that should be JSON is none.
fn hint(text: &str) -> &'static str {
    match text.contains("\"class\":\"hfsc\"") {
        true => " (tc 6.15 prints classes of hfsc not as JSON: tc class show, without -j, prints them)",
        false => "",
    }
}

impl Documents<'_> {
    /// Returns the refusal of the text at a place.
    fn wrong(&self, at: usize, message: &str) -> Refusal {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|b| **b != b'\n').count() + 1;
        Refusal::new(format!("{}:{line}:{column}: {message}", self.name))
    }

    fn push(&mut self, kind: Kind, value: Value) -> Result<(), String> {
        if self.objects.len() >= OBJECTS_MAX {
            return Err(format!("expected at most {OBJECTS_MAX} objects, given more"));
        }
        let dev = match member(&value, "dev") {
            None => self.dev.clone(),
            Some(Value::Text(dev)) if is_word(dev) => Some(dev.clone()),
            Some(other) => return Err(format!("dev: expected a name, given {}", other.said())),
        };
        self.objects.push(Object { kind, dev, value });
        Ok(())
    }

    /// Takes a line of `tc class show`.
    fn line(&mut self, line: &str) -> Result<(), String> {
        match class::line(line)? {
            Some(value) => self.push(Kind::Class, value),
            None => Ok(()),
        }
    }

    /// Takes a list of objects of one command, an object with several lists, or one object.
    fn document(&mut self, value: Value) -> Result<(), String> {
        match value {
            Value::List(items) => items.into_iter().try_for_each(|item| {
                let kind = kind_of(&item)?;
                self.push(kind, item)
            }),
            Value::Object(members) if !is_object(&members) => self.lists(members),
            one => {
                let kind = kind_of(&one)?;
                self.push(kind, one)
            }
        }
    }

    /// Takes `{"dev": ..., "qdisc": [...], "class": [...], ...}`.
    fn lists(&mut self, members: Vec<(String, Value)>) -> Result<(), String> {
        match members.iter().find(|(key, _)| key == "dev") {
            None => {}
            Some((_, Value::Text(dev))) if is_word(dev) => self.dev = Some(dev.clone()),
            Some((_, other)) => return Err(format!("dev: expected a name, given {}", other.said())),
        }
        for (key, value) in members {
            let Some((_, kind)) = Kind::LISTS.iter().find(|(name, _)| *name == key) else {
                if key == "dev" {
                    continue;
                }
                let expected = "expected dev, qdisc, class, filter, ingress or egress";
                return Err(format!("{expected}, given \"{key}\""));
            };
            match value {
                Value::List(items) => items.into_iter().try_for_each(|item| self.push(*kind, item))?,
                Value::Text(lines) if *kind == Kind::Class => {
                    lines.lines().filter(|line| !line.trim().is_empty()).try_for_each(|l| self.line(l))?;
                }
                other => return Err(format!("{key}: expected a list, given {}", other.said())),
            }
        }
        Ok(())
    }
}

/// Returns the first member of this name.
pub(super) fn member<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match value {
        Value::Object(members) => members.iter().find(|(k, _)| k == key).map(|(_, value)| value),
        _ => None,
    }
}

/// True for the members of one qdisc, class or filter.
fn is_object(members: &[(String, Value)]) -> bool {
    members.iter().any(|(key, _)| matches!(key.as_str(), "kind" | "handle"))
}

/// Returns the command whose output an object is from, by its members.
fn kind_of(value: &Value) -> Result<Kind, String> {
    let has = |key: &str| member(value, key).is_some();
    match (has("class"), has("kind"), has("pref") || has("protocol") || has("chain")) {
        (true, _, _) => Ok(Kind::Class),
        (false, true, true) => Ok(Kind::Filter),
        (false, true, false) => Ok(Kind::Qdisc),
        (false, false, _) => Err(match value {
            Value::Object(members) => {
                let keys: Vec<&str> = members.iter().take(8).map(|(key, _)| key.as_str()).collect();
                format!("expected a qdisc, class or filter of tc -j, given an object of {}", keys.join(", "))
            }
            other => format!("expected a qdisc, class or filter of tc -j, given {}", other.said()),
        }),
    }
}
