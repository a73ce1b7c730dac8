//! Numbers in hexadecimal.

use core::fmt;

use super::{Json, Refusal, Show, Value, Words, text_of};

/// A number that tc reads and prints in hexadecimal, with `0x` in front or without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hex(pub u32);

impl Hex {
    /// Returns it as the minor number of a class: the low 16 bits.
    pub const fn minor(self) -> u16 {
        self.0 as u16
    }
}

impl Show for Hex {
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0"),
            n => write!(f, "{n:#x}"),
        }
    }
    fn json(&self) -> Json {
        Json::Text(text_of(self))
    }
}

impl Value for Hex {
    const EXPECTED: &'static str = "a hexadecimal number";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        let word = words.value()?;
        let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")).unwrap_or(word);
        // `from_str_radix` would also accept a sign.
        let plain = digits.bytes().all(|b| b.is_ascii_hexdigit());
        if plain { Ok(Self(u32::from_str_radix(digits, 16)?)) } else { Err(Refusal::NotSuch) }
    }
}

/// A number of 16 bits that tc reads in hexadecimal and prints without `0x`; 0 is not printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HexBare(pub u16);

impl Show for HexBare {
    fn is_set(&self) -> bool {
        self.0 != 0
    }
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
    fn json(&self) -> Json {
        if self.is_set() { Json::Text(text_of(self)) } else { Json::Bool(false) }
    }
}

impl Value for HexBare {
    const EXPECTED: &'static str = "a hexadecimal number up to ffff";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        u16::try_from(Hex::take(words)?.0).map(Self).map_err(|_| Refusal::NotSuch)
    }
}
