//! A JSON writer: objects with their keys in the order given, as `tc -j` prints them.

use std::fmt::Write;

use txweir_core::text::value::Json;

use crate::printable::commands_terminal;

/// An object being written.
#[derive(Debug, Default)]
pub struct Object {
    members: String,
}

impl Object {
    /// Returns an empty object.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds a text member.
    #[must_use]
    pub fn text(self, key: &str, value: &str) -> Self {
        self.raw(key, &quote(value))
    }
    /// Adds a number.
    #[must_use]
    pub fn uint(self, key: &str, value: u64) -> Self {
        self.raw(key, &value.to_string())
    }
    /// Adds a truth value.
    #[must_use]
    pub fn bool(self, key: &str, value: bool) -> Self {
        self.raw(key, if value { "true" } else { "false" })
    }
    /// Adds a value of a parameter.
    #[must_use]
    pub(crate) fn value(self, key: &str, value: &Json) -> Self {
        match value {
            Json::Uint(n) => self.uint(key, *n),
            Json::Int(n) => self.raw(key, &n.to_string()),
            Json::Bool(b) => self.bool(key, *b),
            Json::Null => self.raw(key, "null"),
            Json::Text(s) => self.text(key, s),
            Json::Number(digits) => self.raw(key, digits),
            Json::Members(members) => {
                let object = members.iter().fold(Self::new(), |o, (key, value)| o.value(key, value));
                self.raw(key, &object.finish())
            }
            Json::List(l) => self.raw(key, &numbers(l)),
            Json::Objects(all) => {
                let object = |members: &Vec<(&'static str, Json)>| {
                    members.iter().fold(Self::new(), |o, (key, value)| o.value(key, value)).finish()
                };
                self.raw(key, &list(all.iter().map(object)))
            }
            Json::Texts(all) => self.raw(key, &list(all.iter().map(|text| quote(text)))),
            Json::Rows(rows) => self.raw(key, &list(rows.iter().map(|row| numbers(row)))),
        }
    }
    /// Adds a member that is JSON already.
    #[must_use]
    pub fn raw(mut self, key: &str, json: &str) -> Self {
        let comma = if self.members.is_empty() { "" } else { "," };
        // Writing into a String cannot fail.
        let _ = write!(self.members, "{comma}{}:{json}", quote(key));
        self
    }
    /// Returns the object's text.
    pub fn finish(self) -> String {
        format!("{{{}}}", self.members)
    }
}

fn numbers(all: &[u64]) -> String {
    list(all.iter().map(u64::to_string))
}

/// Returns a list of texts that are JSON already.
pub fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(","))
}

/// Breaks JSON into lines, as `tc -j -p` breaks and indents it. The input is JSON as this module
/// writes it.
pub(crate) fn pretty(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    // One entry for each open bracket: true for an object.
    let mut open: Vec<bool> = Vec::new();
    let mut quoted = false;
    let mut escaped = false;
    let mut before = ' ';
    for c in json.chars() {
        if quoted {
            out.push(c);
            quoted = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            continue;
        }
        match c {
            '[' => {
                open.push(false);
                out.push_str("[ ");
            }
            ']' => {
                open.pop();
                out.push_str(if before == '[' { "]" } else { " ]" });
            }
            '{' => {
                open.push(true);
                out.push('{');
            }
            '}' => {
                open.pop();
                if before != '{' {
                    break_line(&mut out, open.len());
                }
                out.push('}');
            }
            ',' => {
                out.push(',');
                if open.last() == Some(&true) {
                    break_line(&mut out, open.len());
                }
            }
            ':' => out.push_str(": "),
            c => {
                if before == '{' {
                    break_line(&mut out, open.len());
                }
                quoted = c == '"';
                out.push(c);
            }
        }
        before = c;
    }
    out
}

fn break_line(out: &mut String, depth: usize) {
    out.push('\n');
    for _ in 0..depth {
        out.push_str("    ");
    }
}

/// Returns a text in quotes, escaped (RFC 8259 section 7). Characters that command a terminal are
/// escaped too.
pub fn quote(s: &str) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Writing into a String cannot fail.
            c if c < ' ' || commands_terminal(c) => drop(write!(out, "\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn members_keep_their_order() {
        let json = Object::new()
            .text("kind", "tbf")
            .bool("root", true)
            .value("priomap", &Json::List(vec![1, 2]))
            .raw("options", &Object::new().uint("limit", 7).finish())
            .finish();
        assert_eq!(json, r#"{"kind":"tbf","root":true,"priomap":[1,2],"options":{"limit":7}}"#);
        assert_eq!(list(["1".into(), "2".into()]), "[1,2]");
    }

    #[test]
    fn lines_are_broken_as_tc_breaks_them() {
        assert_eq!(pretty("[]"), "[ ]");
        assert_eq!(
            pretty(r#"[{"a":1,"o":{},"p":{"l":[1,2],"t":"x,\"}{"}},{"b":true}]"#),
            "[ {\n        \"a\": 1,\n        \"o\": {},\n        \"p\": {\n            \"l\": [ 1,2 ],\n            \
             \"t\": \"x,\\\"}{\"\n        }\n    },{\n        \"b\": true\n    } ]"
        );
    }

    proptest! {
        #[test]
        fn any_text_reads_back(s in any::<String>()) {
            prop_assert_eq!(serde_json::from_str::<String>(&quote(&s)).ok(), Some(s));
        }
    }
}
