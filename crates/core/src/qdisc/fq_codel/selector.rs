//! The packets that a CE threshold is for.

use core::fmt;

use crate::packet::meta::Meta;
use crate::text::value::{Json, Refusal, Show, Value, Words, text_of};

/// A value of the DS field (RFC 2474, with the ECN bits of RFC 3168 below), and the bits that are
/// compared with it. `0x1/0x3` selects ECT(1), as L4S marks its packets (RFC 9331).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// The value.
    pub value: u8,
    /// The bits that are compared; none of them selects every packet.
    pub mask: u8,
}

impl Selector {
    /// True if a packet is selected, with the ECN field that it has now. One that is not of IP has
    /// a field of zeros; it carries no mark in any case.
    #[inline]
    pub(crate) const fn selects(self, m: &Meta) -> bool {
        let ds = m.ds & !3 | m.ecn as u8;
        self.mask == 0 || ds & self.mask == self.value
    }
}

impl Show for Selector {
    fn is_set(&self) -> bool {
        *self != Self::default()
    }
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        write!(f, "{:#x}/{:#x}", self.value, self.mask)
    }
    fn json(&self) -> Json {
        if self.is_set() { Json::Text(text_of(self)) } else { Json::Bool(false) }
    }
}

impl Value for Selector {
    const EXPECTED: &'static str = "VALUE/MASK, each 0 to 255 (0x1/0x3)";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        let (value, mask) = words.value()?.split_once('/').ok_or(Refusal::NotSuch)?;
        Ok(Self { value: byte(value)?, mask: byte(mask)? })
    }
}

/// Returns a byte, in decimal or with `0x` in hexadecimal.
fn byte(word: &str) -> Result<u8, Refusal> {
    let (digits, radix) = word.strip_prefix("0x").map_or((word, 10), |hex| (hex, 16));
    // `from_str_radix` would also accept a sign.
    let plain = digits.bytes().all(|b| b.is_ascii_hexdigit());
    if plain { Ok(u8::from_str_radix(digits, radix)?) } else { Err(Refusal::NotSuch) }
}
