//! `Session`: one client's connection. It never waits: it reads the available bytes, keeps at most
//! one unfinished request, and stops reading while its client does not take its replies.

use std::io::{self, ErrorKind};

use txweir_core::{Instant, Nanos};
use txweir_device::poll::PollFlags;

use crate::protocol::{Batch, LINE_MAX, Reply};
use crate::stream::Stream;

/// Bytes read from one client before others have their turn.
const READ_MAX: usize = 64 << 10;
/// Bytes of waiting replies beyond which no more requests of the client are performed. So a client
/// has at most this and one reply waiting.
const UNREAD_MAX: usize = 256 << 10;

/// A line that a client has sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A request without the end of its line.
    Whole(Vec<u8>),
    /// More than [`LINE_MAX`] bytes without an end; the rest is skipped.
    TooLong,
}

/// One client.
#[derive(Debug)]
pub struct Session<S> {
    stream: S,
    input: Vec<u8>,
    /// No line ends before this index of `input`.
    scanned: usize,
    /// The end of a line, if one is known to be in `input`.
    end: Option<usize>,
    /// True in the middle of a line that was too long.
    skipping: bool,
    output: Vec<u8>,
    /// Bytes of `output` that the client has.
    written: usize,
    /// True if the client will send no more.
    ended: bool,
    /// The time at which the client last sent or took something.
    moved: Instant,
    door: Door,
    /// The parts of a batch so far.
    parts: Option<Batch>,
}

/// The socket by which a client came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Its clients may change everything.
    All,
    /// Its clients may only look.
    Readers,
    /// Its clients get metrics, by HTTP.
    Metrics,
    /// Its clients send messages of rtnetlink, and may change everything.
    Netlink,
}

/// The time for which a client may do nothing before it has to make way for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a client that has nothing under way.
    pub idle: Nanos,
    /// For a client that has sent a part of a request, or that does not take its replies; in all
    /// for a connection that gets metrics.
    pub stalled: Nanos,
}

impl Default for Patience {
    /// Returns one second, in which a client that has its reply sends its next request on any
    /// machine, and ten seconds.
    fn default() -> Self {
        Self { idle: Nanos::from_secs(1), stalled: Nanos::from_secs(10) }
    }
}

impl<S: Stream> Session<S> {
    /// Takes over a connection.
    pub const fn new(stream: S, door: Door, now: Instant) -> Self {
        Self {
            stream,
            input: Vec::new(),
            scanned: 0,
            end: None,
            skipping: false,
            output: Vec::new(),
            written: 0,
            ended: false,
            moved: now,
            door,
            parts: None,
        }
    }

    /// Returns the user, the group and the process of the client, for people.
    #[must_use]
    pub fn who(&self) -> String {
        self.stream.who()
    }

    /// Returns the socket by which the client came.
    #[must_use]
    pub const fn door(&self) -> Door {
        self.door
    }

    /// Returns the connection, for waiting.
    pub const fn stream(&self) -> &S {
        &self.stream
    }

    /// Returns the events to wait for.
    #[must_use]
    pub fn events(&self) -> PollFlags {
        let mut events = PollFlags::empty();
        if !self.ended && self.end.is_none() && self.unread() <= UNREAD_MAX {
            events |= PollFlags::IN;
        }
        if self.unread() > 0 {
            events |= PollFlags::OUT;
        }
        events
    }

    /// True if a request is there and may be performed.
    #[must_use]
    pub fn has_request(&self) -> bool {
        (self.end.is_some() || self.is_too_long()) && self.unread() <= UNREAD_MAX
    }

    /// True if the session has ended: the client sends no more, and has all replies. A half line is
    /// no request.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ended && self.end.is_none() && self.unread() == 0
    }

    /// Returns the time from which the client has to make way for another one; `None` while a
    /// request of it is there that may be performed.
    #[must_use]
    pub fn makes_way_at(&self, patience: &Patience) -> Option<Instant> {
        let under_way = !self.input.is_empty() || self.parts.is_some() || self.skipping || self.unread() > 0;
        let time = if under_way { patience.stalled } else { patience.idle };
        (!self.has_request()).then(|| self.moved + time)
    }

    fn unread(&self) -> usize {
        self.output.len() - self.written
    }

    fn is_too_long(&self) -> bool {
        self.end.is_none() && !self.skipping && self.input.len() > LINE_MAX
    }

    /// Reads the available bytes, at most `READ_MAX` and one buffer.
    ///
    /// # Errors
    /// The client is gone.
    pub fn read(&mut self, now: Instant) -> io::Result<()> {
        let mut bite = [0; 16 << 10];
        let mut left = READ_MAX;
        while left > 0 && self.events().contains(PollFlags::IN) && !self.is_too_long() {
            match self.stream.read(&mut bite) {
                Ok(0) => self.ended = true,
                Ok(n) => {
                    left = left.saturating_sub(n);
                    self.moved = now;
                    self.input.extend_from_slice(&bite[..n]);
                    self.scan();
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Searches the end of a line, each byte once.
    fn scan(&mut self) {
        let found = self.input[self.scanned..].iter().position(|b| *b == b'\n').map(|i| self.scanned + i);
        self.scanned = found.unwrap_or(self.input.len());
        if !self.skipping {
            self.end = found;
            return;
        }
        // The rest of a line that was too long is discarded, its end included.
        let rest = found.map_or(self.input.len(), |end| end + 1);
        self.input.drain(..rest);
        self.scanned = 0;
        if found.is_some() {
            self.skipping = false;
            self.scan();
        }
    }

    /// Takes the next request.
    pub fn next(&mut self) -> Option<Line> {
        if !self.has_request() {
            return None;
        }
        let Some(end) = self.end else {
            self.input = Vec::new();
            (self.scanned, self.skipping) = (0, true);
            return Some(Line::TooLong);
        };
        let rest = self.input.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.input, rest);
        line.truncate(end);
        (self.scanned, self.end) = (0, None);
        self.scan();
        if line.len() > LINE_MAX {
            return Some(Line::TooLong);
        }
        Some(Line::Whole(line))
    }

    /// Returns the bytes of a batch of which more parts are to come.
    pub fn gathered(&self) -> usize {
        self.parts.as_ref().map_or(0, |parts| parts.text.len())
    }

    /// Puts a part of a batch behind those before it. True if it is the last: `batch` is the whole
    /// then. A request with another batch, or none, forgets the parts ([`forget`](Self::forget)).
    ///
    /// # Errors
    /// The batch has more than `most` bytes. Its parts are forgotten.
    pub fn gather(&mut self, batch: &mut Batch, most: usize) -> Result<bool, String> {
        let before = self.parts.take().filter(|parts| parts.name == batch.name);
        let bytes = before.as_ref().map_or(0, |parts| parts.text.len()) + batch.text.len();
        // A batch that comes whole is not kept.
        if (before.is_some() || batch.more) && bytes > most {
            return Err(format!("batch: expected at most {most} bytes in all of its parts, given more"));
        }
        let mut whole = match before {
            Some(mut parts) => {
                parts.text.push_str(&batch.text);
                parts.more = batch.more;
                parts
            }
            None => std::mem::take(batch),
        };
        if whole.more {
            self.parts = Some(whole);
            return Ok(false);
        }
        std::mem::swap(batch, &mut whole);
        Ok(true)
    }

    /// Forgets the parts of a batch.
    pub fn forget(&mut self) {
        self.parts = None;
    }

    /// Sends a reply, as far as the client accepts it now.
    ///
    /// # Errors
    /// The client is gone.
    pub fn reply(&mut self, reply: &Reply, now: Instant) -> io::Result<()> {
        self.output.extend_from_slice(&reply.line());
        self.write(now)
    }

    /// Sends the waiting bytes, as far as the client accepts them now.
    ///
    /// # Errors
    /// The client is gone.
    pub fn write(&mut self, now: Instant) -> io::Result<()> {
        while self.unread() > 0 {
            match self.stream.write(&self.output[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.written += n;
                    self.moved = now;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        // The memory of large replies is freed.
        self.output = Vec::new();
        self.written = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn pair() -> (Session<UnixStream>, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (Session::new(ours, Door::All, Instant::ZERO), theirs)
    }

    fn whole(text: &str) -> Option<Line> {
        Some(Line::Whole(text.as_bytes().to_vec()))
    }

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let (mut session, mut client) = pair();
        for part in ["a", "bc\nd\n\n", "e", "\nf"] {
            client.write_all(part.as_bytes()).unwrap();
            session.read(Instant(1)).unwrap();
            if part == "a" {
                assert_eq!((session.next(), session.has_request()), (None, false));
            }
        }
        // No more bytes are read until the request is performed.
        assert!(!session.events().contains(PollFlags::IN));
        let mut lines = Vec::new();
        loop {
            match session.next() {
                Some(line) => lines.push(line),
                None if session.events().contains(PollFlags::IN) => {
                    let before = session.input.len();
                    session.read(Instant(2)).unwrap();
                    if session.input.len() == before {
                        break;
                    }
                }
                None => break,
            }
        }
        assert_eq!(lines, ["abc", "d", "", "e"].map(|l| whole(l).unwrap()));
        drop(client);
        session.read(Instant(3)).unwrap();
        assert!(session.is_over(), "half a line is no request");
    }

    /// The first part is within the bound as well, and a batch that comes whole needs no room.
    #[test]
    fn each_part_of_a_batch_is_within_the_bound() {
        let (mut session, _client) = pair();
        let part = |more| Batch { name: "b".into(), text: "x".repeat(5), more, ..Batch::default() };
        let refused = |most: usize| -> Result<bool, String> {
            Err(format!("batch: expected at most {most} bytes in all of its parts, given more"))
        };
        assert_eq!(session.gather(&mut part(true), 4), refused(4));
        assert_eq!(session.gathered(), 0);
        assert_eq!(session.gather(&mut part(false), 4), Ok(true));
        assert_eq!(session.gather(&mut part(true), 5), Ok(false));
        assert_eq!(session.gathered(), 5);
        assert_eq!(session.gather(&mut part(false), 9), refused(9));
        assert_eq!(session.gathered(), 0);
    }

    #[test]
    fn a_line_that_is_too_long_is_said_once_and_skipped() {
        let (mut session, mut client) = pair();
        let writer = std::thread::spawn(move || {
            client.write_all(&vec![b'x'; 10 << 20]).unwrap();
            client.write_all(b"\nnext\n").unwrap();
            client
        });
        let mut lines = Vec::new();
        while lines.len() < 2 {
            session.read(Instant::ZERO).unwrap();
            assert!(session.input.len() <= LINE_MAX + READ_MAX);
            lines.extend(session.next());
            std::thread::yield_now();
        }
        assert_eq!(lines, [Line::TooLong, whole("next").unwrap()]);
        drop(writer.join().unwrap());
    }

    #[test]
    fn a_client_that_does_not_read_gets_no_more_done() {
        let (mut session, mut client) = pair();
        let reply = Reply::done("x".repeat(100_000));
        client.write_all(&b"q\n".repeat(100)).unwrap();
        session.read(Instant::ZERO).unwrap();
        let mut done = 0;
        while session.next().is_some() {
            session.reply(&reply, Instant::ZERO).unwrap();
            done += 1;
        }
        assert!((3..20).contains(&done), "{done}");
        assert!(session.unread() <= UNREAD_MAX + 100_100);
        assert_eq!(session.events(), PollFlags::OUT);
        // Once the client reads, it gets every reply, in order.
        let reader = std::thread::spawn(move || {
            let mut all = vec![0; 100 * reply.line().len()];
            client.read_exact(&mut all).unwrap();
            all.iter().filter(|b| **b == b'\n').count()
        });
        while done < 100 {
            session.write(Instant::ZERO).unwrap();
            if session.next().is_some() {
                session.reply(&Reply::done("x".repeat(100_000)), Instant::ZERO).unwrap();
                done += 1;
            }
            std::thread::yield_now();
        }
        while session.unread() > 0 {
            session.write(Instant::ZERO).unwrap();
        }
        assert_eq!(reader.join().unwrap(), 100);
    }
}
