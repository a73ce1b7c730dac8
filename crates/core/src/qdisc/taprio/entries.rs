//! The entries of a schedule as words of tc: `S 01 300000 sched-entry S 02 300000`.

use alloc::vec::Vec;
use core::fmt;

use crate::law::gates::{ENTRIES_MAX, Entry};
use crate::text::value::{Json, Refusal, Show, Value, Words, text_of};

/// The word before each entry.
const KEY: &str = "sched-entry";

/// The entries of a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries(pub Vec<Entry>);

impl Show for Entries {
    fn is_set(&self) -> bool {
        !self.0.is_empty()
    }
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        for (i, Entry { open, ns }) in self.0.iter().enumerate() {
            if i > 0 {
                write!(f, " {KEY} ")?;
            }
            write!(f, "S {open:#x} {ns}")?;
        }
        Ok(())
    }
    fn json(&self) -> Json {
        Json::Text(text_of(self))
    }
}

impl Value for Entries {
    const EXPECTED: &'static str = "S, the open gates as a hexadecimal number, and nanoseconds above 0";
    /// Takes an entry, and those behind it with their keys.
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        let mut entries = Vec::new();
        loop {
            // Bound: the words, and `ENTRIES_MAX`. No packet waits for this loop.
            if entries.len() == ENTRIES_MAX || words.value()? != "S" {
                return Err(Refusal::NotSuch);
            }
            let open = words.value()?;
            let digits = open.strip_prefix("0x").unwrap_or(open);
            if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(Refusal::NotSuch);
            }
            let open = u32::from_str_radix(digits, 16)?;
            let ns: u32 = words.value()?.parse()?;
            if ns == 0 {
                return Err(Refusal::NotSuch);
            }
            entries.push(Entry { open, ns });
            if words.peek() != Some(KEY) {
                return Ok(Self(entries));
            }
            words.take();
        }
    }
}
