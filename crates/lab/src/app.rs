//! Applications on top of a TCP connection: netperf's TCP_STREAM and TCP_RR, both ends.

use txweir_core::base::time::{Instant, Nanos};
use txweir_transport::{Connection, State};

use crate::cpu::Cpu;

/// Bytes that a sender of TCP_STREAM hands to TCP in one call.
const CALL: u64 = 256 << 10;

/// An application at one end of a connection.
#[derive(Clone, Debug)]
pub enum App {
    /// Sends as many bytes as TCP takes.
    Stream(Stream),
    /// Reads all data.
    Sink(Sink),
    /// Sends a request, waits for the whole response, and sends the next one.
    Client(Box<RrClient>),
    /// Waits for a whole request, and sends a response.
    Server(Box<RrServer>),
}

/// The sender of TCP_STREAM.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// Bytes to send before closing; `None` for an endless stream.
    pub total: Option<u64>,
    /// Bytes handed to TCP.
    pub written: u64,
    /// Bytes left of the present call to TCP.
    call: u64,
}

/// The receiver of TCP_STREAM.
#[derive(Clone, Debug, Default)]
pub struct Sink {
    /// Bytes read.
    pub read: u64,
    /// True if the sender has closed and all data is read.
    pub finished: bool,
}

/// Times of a client's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// The next request leaves when the response to the last one has been read.
    #[default]
    AtOnce,
    /// The next request leaves after this time.
    After(Nanos),
    /// The next request leaves at the next multiple of this time: clients with the same pace ask
    /// together.
    Every(Nanos),
}

impl Pace {
    /// Returns the time of the next request after a response that was read at `at`.
    fn next(self, at: Instant) -> Instant {
        match self {
            Self::AtOnce | Self::Every(Nanos(0)) => at,
            Self::After(time) => at + time,
            Self::Every(Nanos(period)) => Instant((at.0 / period + 1).saturating_mul(period)),
        }
    }
}

/// The client of TCP_RR.
#[derive(Clone, Debug)]
pub struct RrClient {
    /// Bytes of a request, at least 1.
    pub request: u64,
    /// Bytes of a response, at least 1.
    pub response: u64,
    /// Transactions done.
    pub done: u64,
    /// Times of its requests.
    pub pace: Pace,
    to_write: u64,
    to_read: u64,
    started: Instant,
    /// Earliest time of the next request.
    due: Instant,
}

/// The server of TCP_RR.
#[derive(Clone, Debug)]
pub struct RrServer {
    /// Bytes of a request, at least 1.
    pub request: u64,
    /// Bytes of a response, at least 1.
    pub response: u64,
    /// Requests answered.
    pub done: u64,
    to_read: u64,
    to_write: u64,
    /// Earliest time of the response to the request just read.
    due: Option<Instant>,
}

impl App {
    /// Returns a sender that closes after `total` bytes, or never.
    pub const fn stream(total: Option<u64>) -> Self {
        Self::Stream(Stream { total, written: 0, call: 0 })
    }
    /// Returns a receiver.
    pub const fn sink() -> Self {
        Self::Sink(Sink { read: 0, finished: false })
    }
    /// Returns a client with requests and responses of these sizes; zero counts as one byte.
    pub fn client(request: u64, response: u64) -> Self {
        let (request, response) = (request.max(1), response.max(1));
        let (started, due) = (Instant::ZERO, Instant::ZERO);
        let (done, pace) = (0, Pace::AtOnce);
        Self::Client(Box::new(RrClient {
            request,
            response,
            done,
            pace,
            to_write: 0,
            to_read: 0,
            started,
            due,
        }))
    }
    /// Returns the server for such a client.
    pub fn server(request: u64, response: u64) -> Self {
        let (request, response) = (request.max(1), response.max(1));
        Self::Server(Box::new(RrServer {
            request,
            response,
            done: 0,
            to_read: request,
            to_write: 0,
            due: None,
        }))
    }

    /// Sets the pace of a client; does nothing to other applications.
    pub const fn set_pace(&mut self, pace: Pace) {
        if let Self::Client(c) = self {
            c.pace = pace;
        }
    }

    /// Returns the time of its next action that no packet triggers; a time in the past means at
    /// once.
    pub(crate) const fn due(&self) -> Option<Instant> {
        match self {
            Self::Client(c) if c.to_read == 0 => Some(c.due),
            Self::Server(s) => s.due,
            _ => None,
        }
    }

    /// Reads the data that has come and writes a part of the data that can leave. The caller
    /// repeats this, after TCP has sent its segments, for as long as data is written. A sink reads
    /// `late` after `now`. Returns the time that a transaction took, if one ended.
    pub(crate) fn step(
        &mut self,
        now: Instant,
        late: Nanos,
        tcp: &mut Connection,
        cpu: &mut Cpu,
    ) -> Option<Nanos> {
        match self {
            Self::Stream(s) => {
                s.step(now, tcp);
                None
            }
            Self::Sink(s) => {
                s.step(now + late, tcp);
                None
            }
            Self::Client(c) => c.step(now, tcp, cpu),
            Self::Server(s) => {
                s.step(now, tcp, cpu);
                None
            }
        }
    }
}

impl Stream {
    fn step(&mut self, now: Instant, tcp: &mut Connection) {
        let left = self.total.map_or(u64::MAX, |t| t - self.written);
        let call = if self.call > 0 { self.call } else { left.min(CALL) };
        let n = tcp.write_unit(now, call);
        self.call = if n > 0 { call - n } else { 0 };
        self.written += n;
        if self.total == Some(self.written) {
            tcp.close();
        }
    }
}

impl Sink {
    fn step(&mut self, now: Instant, tcp: &mut Connection) {
        self.read += tcp.read(now, u64::MAX);
        if tcp.finished() {
            self.finished = true;
            tcp.close();
        }
    }
}

impl RrClient {
    fn step(&mut self, now: Instant, tcp: &mut Connection, cpu: &mut Cpu) -> Option<Nanos> {
        let mut took = None;
        if self.to_read > 0 {
            self.to_read -= tcp.read(now, self.to_read);
            if self.to_read == 0 {
                took = Some(now.saturating_since(self.started));
                self.done += 1;
                self.due = self.pace.next(cpu.run(now, self.response));
            }
        }
        if self.to_read == 0 && tcp.state() == State::Established && now >= self.due {
            (self.to_write, self.to_read, self.started) = (self.request, self.response, now);
        }
        self.to_write -= tcp.write_unit(now, self.to_write);
        took
    }
}

impl RrServer {
    fn step(&mut self, now: Instant, tcp: &mut Connection, cpu: &mut Cpu) {
        if self.due.is_none() {
            self.to_read -= tcp.read(now, self.to_read);
            if self.to_read == 0 {
                self.due = Some(cpu.run(now, self.request + self.response));
            }
        }
        if self.due.is_some_and(|due| now >= due) {
            self.due = None;
            self.done += 1;
            (self.to_read, self.to_write) = (self.request, self.response);
        }
        self.to_write -= tcp.write_unit(now, self.to_write);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paces() {
        let at = Instant(1_050);
        assert_eq!(Pace::AtOnce.next(at), at);
        assert_eq!(Pace::After(Nanos(7)).next(at), Instant(1_057));
        assert_eq!(Pace::Every(Nanos(100)).next(at), Instant(1_100));
        assert_eq!(Pace::Every(Nanos(100)).next(Instant(1_100)), Instant(1_200));
        assert_eq!(Pace::Every(Nanos(0)).next(at), at);
    }
}
