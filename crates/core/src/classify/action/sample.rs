//! sample: shows one packet of so many, by chance, to somebody else (tc-sample(8)). Whoever that is is the outlet's
//! ([`Outlet::sample`](crate::classify::packet::Outlet::sample)).
//!
//! Differs from Linux in nothing but the generator of its draws, which is seeded here.

use super::{Control, Memory};
use crate::classify::action::Run;
use crate::classify::packet::Packet;
use crate::text::error::{ConfigError, ErrorKind, Object};

/// Parameters of sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    rate: u32,
    group: u32,
    trunc: Option<u32>,
}

impl Sample {
    /// One packet of `rate`, to `group`, cut to `trunc` bytes.
    ///
    /// # Errors
    /// One of none.
    pub fn new(rate: u32, group: u32, trunc: Option<u32>) -> Result<Self, ConfigError> {
        match rate {
            0 => Err(ConfigError::new(
                ErrorKind::OutOfRange,
                Object::ActionOptions("sample"),
                "at least 1",
                rate,
            )
            .key("rate")),
            _ => Ok(Self { rate, group, trunc }),
        }
    }

    /// One packet of so many.
    pub const fn rate(&self) -> u32 {
        self.rate
    }
    /// To whom.
    pub const fn group(&self) -> u32 {
        self.group
    }
    /// Bytes that are shown, at most.
    pub const fn trunc(&self) -> Option<u32> {
        self.trunc
    }

    pub(super) fn run(
        &self,
        control: Control,
        packet: &mut Packet<'_>,
        _: &mut Memory,
        run: &mut Run<'_>,
    ) -> Control {
        if run.state.rng.below(u64::from(self.rate)) == 0 {
            let bytes = packet.frame.bytes();
            let shown = self.trunc.map_or(usize::MAX, |n| n as usize).min(bytes.len());
            run.outlet.sample(self.group, self.rate, &bytes[..shown], packet.meta);
        }
        control
    }
}
