//! The TCP of a trial: the available algorithms, and the set-up of hosts.

use super::mix::Traffic;
use super::{NEAR, Setup};
use crate::net::{Choice, Group, Load};
use crate::tcp::{self, EcnMode, More, TcpConfig};

/// A congestion control that hosts of a trial can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm {
    /// The name for `--cc` and in recordings.
    pub name: &'static str,
    /// The TCP that has it, in words.
    pub about: &'static str,
    /// True if `--ecn` has a choice: the other algorithms negotiate marks by themselves.
    pub ecn: bool,
    algorithm: tcp::Algorithm,
}

const fn algorithm(
    name: &'static str,
    about: &'static str,
    ecn: bool,
    algorithm: tcp::Algorithm,
) -> Algorithm {
    Algorithm { name, about, ecn, algorithm }
}

/// Every algorithm; the first is the default.
pub const ALGORITHMS: &[Algorithm] = &[
    algorithm("cubic", "CUBIC as in Linux 6.12", true, tcp::Algorithm::Cubic),
    algorithm("reno", "Reno as in Linux 6.12", true, tcp::Algorithm::Reno),
    algorithm("bbr", "BBR version 1 as in Linux 6.12", true, tcp::Algorithm::Bbr),
    algorithm("bbr3", "BBR version 3 (draft-ietf-ccwg-bbr)", true, tcp::Algorithm::Bbr3),
    algorithm("dctcp", "DCTCP as in Linux 6.12", false, tcp::Algorithm::Dctcp),
    algorithm("prague", "Prague (its Internet-Draft)", false, tcp::Algorithm::Prague),
    algorithm("cubic+", "CUBIC with HyStart++ (RFC 9406)", true, tcp::Algorithm::CubicPlus),
];

/// Upper bound of tuning for a receive buffer. Linux's own default is 6 MB, which fills 1 Gbit/s
/// over 30 ms; hosts of faster or longer paths are configured with more, and so are those of the
/// recordings.
const RECEIVE_BUFFER: usize = 64 << 20;

impl Algorithm {
    /// Returns the algorithm of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        ALGORITHMS.iter().find(|a| a.name == name)
    }
}

/// Returns the TCP of every host, and one line that names it. For traffic without TCP the line says
/// so.
pub(super) fn transport(setup: &Setup, traffic: &Traffic) -> (TcpConfig, String) {
    let config = TcpConfig {
        congestion: setup.congestion.algorithm,
        ecn: if setup.ecn { EcnMode::Classic } else { EcnMode::Off },
        receive_buffer: RECEIVE_BUFFER,
        // The trial tests a router's transmit side: senders are elsewhere, and get no reports from
        // it.
        more: More { small_queues: false, ..More::default() },
        ..TcpConfig::default()
    };
    let marks = match (setup.congestion.ecn, setup.ecn) {
        (true, true) => ", ECN on",
        (true, false) => ", ECN off",
        (false, _) => ", with marks of its own",
    };
    let own = if is_mixed(&config, traffic) { "; groups with a TCP of their own keep it" } else { "" };
    match traffic.has_tcp() {
        true => (config, format!("{}{marks}{own}", setup.congestion.about)),
        false => (config, "none in this traffic".into()),
    }
}

/// True if a group of the traffic has a TCP of its own, other than that of the hosts.
pub(super) fn is_mixed(hosts: &TcpConfig, traffic: &Traffic) -> bool {
    let other = |g: &Group| {
        let Choice { congestion, ecn } = g.choice;
        congestion.is_some_and(|own| own != hosts.congestion) || ecn.is_some_and(|own| own != hosts.ecn)
    };
    traffic.members(other) > 0
}

/// Returns the number of TCP streams through the bottleneck, or on the way back if those are more
/// and it has a rate.
pub(super) fn flows(setup: &Setup, traffic: &Traffic) -> u64 {
    let up = traffic.members(|g| g.load == Load::Stream && g.from == NEAR);
    let down = traffic.members(|g| g.load == Load::Stream && g.from != NEAR);
    if setup.down.is_some() { up.max(down) } else { up }
}
