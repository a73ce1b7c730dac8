//! The longest packet of each traffic class, as words of tc: `max-sdu 200 0 1486`.

use alloc::vec::Vec;
use core::fmt;

use super::LINK_HEADER;
use crate::qdisc::mqprio::{several, spaced};
use crate::sched::traffic::CLASSES_MAX;
use crate::text::value::{Json, Refusal, Show, Value, Words};

/// The longest packet of each class from class 0, bytes without the link header; 0 for no bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sdus(pub Vec<u32>);

impl Sdus {
    /// Returns the longest frame of each class, bytes with the link header; `u32::MAX` for no
    /// bound.
    pub(super) fn frames(&self) -> [u32; CLASSES_MAX] {
        let mut frames = [u32::MAX; CLASSES_MAX];
        for (frame, sdu) in frames.iter_mut().zip(&self.0).filter(|(_, sdu)| **sdu != 0) {
            *frame = sdu.saturating_add(LINK_HEADER);
        }
        frames
    }
}

impl Show for Sdus {
    fn is_set(&self) -> bool {
        !self.0.is_empty()
    }
    fn text(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        spaced(f, &self.0, |f, sdu| write!(f, "{sdu}"))
    }
    fn json(&self) -> Json {
        Json::List(self.0.iter().map(|sdu| u64::from(*sdu)).collect())
    }
}

impl Value for Sdus {
    const EXPECTED: &'static str = "up to 16 numbers of bytes (200 0 1486)";
    fn take(words: &mut Words<'_>) -> Result<Self, Refusal> {
        several(words, u32::take).map(Self)
    }
}
