//! What travels: units of data, acknowledgements, steps of a connection.

use txweir_core::{Instant, Meta};

use super::connect::Step;
use super::stream::Ack;

/// Payload of a full segment, with timestamps.
pub(super) const MSS: u32 = 1448;
/// Ethernet, IPv4 and TCP with timestamps.
pub(super) const HEADERS: u32 = 66;
/// A SYN-ACK has 8 more bytes of options.
const SYN: u32 = 74;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Data {
        first: u32,
        segs: u32,
        sent: Instant,
    },
    Ack(Ack),
    /// A step of opening or closing a connection, and of which of the client's.
    Step(Step, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Whose: A's streams, then streams to A, then clients.
    pub(super) conn: u32,
    pub(super) body: Body,
}

impl Packet {
    pub(super) const fn is_data(&self) -> bool {
        matches!(self.body, Body::Data { .. })
    }
    pub(super) fn meta(&self, prio: bool) -> Meta {
        let len = match self.body {
            Body::Data { segs, .. } => {
                return Meta::new(HEADERS + MSS * segs).gso(HEADERS as u16, MSS as u16);
            }
            Body::Step(Step::SynAck | Step::Syn, _) => SYN,
            _ => HEADERS,
        };
        let mut m = Meta::new(len);
        m.tcp_control = prio && !matches!(self.body, Body::Step(Step::Fin | Step::FinAck, _));
        m
    }
}
