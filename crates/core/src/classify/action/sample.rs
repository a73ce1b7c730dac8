//! sample: copies one packet in n, by chance, to a group of observers (tc-sample(8)). The outlet
//! delivers the copy ([`Outlet::sample`](crate::classify::packet::Outlet::sample)).
//!
//! The only difference from Linux is the generator of random draws, which is seeded here.

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
    /// Returns an action that samples one packet in `rate`, for `group`, cut to `trunc` bytes.
    ///
    /// # Errors
    /// `rate` is 0.
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

    /// Returns n of one packet in n.
    pub const fn rate(&self) -> u32 {
        self.rate
    }
    /// Returns the group of observers.
    pub const fn group(&self) -> u32 {
        self.group
    }
    /// Returns the largest number of bytes of a sample.
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
