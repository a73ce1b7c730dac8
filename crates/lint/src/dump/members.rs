//! The members of an object of a dump, each of which is taken once. One that nobody takes is an
//! error: nothing of a configuration is left out unseen.

use super::Refusal;
use super::json::Value;

type Taken<T> = Result<T, Refusal>;

/// The members of an object, and those that are taken.
pub(super) struct Members<'a> {
    /// The name of the object for messages: `qdisc htb 1:`.
    pub(super) what: String,
    all: Vec<(&'a str, &'a Value)>,
    taken: Vec<bool>,
}

impl<'a> Members<'a> {
    /// Returns the members of a value that has to be an object.
    pub(super) fn of(what: &str, value: &'a Value) -> Taken<Self> {
        let mut members = Self { what: what.into(), all: Vec::new(), taken: Vec::new() };
        members.add(value)?;
        Ok(members)
    }
    /// Adds the members of another object, as if they stood in this one.
    pub(super) fn add(&mut self, value: &'a Value) -> Taken<()> {
        let Value::Object(all) = value else {
            return Err(Refusal::new(format!("{}: expected an object, given {}", self.what, value.said())));
        };
        self.all.extend(all.iter().map(|(key, value)| (key.as_str(), value)));
        self.taken.resize(self.all.len(), false);
        Ok(())
    }
    /// Takes the first member of this name that is not taken.
    pub(super) fn take(&mut self, key: &str) -> Option<&'a Value> {
        let at = self.all.iter().zip(&self.taken).position(|((k, _), taken)| *k == key && !taken)?;
        self.taken[at] = true;
        Some(self.all[at].1)
    }
    /// Takes the next member that is not taken and that `wanted` accepts.
    pub(super) fn next(&mut self, wanted: impl Fn(&str) -> bool) -> Option<(&'a str, &'a Value)> {
        let at = self.all.iter().zip(&self.taken).position(|((k, _), taken)| !taken && wanted(k))?;
        self.taken[at] = true;
        Some(self.all[at])
    }
    /// True if there is a member of this name, taken or not.
    pub(super) fn has(&self, key: &str) -> bool {
        self.all.iter().any(|(k, _)| *k == key)
    }
    /// Takes a member that is no part of the configuration.
    pub(super) fn pass(&mut self, key: &str) {
        self.take(key);
    }
    /// Takes a whole number.
    pub(super) fn uint(&mut self, key: &str) -> Taken<Option<u64>> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match value {
            Value::Number(digits) if digits.parse::<u64>().is_ok() => Ok(digits.parse().ok()),
            other => Err(self.wrong(key, "a whole number", other)),
        }
    }
    /// Takes a whole number that has to be there.
    pub(super) fn need_uint(&mut self, key: &str) -> Taken<u64> {
        self.uint(key)?.ok_or_else(|| self.missing(key))
    }
    /// Takes a word: text without blanks and other signs that have a meaning in a line.
    pub(super) fn word(&mut self, key: &str) -> Taken<Option<&'a str>> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match value {
            Value::Text(text) if is_word(text) => Ok(Some(text)),
            other => Err(self.wrong(key, "a word", other)),
        }
    }
    /// Takes a word that has to be there.
    pub(super) fn need_word(&mut self, key: &str) -> Taken<&'a str> {
        self.word(key)?.ok_or_else(|| self.missing(key))
    }
    /// Takes a number or a word, as it is.
    pub(super) fn plain(&mut self, key: &str) -> Taken<Option<&'a str>> {
        self.take(key).map(|value| self.as_plain(key, value)).transpose()
    }
    /// Returns a number or a word as it is.
    pub(super) fn as_plain(&self, key: &str, value: &'a Value) -> Taken<&'a str> {
        match value {
            Value::Number(digits) => Ok(digits),
            Value::Text(text) if is_word(text) => Ok(text),
            other => Err(self.wrong(key, "a number or a word", other)),
        }
    }
    /// Takes a flag: `true`, or `null`, which tc prints for a word that stands alone.
    pub(super) fn flag(&mut self, key: &str) -> Taken<bool> {
        match self.take(key) {
            None | Some(Value::Bool(false)) => Ok(false),
            Some(Value::Bool(true) | Value::Null) => Ok(true),
            Some(other) => Err(self.wrong(key, "true, false or null", other)),
        }
    }
    /// Takes the members of an object.
    pub(super) fn object(&mut self, key: &str) -> Taken<Option<Members<'a>>> {
        let Some(value) = self.take(key) else { return Ok(None) };
        Members::of(&format!("{}: {key}", self.what), value).map(Some)
    }
    /// Takes the items of a list.
    pub(super) fn list(&mut self, key: &str) -> Taken<Option<&'a [Value]>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::List(items)) => Ok(Some(items)),
            Some(other) => Err(self.wrong(key, "a list", other)),
        }
    }
    /// Takes a list of whole numbers.
    pub(super) fn numbers(&mut self, key: &str) -> Taken<Option<Vec<u64>>> {
        let Some(items) = self.list(key)? else { return Ok(None) };
        self.as_numbers(key, items).map(Some)
    }
    /// Returns the items of a list as whole numbers.
    pub(super) fn as_numbers(&self, key: &str, items: &[Value]) -> Taken<Vec<u64>> {
        let one = |value: &Value| match value {
            Value::Number(digits) => digits.parse().map_err(|_| self.wrong(key, "whole numbers", value)),
            other => Err(self.wrong(key, "whole numbers", other)),
        };
        items.iter().map(one).collect()
    }

    /// Returns the refusal of a value.
    pub(super) fn wrong(&self, key: &str, expected: &str, given: &Value) -> Refusal {
        Refusal::new(format!("{}: {key}: expected {expected}, given {}", self.what, given.said()))
    }
    /// Returns the refusal of an object that lacks a member.
    pub(super) fn missing(&self, key: &str) -> Refusal {
        Refusal::new(format!("{}: the dump does not tell \"{key}\"", self.what))
    }
    /// Returns a refusal for a reason.
    pub(super) fn refused(&self, reason: &str) -> Refusal {
        Refusal::new(format!("{}: {reason}", self.what))
    }
    /// Checks that every member is taken, but for those that are no configuration. tc prints some
    /// twice; the second says the same.
    pub(super) fn end(self, passed: impl Fn(&str) -> bool) -> Taken<()> {
        for (at, (key, value)) in self.all.iter().enumerate() {
            let again = || self.all[..at].contains(&(*key, *value));
            if !self.taken[at] && !passed(key) && !again() {
                return Err(
                    self.refused(&format!("\"{key}\" cannot be carried over, given {}", value.said()))
                );
            }
        }
        Ok(())
    }
}

/// True if a text may stand in a line as one word.
pub(super) fn is_word(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'\\' | b'#');
    !text.is_empty() && text.len() <= 4096 && text.bytes().all(plain)
}

/// Returns a decimal number with its point moved to the right: `0.0125` by 2 is `1.25`.
pub(super) fn shifted(digits: &str, by: i32) -> Option<String> {
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let exponent = exponent.parse::<i32>().ok().filter(|e| e.abs() <= 30)?;
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all: String = format!("{whole}{part}");
    if all.is_empty() || all.len() > 40 || !all.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let point = i32::try_from(whole.len()).ok()? + exponent + by;
    let (mut before, mut after) = (String::new(), String::new());
    if point < 0 {
        after = "0".repeat(usize::try_from(-point).ok()?);
    }
    for (at, digit) in (0..).zip(all.chars()) {
        if at < point { before.push(digit) } else { after.push(digit) }
    }
    let short = usize::try_from(point).unwrap_or(0).saturating_sub(all.len());
    before.push_str(&"0".repeat(short));
    let (before, after) = (before.trim_start_matches('0'), after.trim_end_matches('0'));
    let before = if before.is_empty() { "0" } else { before };
    Some(if after.is_empty() { before.into() } else { format!("{before}.{after}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_point_is_moved() {
        for (digits, by, moved) in [
            ("0.01", 2, "1"),
            ("0.003", 2, "0.3"),
            ("1", 2, "100"),
            ("0", 2, "0"),
            ("1e-05", 2, "0.001"),
            ("1.5e-05", 6, "15"),
            ("0.0125", 6, "12500"),
            ("12.5", 0, "12.5"),
        ] {
            assert_eq!(shifted(digits, by).as_deref(), Some(moved), "{digits}");
        }
        assert_eq!((shifted("-1", 2), shifted("1e99", 2), shifted("", 2)), (None, None, None));
    }
}
