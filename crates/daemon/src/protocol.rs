//! The messages on the socket: a JSON object a line each way (`docs/protocol.md`).
//!
//! Requests are read by hand from any JSON, so that a refusal names the key, what was expected
//! there and what was given. An unknown key is refused as well, because ignoring it would hide a
//! mistake of the client.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use txweir_tc::printable::with_short_words;

/// Longest request, bytes without the end of its line. Packets wait while a request is read, a few
/// milliseconds for the longest. A longer batch comes in parts ([`Batch::more`]).
pub const LINE_MAX: usize = 1 << 20;
/// Most bytes of a batch that comes in parts: those of the largest configuration.
pub const BATCH_MAX: usize = 16 << 20;

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A tc command: its words after `tc`.
    Tc {
        /// The words.
        args: Vec<String>,
        /// The file that `-b` names, which only the client can read.
        batch: Option<Batch>,
        /// The text of the file of class names, for `-nm`.
        class_names: Option<String>,
    },
    /// A link command: its words after `link`.
    Link {
        /// The words.
        args: Vec<String>,
    },
    /// The request for the commands that make the present configuration.
    Save,
    /// The request for the name and version of this program.
    Version,
}

/// The text of a batch file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Its name in messages.
    pub name: String,
    /// The whole file, or a part that is performed after the parts before it.
    pub text: String,
    /// Number of lines of the file before the text.
    #[serde(default)]
    pub lines_before: usize,
    /// True for a part that is not performed yet: the text goes on in the next request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// A line from a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The identifier that the reply repeats: a number, a text or null.
    pub id: Value,
    /// The request itself, or the reason for which it could not be read.
    pub ask: Result<Ask, String>,
}

/// A line to a client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The identifier of the request; null if it had none or could not be read.
    #[serde(default)]
    pub id: Value,
    /// 0: done. 1: not understood. 2: understood, and refused.
    pub status: u8,
    /// Text to print on stdout.
    #[serde(default)]
    pub stdout: String,
    /// Text to print on stderr.
    #[serde(default)]
    pub stderr: String,
}

impl Reply {
    /// Returns the reply to a request that was performed, with this output.
    #[must_use]
    pub fn done(stdout: impl Into<String>) -> Self {
        Self { stdout: stdout.into(), ..Self::default() }
    }

    /// Returns the reply to a request that was not performed. The error is made to end with a line
    /// end, and its long words are shortened.
    #[must_use]
    pub fn refused(status: u8, error: &str) -> Self {
        let said = with_short_words(error.trim_end());
        Self { status, stderr: format!("{said}\n"), ..Self::default() }
    }

    /// Returns the reply as a line, with its end.
    #[must_use]
    pub fn line(&self) -> Vec<u8> {
        // Numbers and texts always have a JSON form; without one the client would still get a
        // reply.
        let mut line = serde_json::to_vec(self)
            .unwrap_or_else(|_| br#"{"id":null,"status":2,"stdout":"","stderr":"no reply"}"#.to_vec());
        line.push(b'\n');
        line
    }
}

/// The keys that a request may have.
const KEYS: [&str; 5] = ["id", "do", "args", "batch", "class_names"];
/// The requests by name: the values of `do`.
pub const REQUESTS: [&str; 4] = ["tc", "link", "save", "version"];

/// Returns the names of the requests, for messages.
fn requests() -> String {
    let [rest @ .., last] = REQUESTS;
    let rest = rest.map(|name| format!("{name:?}")).join(", ");
    format!("{rest} or {last:?}")
}

impl Request {
    /// Reads a line without its end.
    #[must_use]
    pub fn read(line: &[u8]) -> Self {
        let object = match serde_json::from_slice::<Value>(line) {
            Ok(Value::Object(object)) => object,
            Ok(other) => {
                return Self { id: Value::Null, ask: Err(wrong("request", "an object", &other)) };
            }
            Err(e) => {
                return Self { id: Value::Null, ask: Err(format!("request: expected JSON: {e}")) };
            }
        };
        let id = object.get("id").cloned().unwrap_or_default();
        match id {
            Value::Null | Value::Number(_) | Value::String(_) => Self { ask: ask(&object), id },
            other => Self { id: Value::Null, ask: Err(wrong("id", "a number or a text", &other)) },
        }
    }

    /// Returns a request as a line, with its end.
    #[must_use]
    pub fn line(id: u64, ask: &Ask) -> Vec<u8> {
        let value = match ask {
            Ask::Tc { args, batch, class_names } => {
                let mut value = json!({"id": id, "do": "tc", "args": args});
                if let Some(batch) = batch {
                    value["batch"] = json!(batch);
                }
                if let Some(names) = class_names {
                    value["class_names"] = json!(names);
                }
                value
            }
            Ask::Link { args } => json!({"id": id, "do": "link", "args": args}),
            Ask::Save => json!({"id": id, "do": "save"}),
            Ask::Version => json!({"id": id, "do": "version"}),
        };
        let mut line = value.to_string().into_bytes();
        line.push(b'\n');
        line
    }
}

fn ask(object: &Map<String, Value>) -> Result<Ask, String> {
    if let Some(key) = object.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!("{key:?}: there is no such key: expected {}", KEYS.join(", ")));
    }
    let name = match object.get("do") {
        Some(Value::String(name)) => name.as_str(),
        Some(other) => return Err(wrong("do", &requests(), other)),
        None => return Err(format!("do: expected {}, given nothing", requests())),
    };
    let none_of = |keys: &[&str]| match keys.iter().find(|key| object.contains_key(**key)) {
        Some(key) => Err(format!("{key}: expected none with do {name:?}, given {key}")),
        None => Ok(()),
    };
    let unknown = || Err(format!("do: expected {}, given {name:?}", requests()));
    if !REQUESTS.contains(&name) {
        return unknown();
    }
    match name {
        "tc" => Ok(Ask::Tc { args: args(object)?, batch: batch(object)?, class_names: class_names(object)? }),
        "link" => none_of(&["batch", "class_names"]).and_then(|()| Ok(Ask::Link { args: args(object)? })),
        "save" => none_of(&["args", "batch", "class_names"]).map(|()| Ask::Save),
        "version" => none_of(&["args", "batch", "class_names"]).map(|()| Ask::Version),
        _ => unknown(),
    }
}

fn args(object: &Map<String, Value>) -> Result<Vec<String>, String> {
    let expected = "a list of texts";
    let list = match object.get("args") {
        Some(Value::Array(list)) => list,
        Some(other) => return Err(wrong("args", expected, other)),
        None => return Err(format!("args: expected {expected}, given nothing")),
    };
    let word = |(i, word): (usize, &Value)| match word {
        Value::String(word) => Ok(word.clone()),
        other => Err(wrong(&format!("args[{i}]"), "a text", other)),
    };
    list.iter().enumerate().map(word).collect()
}

fn class_names(object: &Map<String, Value>) -> Result<Option<String>, String> {
    match object.get("class_names") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(wrong("class_names", "a text", other)),
    }
}

const BATCH_KEYS: [&str; 4] = ["name", "text", "lines_before", "more"];

fn batch(object: &Map<String, Value>) -> Result<Option<Batch>, String> {
    let expected = "an object with \"name\" and \"text\"";
    let batch = match object.get("batch") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(batch)) => batch,
        Some(other) => return Err(wrong("batch", expected, other)),
    };
    if let Some(key) = batch.keys().find(|key| !BATCH_KEYS.contains(&key.as_str())) {
        return Err(format!("batch.{key}: there is no such key: expected {}", BATCH_KEYS.join(", ")));
    }
    let text = |key: &str| match batch.get(key) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(wrong(&format!("batch.{key}"), "a text", other)),
        None => Err(format!("batch.{key}: expected a text, given nothing")),
    };
    let lines_before = match batch.get("lines_before") {
        None | Some(Value::Null) => 0,
        Some(lines) => match lines.as_u64().and_then(|lines| usize::try_from(lines).ok()) {
            Some(lines) => lines,
            None => return Err(wrong("batch.lines_before", "a whole number", lines)),
        },
    };
    let more = match batch.get("more") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(more)) => *more,
        Some(other) => return Err(wrong("batch.more", "true or false", other)),
    };
    Ok(Some(Batch { name: text("name")?, text: text("text")?, lines_before, more }))
}

/// Most bytes of a value that a message repeats.
const GIVEN_MAX: usize = 60;

fn wrong(key: &str, expected: &str, given: &Value) -> String {
    let mut given = given.to_string();
    if given.len() > GIVEN_MAX {
        given.truncate(given.floor_char_boundary(GIVEN_MAX));
        given.push_str("...");
    }
    format!("{key}: expected {expected}, given {given}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> String {
        Request::read(line.as_bytes()).ask.unwrap_err()
    }

    #[test]
    fn requests_read_back() {
        let batch =
            Some(Batch { name: "p.tc".into(), text: "qdisc show\n".into(), lines_before: 7, more: true });
        let words = |words: &[&str]| words.iter().map(|w| (*w).to_string()).collect::<Vec<_>>();
        for ask in [
            Ask::Tc { args: words(&["-s", "qdisc", "show"]), batch: None, class_names: None },
            Ask::Tc { args: words(&["-b", "p.tc"]), batch, class_names: Some("1:1 voip".into()) },
            Ask::Link { args: words(&["add", "lan", "--type", "null"]) },
            Ask::Save,
            Ask::Version,
        ] {
            let line = Request::line(7, &ask);
            let (end, line) = line.split_last().unwrap();
            assert_eq!((*end, line.contains(&b'\n')), (b'\n', false));
            assert_eq!(Request::read(line), Request { id: 7.into(), ask: Ok(ask) });
        }
        assert_eq!(Request::read(br#"{"do":"save","id":"x"}"#).id, Value::from("x"));
        assert_eq!(Request::read(br#"{"do":"save"}"#).id, Value::Null);
    }

    #[test]
    fn a_refusal_does_not_repeat_a_long_word() {
        let long = "x".repeat(900_000);
        for line in [format!("{{\"{long}\":1}}"), format!("{{\"do\":\"{long}\"}}"), long] {
            let reply = Reply::refused(1, &error(&line)).line();
            assert!(reply.len() < 2000, "{}", reply.len());
        }
    }

    #[test]
    fn refusals_name_the_key_what_was_expected_and_what_was_given() {
        for (line, message) in [
            ("[1]", "request: expected an object, given [1]"),
            ("", "request: expected JSON: EOF while parsing a value at line 1 column 0"),
            (r#"{"do":"tc""#, "request: expected JSON: EOF while parsing an object at line 1 column 10"),
            ("{}", r#"do: expected "tc", "link", "save" or "version", given nothing"#),
            (r#"{"do":7}"#, r#"do: expected "tc", "link", "save" or "version", given 7"#),
            (r#"{"do":"tk"}"#, r#"do: expected "tc", "link", "save" or "version", given "tk""#),
            (r#"{"id":[1],"do":"save"}"#, "id: expected a number or a text, given [1]"),
            (r#"{"do":"tc"}"#, "args: expected a list of texts, given nothing"),
            (r#"{"do":"tc","args":"qdisc show"}"#, r#"args: expected a list of texts, given "qdisc show""#),
            (r#"{"do":"link","args":["show",1]}"#, "args[1]: expected a text, given 1"),
            (
                r#"{"do":"tc","arg":[]}"#,
                r#""arg": there is no such key: expected id, do, args, batch, class_names"#,
            ),
            (r#"{"do":"save","args":[]}"#, r#"args: expected none with do "save", given args"#),
            (
                r#"{"do":"link","args":[],"batch":null}"#,
                r#"batch: expected none with do "link", given batch"#,
            ),
            (
                r#"{"do":"tc","args":[],"batch":"x"}"#,
                r#"batch: expected an object with "name" and "text", given "x""#,
            ),
            (r#"{"do":"tc","args":[],"batch":{"name":1,"text":""}}"#, "batch.name: expected a text, given 1"),
            (
                r#"{"do":"tc","args":[],"batch":{"name":"","text":"","more":1}}"#,
                "batch.more: expected true or false, given 1",
            ),
            (r#"{"do":"tc","args":[],"batch":{"name":""}}"#, "batch.text: expected a text, given nothing"),
        ] {
            assert_eq!(error(line), message, "{line}");
        }
        let long = error(&format!(r#"{{"do":"tc","args":"{}"}}"#, "é".repeat(1000)));
        assert!(long.len() < 150 && long.ends_with("..."), "{long}");
        // The reader refuses nesting that would overflow a stack.
        assert!(error(&"[".repeat(100_000)).contains("recursion limit"));
    }
}
