//! A client that opens a connection, waits until the server has closed it, and opens the next (netperf's TCP_CC).

use txweir_core::{Instant, Nanos};

/// A step of opening or closing. The server closes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Syn,
    SynAck,
    /// The client's acknowledgement: the connection is open.
    Opened,
    /// The server's.
    Fin,
    /// The client's, which acknowledges the server's.
    FinAck,
    LastAck,
}

/// A client, and what the server knows of its connection.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// Which of its connections this is, from 1 on.
    pub(super) number: u32,
    /// The server's thread.
    pub(super) thread: u32,
    /// When it sends its SYN again.
    pub(super) deadline: Option<Instant>,
    tries: u32,
    /// When the server saw the first SYN.
    pub(super) syn_seen: Option<Instant>,
    /// When the server sends its FIN again.
    pub(super) fin_deadline: Option<Instant>,
    fins: u32,
    round_trip: u64,
    is_open: bool,
}

/// How long a SYN waits for its answer at first (RFC 1122, 4.2.3.1).
const SYN_WAIT: u64 = 3_000_000_000;

impl Client {
    /// The next connection.
    pub(super) fn next(&mut self, thread: u32) {
        *self = Self { number: self.number + 1, thread, ..Self::default() };
    }
    /// The server has the acknowledgement of its SYN-ACK; true if that is news.
    pub(super) fn opened(&mut self, now: Instant, number: u32) -> bool {
        let news = number == self.number && !self.is_open;
        if news {
            self.is_open = true;
            self.round_trip = self.syn_seen.map_or(0, |at| now.saturating_since(at).0);
        }
        news
    }
    /// The client has the server's FIN.
    pub(super) fn closed(&mut self, number: u32) {
        if number == self.number {
            self.fin_deadline = None;
        }
    }
    /// How long the server waits for the acknowledgement of the FIN that it sends now.
    pub(super) fn wait(&mut self) -> Nanos {
        self.fins += 1;
        let base = (3 * self.round_trip).max(super::stream::RTO_MIN.0);
        Nanos(base << (self.fins - 1).min(6))
    }
    /// How long the client waits for the answer to the SYN that it sends now.
    pub(super) fn patience(&mut self) -> Nanos {
        self.tries += 1;
        Nanos(SYN_WAIT << (self.tries - 1).min(4))
    }
}
