//! The variables of a script: their values, and the commands that change them.

use super::arithmetic;
use super::words::{Raw, Text};

/// Longest value of a variable, in bytes: `A=$A$A` doubles it.
const LONGEST: usize = 4096;
/// Most variables.
const MOST: usize = 4096;

/// The value of a variable; an error has the reason why the value is not known.
pub(super) type Known = Result<String, String>;

/// An assignment to a variable.
pub(super) struct Assignment {
    pub(super) name: String,
    /// True for `NAME+=VALUE`.
    pub(super) appends: bool,
    pub(super) value: Known,
}

/// Returns the name and value of an assignment, and true if the value is appended.
pub(super) fn assigned(word: &str) -> Option<(&str, bool, &str)> {
    let (name, value) = word.split_once('=')?;
    let (name, appends) = name.strip_suffix('+').map_or((name, false), |name| (name, true));
    is_name(name).then_some((name, appends, value))
}

/// True for the name of a variable.
pub(super) fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Returns a value of a variable, if it is no longer than one may be.
pub(super) fn short(value: String) -> Known {
    if value.len() > LONGEST { Err("a value that grows too long".into()) } else { Ok(value) }
}

/// Returns the value of a variable that only a run could tell.
pub(super) fn unknown(name: &str) -> Known {
    Err(format!("${name}"))
}

impl Text<'_> {
    /// Gives a variable a value, which is not known if it depends on another command.
    pub(super) fn give(&mut self, name: String, value: Known, depends: bool) {
        let value = if depends { unknown(&name) } else { value };
        if self.variables.len() < MOST || self.variables.contains_key(&name) {
            self.variables.insert(name, value);
        }
    }

    pub(super) fn assign(&mut self, assignment: Assignment, depends: bool) {
        let Assignment { name, appends, value } = assignment;
        let value = match (appends, self.variables.get(&name)) {
            (false, _) => value,
            (true, None) => unknown(&name),
            (true, Some(old)) => old.clone().and_then(|old| short(old + &value?)),
        };
        self.give(name, value, depends);
    }

    /// Notes the variables that a command of the shell changes.
    pub(super) fn changes(&mut self, words: &[Raw], depends: bool) {
        let first = words.first().and_then(Raw::literal).unwrap_or("");
        if !["unset", "read", "getopts", "let"].contains(&first) {
            return;
        }
        let texts = words.iter().skip(1).filter_map(|raw| raw.words().ok()).flatten();
        let texts: Vec<String> = texts.map(|word| word.text).collect();
        for text in &texts {
            let names: Vec<&str> = match first {
                "let" => arithmetic::changed(text).collect(),
                _ => Some(text.as_str()).filter(|name| is_name(name)).into_iter().collect(),
            };
            for name in names {
                match first == "unset" && !depends {
                    true => drop(self.variables.remove(name)),
                    false => self.give(name.into(), unknown(name), depends),
                }
            }
        }
    }
}
