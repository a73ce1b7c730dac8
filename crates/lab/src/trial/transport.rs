//! The TCP of a trial: the algorithms that can be asked for, and what a connection may have
//! outstanding.

use txweir_core::Env;

use super::mix::Traffic;
use super::{NEAR, Setup};
use crate::net::Load;
use crate::report::text::size;
use crate::tcp::{Congestion, TcpConfig};

/// A congestion control that hosts of a trial can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm {
    /// The name that `--cc` takes and that recordings have.
    pub name: &'static str,
    /// The TCP that has it, in words.
    pub about: &'static str,
    /// Whether it negotiates ECN (RFC 3168 section 6.1.1).
    pub ecn: bool,
    congestion: Congestion,
}

/// Every algorithm; the first is the default.
pub const ALGORITHMS: &[Algorithm] = &[
    Algorithm {
        name: "cubic",
        about: "smoltcp CUBIC, no ECN, no SACK recovery, no pacing",
        ecn: false,
        congestion: Congestion::Cubic,
    },
    Algorithm {
        name: "reno",
        about: "smoltcp Reno, no ECN, no SACK recovery, no pacing",
        ecn: false,
        congestion: Congestion::Reno,
    },
];

impl Algorithm {
    /// The algorithm of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        ALGORITHMS.iter().find(|a| a.name == name)
    }
}

/// The TCP of every host, and one line that says which it is. Traffic without TCP has none to speak
/// of.
pub(super) fn transport(setup: &Setup, traffic: &Traffic) -> (TcpConfig, String) {
    let mut config = TcpConfig { congestion: setup.congestion.congestion, ..TcpConfig::default() };
    let mut said = setup.congestion.about.to_string();
    cap_windows(setup, traffic, &mut config, &mut said);
    match traffic.has_tcp() {
        true => (config, said),
        false => (config, "none in this traffic".into()),
    }
}

/// Caps the buffers, which bound what a sender has outstanding. All streams together may have
/// `WINDOW_PERCENT` of what the path and a queue of the default length hold, each its share.
fn cap_windows(setup: &Setup, traffic: &Traffic, config: &mut TcpConfig, said: &mut String) {
    /// With this much of what fits, a FIFO of the default length stands almost full and does not
    /// overflow. smoltcp repairs one loss per round trip. An overflow in slow start loses hundreds
    /// of packets at once, and the trial would show that repair and not the policy.
    const WINDOW_PERCENT: u128 = 95;
    /// Room for two full segments.
    const BUFFER_MIN: u64 = 4 << 10;
    /// 20 ms at 25 Gbit/s.
    const BUFFER_MAX: u64 = 64 << 20;
    let streams = traffic.members(|g| g.load == Load::Stream);
    let on_the_way = u128::from(setup.link.0) * u128::from(setup.rtt.0) / 1_000_000_000;
    let default = Env::default();
    let queued = u128::from(default.tx_queue_len) * u128::from(default.frame_max());
    let share = (on_the_way + queued) * WINDOW_PERCENT / 100 / u128::from(streams.max(1));
    let bytes = u64::try_from(share).unwrap_or(u64::MAX).clamp(BUFFER_MIN, BUFFER_MAX);
    (config.send_buffer, config.receive_buffer) = (bytes as usize, bytes as usize);
    said.push_str(&format!("; windows of at most {}", size(bytes)));
}

/// TCP streams that go through the bottleneck.
pub(super) fn flows(traffic: &Traffic) -> u64 {
    traffic.members(|g| g.load == Load::Stream && g.from == NEAR)
}
