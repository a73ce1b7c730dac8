//! Metrics for Prometheus and other collectors, in the format of OpenMetrics, over HTTP.
//!
//! The numbers are those of `link show -j` and `tc -s -j`. The server makes one page at a time, a
//! part in each turn of its loop, so that packets wait for one part and not for a page.

mod collect;
mod page;
mod request;

use std::io::{self, ErrorKind};
use std::sync::Arc;

use txweir_core::{Instant, Nanos};
use txweir_device::poll::PollFlags;

use crate::daemon::Daemon;
use crate::stream::Stream;
use collect::Cursor;
use page::Page;
use request::{Answer, REQUEST_MAX};

/// Most connections at once. With [`PAGE_MAX`] this bounds memory: each may have a page of its own
/// to be sent. One more waits in the queue of the socket.
const SCRAPES_MAX: usize = 4;
/// Time in which a client that has its response may hang up first. Bytes that it has not read would
/// be lost if the server closed the connection while bytes of the client are unread.
const LINGER: Nanos = Nanos::from_secs(1);
/// Most bytes of a page: ten thousand classes of htb take some 20 MB.
const PAGE_MAX: usize = 32 << 20;
/// Most objects (links, queues, qdiscs, classes) that are collected before the links have their
/// turn: twice as many took a millisecond in a build for tests.
const PART: usize = 64;
/// Number of pages begun, for one request, after which one is made without giving way: changes make
/// a page begin again.
const TRIES: u32 = 4;
/// Bytes that are sent to one client before others have their turn.
const WRITE_MAX: usize = 256 << 10;

/// A text that several clients may get.
type Text = Arc<Vec<String>>;

/// The connections of collectors, and the page that is being made.
#[derive(Debug)]
pub(crate) struct Scrapes<S> {
    all: Vec<Scrape<S>>,
    making: Option<Making>,
}

/// A page that is being made.
#[derive(Debug)]
struct Making {
    page: Page,
    cursor: Cursor,
    /// The number of changes at its beginning.
    changes: u64,
    tries: u32,
}

/// One connection.
#[derive(Debug)]
struct Scrape<S> {
    stream: S,
    state: State,
    /// The time at which it ends.
    until: Instant,
}

/// The state of a connection.
#[derive(Debug)]
enum State {
    /// Its request comes.
    Reads(Vec<u8>),
    /// It waits for a page; true once the page has begun.
    Waits(bool),
    /// It gets a response: these pieces, from this byte of this piece on.
    Writes(Text, usize, usize),
    /// It has its response, and hangs up.
    Ends,
}

impl<S> Default for Scrapes<S> {
    fn default() -> Self {
        Self { all: Vec::new(), making: None }
    }
}

impl<S: Stream> Scrapes<S> {
    /// True if one more connection may come.
    pub(crate) const fn has_place(&self) -> bool {
        self.all.len() < SCRAPES_MAX
    }

    /// Takes over a connection, which ends at `until`, whatever is under way then.
    pub(crate) fn begin(&mut self, stream: S, until: Instant) {
        self.all.push(Scrape { stream, state: State::Reads(Vec::new()), until });
    }

    /// Returns the number of connections.
    pub(crate) const fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the connections with the events to wait for.
    pub(crate) fn connections(&self) -> impl Iterator<Item = (&S, PollFlags)> {
        self.all.iter().map(|scrape| (&scrape.stream, scrape.events()))
    }

    /// Returns the time at which the first connection ends.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.all.iter().map(|scrape| scrape.until).min()
    }

    /// True if a page is to be made.
    pub(crate) fn has_work(&self) -> bool {
        self.making.is_some() || self.all.iter().any(|scrape| matches!(scrape.state, State::Waits(_)))
    }

    /// Reads from and writes to the connections that are ready, in the order of
    /// [`connections`](Self::connections), and ends those whose time is over.
    pub(crate) fn attend(&mut self, ready: &[PollFlags], now: Instant) {
        let mut at = 0;
        self.all.retain_mut(|scrape| {
            let events = ready.get(at).copied().unwrap_or(PollFlags::empty());
            at += 1;
            scrape.until > now && (events.is_empty() || scrape.go_on(now).is_ok_and(|goes_on| goes_on))
        });
        if !self.all.iter().any(|scrape| matches!(scrape.state, State::Waits(true))) {
            self.making = None;
        }
    }

    /// Collects a part of the page, if one is to be made.
    pub(crate) fn step(&mut self, daemon: &mut Daemon, now: Instant) {
        if self.making.is_none() {
            if !self.has_work() {
                return;
            }
            // Those who come later want numbers that are not older than their request.
            self.all.iter_mut().for_each(|scrape| scrape.begins());
            self.making = Some(Making::new(daemon, 1));
        }
        let Some(mut making) = self.making.take() else { return };
        if making.changes != daemon.changes() {
            // The places of objects may be others now.
            making = Making::new(daemon, making.tries + 1);
        }
        let most = if making.tries >= TRIES { usize::MAX } else { PART };
        let is_done = making.cursor.step(daemon.links_mut(), &mut making.page, most);
        let answer = match (making.page.len() > PAGE_MAX, is_done) {
            (true, _) => Arc::new(vec![request::error(request::TOO_MUCH)]),
            (false, true) => {
                let mut pieces = making.page.finish();
                pieces.insert(0, request::head(pieces.iter().map(String::len).sum()));
                Arc::new(pieces)
            }
            (false, false) => return self.making = Some(making),
        };
        self.all.retain_mut(|scrape| {
            if matches!(scrape.state, State::Waits(true)) {
                scrape.state = State::Writes(Arc::clone(&answer), 0, 0);
                return scrape.go_on(now).is_ok_and(|goes_on| goes_on);
            }
            true
        });
    }
}

impl Making {
    fn new(daemon: &Daemon, tries: u32) -> Self {
        Self { page: Page::default(), cursor: Cursor::default(), changes: daemon.changes(), tries }
    }
}

impl<S: Stream> Scrape<S> {
    fn events(&self) -> PollFlags {
        match self.state {
            State::Reads(_) | State::Ends => PollFlags::IN,
            State::Waits(_) => PollFlags::empty(),
            State::Writes(..) => PollFlags::OUT,
        }
    }

    fn begins(&mut self) {
        if let State::Waits(begun) = &mut self.state {
            *begun = true;
        }
    }

    /// Reads or writes as far as possible now. Returns false if the connection has ended.
    fn go_on(&mut self, now: Instant) -> io::Result<bool> {
        match &mut self.state {
            State::Reads(input) => {
                let goes_on = read(&mut self.stream, input, REQUEST_MAX)?;
                match request::read(input) {
                    None => return Ok(goes_on),
                    Some(Answer::Metrics) => self.state = State::Waits(false),
                    Some(Answer::Error(status)) => {
                        self.state = State::Writes(Arc::new(vec![request::error(status)]), 0, 0);
                    }
                }
            }
            // Nothing but an end or an error is reported while nothing is waited for.
            State::Waits(_) => return Ok(false),
            State::Writes(..) => {}
            State::Ends => return read(&mut self.stream, &mut Vec::new(), REQUEST_MAX),
        }
        self.write(now)?;
        Ok(true)
    }

    /// Sends the response as far as the client accepts it now.
    fn write(&mut self, now: Instant) -> io::Result<()> {
        let State::Writes(text, piece, byte) = &mut self.state else { return Ok(()) };
        let mut left = WRITE_MAX;
        while let Some(rest) = text.get(*piece).map(|piece| &piece.as_bytes()[*byte..]) {
            if rest.is_empty() {
                (*piece, *byte) = (*piece + 1, 0);
                continue;
            }
            if left == 0 {
                return Ok(());
            }
            match self.stream.write(&rest[..rest.len().min(left)]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => (*byte, left) = (*byte + n, left - n),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.stream.end()?;
        self.state = State::Ends;
        self.until = self.until.min(now + LINGER);
        Ok(())
    }
}

/// Reads the available bytes, until there are more than `most`. Returns false at the end.
fn read(stream: &mut impl Stream, input: &mut Vec<u8>, most: usize) -> io::Result<bool> {
    let mut bite = [0; 4 << 10];
    while input.len() <= most {
        match stream.read(&mut bite) {
            Ok(0) => return Ok(false),
            Ok(n) => input.extend_from_slice(&bite[..n]),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(true),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::Mutex;

    use super::*;
    use crate::protocol::{Ask, Batch};
    use txweir_device::clock::now_ns;

    /// A connection whose request is there, and which takes everything.
    struct Known(&'static [u8], Arc<Mutex<Vec<u8>>>);

    impl Read for Known {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            self.0.read(room)
        }
    }
    impl Write for Known {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.lock().expect("no test panics here").extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    impl Stream for Known {
        fn who(&self) -> String {
            String::new()
        }
    }

    fn tc(daemon: &mut Daemon, text: &str) {
        let batch = Some(Batch { name: "b".into(), text: text.into(), lines_before: 0, more: false });
        let args = ["-b", "b"].map(String::from).into();
        let reply = daemon.answer(Instant::ZERO, &Ask::Tc { args, batch, class_names: None });
        assert_eq!((reply.status, reply.stderr.as_str()), (0, ""));
    }

    /// Returns a daemon with a link, and one with a thousand classes behind it.
    fn thousand() -> Daemon {
        let mut daemon = Daemon::new();
        let class = |i: u32| {
            let parent = format!("dev big parent 1:{i:x} handle {:x}:", i + 0x100);
            format!("class add dev big parent 1: classid 1:{i:x} htb rate 1mbit\nqdisc add {parent} pfifo\n")
        };
        let text: String = (1..=1000).map(class).collect();
        tc(
            &mut daemon,
            &format!("link add early\nlink add big\nqdisc add dev big root handle 1: htb\n{text}"),
        );
        daemon
    }

    #[test]
    fn a_page_of_a_thousand_classes_is_made_in_parts_of_a_bounded_number_of_objects() {
        let mut daemon = thousand();
        let (mut page, mut cursor) = (Page::default(), Cursor::default());
        let mut took = Vec::new();
        loop {
            let (before, bytes) = (now_ns(), page.len());
            let is_done = cursor.step(daemon.links_mut(), &mut page, PART);
            took.push((now_ns() - before) / 1000);
            // An object has some thirty samples of some hundred bytes at most.
            assert!(page.len() - bytes <= PART * 4096, "{}", page.len() - bytes);
            if is_done {
                break;
            }
        }
        // Two links with their queues and roots, and two objects a class.
        assert_eq!(took.len(), 2006_usize.div_ceil(PART));
        took.sort_unstable();
        println!("parts of {} to {} us, median {}", took[0], took[took.len() - 1], took[took.len() / 2]);
    }

    #[test]
    fn a_change_between_two_parts_makes_the_page_begin_again_and_not_for_ever() {
        for changes in [1, 100] {
            let (mut daemon, written) = (thousand(), Arc::default());
            let mut scrapes = Scrapes::default();
            scrapes.begin(Known(b"GET /metrics HTTP/1.1\r\n\r\n", Arc::clone(&written)), Instant(1 << 60));
            scrapes.attend(&[PollFlags::IN], Instant(1));
            let mut parts = 0;
            while scrapes.has_work() {
                scrapes.step(&mut daemon, Instant(1));
                parts += 1;
                // The places of all links behind this one change.
                if parts % 20 == 10 && parts / 20 < changes {
                    tc(&mut daemon, "link del early\nlink add early\n");
                }
            }
            while scrapes.deadline().is_some() {
                scrapes.attend(&[PollFlags::OUT], Instant(1));
            }
            assert!((32..=32 * 3).contains(&parts), "{changes}: {parts}");
            let text =
                String::from_utf8(std::mem::take(&mut *written.lock().expect("no panic"))).expect("text");
            assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("# EOF\n"));
            for (of, n) in [("class_packets_total{link=\"big\"", 1000), ("link_up{link=\"early\"", 1)] {
                assert_eq!(text.matches(&format!("\ntxweir_{of}")).count(), n, "{changes}: {of}");
            }
        }
    }
}
