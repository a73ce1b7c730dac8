//! The TCP of hosts, from their tables.

use toml::Spanned;
use txweir_core::{Bytes, Nanos};

use super::file::{HostTable, Text};
use super::{Scenario, ScenarioError};
use crate::cpu::Cpu;
use crate::tcp::{Algorithm, EcnMode, More, TcpConfig};

/// Modes of marks in the tables of hosts and groups of traffic.
pub(super) const ECN: [(&str, EcnMode); 3] =
    [("off", EcnMode::Off), ("classic", EcnMode::Classic), ("accurate", EcnMode::Accurate)];
/// Largest first window, segments: a window above Linux's limit for a route (`initcwnd`) is of no
/// use.
const INITIAL_WINDOW_MAX: u32 = 1_000;
/// Largest buffer of a connection, bytes: the largest window of TCP (RFC 7323).
const BUFFER_MAX: usize = 1 << 30;

impl Scenario {
    pub(super) fn host(&self, h: &HostTable) -> Result<(TcpConfig, Cpu), ScenarioError> {
        let default = TcpConfig::default();
        let tso_max = match &h.tso {
            None => 0,
            Some(tso) => u32::try_from(tso.get_ref().0.0).ok().filter(|t| *t <= 65_549).ok_or_else(|| {
                self.error(
                    tso.span(),
                    "tso: expected at most 65549 bytes, the largest IP packet and its Ethernet header",
                )
            })?,
        };
        let mss = match &h.mss {
            None => default.mss,
            // An IP packet without options must hold one segment (RFC 791 section 3.1).
            Some(mss) => Some(*mss.get_ref()).filter(|m| (64..=65_495).contains(m)).ok_or_else(|| {
                self.error(mss.span(), format!("mss: expected 64 to 65495 bytes, given {}", mss.get_ref()))
            })?,
        };
        let initial_window = match &h.initial_window {
            None => default.more.initial_window,
            Some(n) => {
                Some(*n.get_ref()).filter(|n| (1..=INITIAL_WINDOW_MAX).contains(n)).ok_or_else(|| {
                    let given = n.get_ref();
                    let message =
                        format!("initial_window: expected 1 to {INITIAL_WINDOW_MAX} segments, given {given}");
                    self.error(n.span(), message)
                })?
            }
        };
        let bytes = |key: &str, given: &Option<Spanned<Text<Bytes>>>, default: usize| {
            let Some(given) = given else { return Ok(default) };
            let n = given.get_ref().0.0;
            usize::try_from(n).ok().filter(|n| *n <= BUFFER_MAX).ok_or_else(|| {
                self.error(given.span(), format!("{key}: expected at most {BUFFER_MAX} bytes, given {n}"))
            })
        };
        let tcp = TcpConfig {
            mss,
            tso_max,
            congestion: self.named("congestion", h.congestion.as_ref(), &Algorithm::ALL)?.unwrap_or_default(),
            ecn: self.named("ecn", h.ecn.as_ref(), &ECN)?.unwrap_or_default(),
            send_buffer: bytes("send_buffer", &h.send_buffer, default.send_buffer)?,
            receive_buffer: bytes("receive_buffer", &h.receive_buffer, default.receive_buffer)?,
            ack_delay: h.ack_delay.map_or(default.ack_delay, |t| t.0),
            more: More {
                initial_window,
                stamps: h.timestamps.unwrap_or(default.more.stamps),
                sack: h.sack.unwrap_or(default.more.sack),
                small_queues: h.small_queues.unwrap_or(default.more.small_queues),
                size_by_rate: h.size_by_rate.unwrap_or(default.more.size_by_rate),
                ..default.more
            },
        };
        let per_message = h.cpu_per_message.map_or(Nanos::ZERO, |t| t.0);
        // Nanoseconds per thousand bytes are picoseconds per byte.
        let per_byte_ps = h.cpu_per_kilobyte.map_or(0, |t| t.0.0);
        Ok((tcp, Cpu::new(per_message, per_byte_ps)))
    }
}
