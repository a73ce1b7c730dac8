//! The calendar of a kernel in virtual time (User-Mode Linux, `um_timetravel.h`): messages of 16
//! bytes, and memory that both share, so that most of them need not be sent.
//!
//! The calendar lets the kernel run at a time, and says until when it may move its clock by itself.
//! The kernel says that it waits; in the shared memory stands the time at which it wants to run.

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use rustix::cmsg_space;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use vm_memory::{AtomicInteger, FileOffset, MmapRegion, VolatileMemory};

/// Bytes of a message: operation, sequence number, and a time in nanoseconds.
const MESSAGE: usize = 16;

const ACK: u32 = 0;
const RUN: u32 = 6;

/// The clients of the shared memory: the calendar, and the kernel.
const CALENDAR: u16 = 0;
const KERNEL: u16 = 1;
const CLIENTS: u16 = 2;
/// The version of the memory's layout.
const VERSION: u32 = 2;
/// Bytes of the memory's header, and of each client.
const HEADER: usize = 4096;
const CLIENT: usize = 128;
const LENGTH: usize = HEADER + CLIENTS as usize * CLIENT;
/// The capability of a client that finds its time in the memory.
const SHARES_TIME: u32 = 1;
/// The flag of a client that wants to run.
const WANTS_TO_RUN: u32 = 1;

/// An operation of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// It has connected.
    Start,
    /// It stands still until it is told to run.
    Wait,
    /// It asks for the time of day.
    TimeOfDay,
    /// It does not use the shared memory, as it is older.
    Old,
    /// Something that does not concern this calendar.
    Other,
}

/// A message of the kernel.
#[derive(Clone, Copy, Debug)]
struct Message {
    sequence: u32,
    operation: Operation,
}

/// The connection of a kernel to its calendar.
#[derive(Debug)]
pub(crate) struct Clock {
    socket: UnixStream,
    shared: Shared,
    buffer: [u8; MESSAGE],
    have: usize,
    sequence: u32,
    /// The time of day at time zero, nanoseconds since 1970.
    zero: u64,
}

impl Clock {
    /// Takes over the connection of a kernel, whose time is zero. `zero`: the time of day then.
    pub(crate) fn new(socket: UnixStream, zero: u64) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let shared = Shared::new()?;
        Ok(Self { socket, shared, buffer: [0; MESSAGE], have: 0, sequence: 0, zero })
    }

    /// Answers the next message, if all of it is there. Returns it.
    ///
    /// # Errors
    /// The system's error; the kind is `UnexpectedEof` if the kernel has ended.
    pub(crate) fn answer(&mut self) -> io::Result<Option<Operation>> {
        while self.have < MESSAGE {
            match self.socket.read(&mut self.buffer[self.have..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.have += read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.have = 0;
        let Message { sequence, operation } = Message::read(&self.buffer);
        match operation {
            Operation::Start => self.start(sequence)?,
            // One who waits by the shared memory gets no acknowledgement.
            Operation::Wait => self.shared.running().store(CALENDAR, Ordering::Release),
            Operation::TimeOfDay => self.send(ACK, sequence, self.zero + self.now())?,
            Operation::Old | Operation::Other => self.send(ACK, sequence, 0)?,
        }
        Ok(Some(operation))
    }

    /// Gives the kernel the shared memory, and a file for a log that it does not write.
    fn start(&mut self, sequence: u32) -> io::Result<()> {
        let log = File::options().write(true).open("/dev/null")?;
        let fds = [self.shared.file.as_fd(), log.as_fd()];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&fds));
        let message = raw(ACK, sequence, KERNEL.into());
        let flags = SendFlags::NOSIGNAL;
        match sendmsg(&self.socket, &[IoSlice::new(&message)], &mut control, flags)? {
            MESSAGE => Ok(()),
            _ => Err(ErrorKind::WriteZero.into()),
        }
    }

    /// Lets the kernel run at this time, until it waits. It may move its clock itself before the
    /// time `free`.
    pub(crate) fn run(&mut self, time: u64, free: u64) -> io::Result<()> {
        self.set(time);
        self.set_free(free);
        self.shared.running().store(KERNEL, Ordering::Release);
        self.sequence = self.sequence.wrapping_add(1);
        self.send(RUN, self.sequence, time)
    }

    /// Returns the time to which the kernel has come.
    pub(crate) fn now(&self) -> u64 {
        self.shared.word(16).load(Ordering::Acquire)
    }

    /// Sets the time, while the kernel stands still.
    pub(crate) fn set(&mut self, time: u64) {
        self.shared.word(16).store(time, Ordering::Release);
    }

    /// Says before which time the kernel moves its clock itself.
    pub(crate) fn set_free(&mut self, until: u64) {
        self.shared.word(8).store(until, Ordering::Release);
    }

    /// Returns the time at which the kernel, which stands still, wants to run.
    pub(crate) fn wanted(&self) -> Option<u64> {
        let client = HEADER + usize::from(KERNEL) * CLIENT;
        let wants = self.shared.half(client + 4).load(Ordering::Acquire) & WANTS_TO_RUN != 0;
        wants.then(|| self.shared.word(client + 8).load(Ordering::Acquire))
    }

    fn send(&mut self, operation: u32, sequence: u32, time: u64) -> io::Result<()> {
        self.socket.write_all(&raw(operation, sequence, time))
    }
}

impl AsFd for Clock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The memory that a kernel shares with its calendar. Its header is: version and length, the time
/// before which the running client moves the time itself, the time, the running client, and the
/// number of clients. A client is: its capabilities, its flags, the time at which it wants to run.
#[derive(Debug)]
struct Shared {
    file: File,
    memory: MmapRegion,
}

impl Shared {
    fn new() -> io::Result<Self> {
        let file = File::from(memfd_create(c"txweir-calendar", MemfdFlags::CLOEXEC)?);
        ftruncate(&file, LENGTH as u64)?;
        let place = FileOffset::new(file.try_clone()?, 0);
        let memory = MmapRegion::from_file(place, LENGTH).map_err(io::Error::other)?;
        let shared = Self { file, memory };
        shared.half(0).store(VERSION, Ordering::Release);
        shared.half(4).store(LENGTH as u32, Ordering::Release);
        // The kernel boots: it runs.
        shared.running().store(KERNEL, Ordering::Release);
        shared.at::<AtomicU16>(26).store(CLIENTS, Ordering::Release);
        shared.half(HEADER + usize::from(CALENDAR) * CLIENT).store(SHARES_TIME, Ordering::Release);
        Ok(shared)
    }

    /// Returns a part of the memory. The places are those of this file, within the length, and
    /// aligned.
    fn at<T: AtomicInteger>(&self, offset: usize) -> &T {
        self.memory.get_atomic_ref(offset).expect("a place in the memory")
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        self.at(offset)
    }
    fn half(&self, offset: usize) -> &AtomicU32 {
        self.at(offset)
    }
    fn running(&self) -> &AtomicU16 {
        self.at(24)
    }
}

fn raw(operation: u32, sequence: u32, time: u64) -> [u8; MESSAGE] {
    let mut raw = [0; MESSAGE];
    raw[..4].copy_from_slice(&operation.to_ne_bytes());
    raw[4..8].copy_from_slice(&sequence.to_ne_bytes());
    raw[8..].copy_from_slice(&time.to_ne_bytes());
    raw
}

impl Message {
    fn read(raw: &[u8; MESSAGE]) -> Self {
        let word = |at: usize| u32::from_ne_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        let operation = match word(0) {
            1 => Operation::Start,
            2 | 4 | 5 => Operation::Old,
            3 => Operation::Wait,
            8 => Operation::TimeOfDay,
            _ => Operation::Other,
        };
        Self { sequence: word(4), operation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a message, as bytes.
    fn words(operation: u32, sequence: u32, time: u64) -> Vec<u8> {
        [u64::from(sequence) << 32 | u64::from(operation), time].map(u64::to_le_bytes).concat()
    }

    #[test]
    fn messages_in_bytes() {
        let (mut kernel, socket) = UnixStream::pair().expect("a pair");
        let mut clock = Clock::new(socket, 1_000).expect("a clock");
        let mut said = |kernel: &mut UnixStream, raw: &[u8]| {
            kernel.write_all(raw).expect("sent");
            clock.answer().expect("open")
        };
        let day = words(8, 10, 0);
        assert_eq!(said(&mut kernel, &day[..9]), None, "a part of a message");
        assert_eq!(said(&mut kernel, &day[9..]), Some(Operation::TimeOfDay));
        assert_eq!(said(&mut kernel, &words(2, 11, 5)), Some(Operation::Old));
        assert_eq!(said(&mut kernel, &words(3, 12, 0)), Some(Operation::Wait));
        clock.run(8, 9).expect("sent");
        let mut read = [0; 48];
        kernel.read_exact(&mut read).expect("read");
        assert_eq!(read.to_vec(), [words(0, 10, 1_000), words(0, 11, 0), words(6, 1, 8)].concat());
        drop(kernel);
        assert_eq!(clock.answer().unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn the_shared_memory_says_who_runs_and_until_when() {
        let (mut kernel, socket) = UnixStream::pair().expect("a pair");
        let mut clock = Clock::new(socket, 0).expect("a clock");
        let word = |clock: &Clock, at| clock.shared.word(at).load(Ordering::Relaxed);
        // Version 2 and 4352 bytes; the kernel runs, of two clients; the calendar has the memory.
        assert_eq!([word(&clock, 0), word(&clock, 24)], [4_352 << 32 | 2, 2 << 16 | 1]);
        assert_eq!(word(&clock, 4_096), 1);
        kernel.write_all(&words(3, 1, 0)).expect("sent");
        assert_eq!(clock.answer().expect("open"), Some(Operation::Wait));
        assert_eq!((word(&clock, 24), clock.wanted()), (2 << 16, None));
        clock.shared.half(4_096 + 132).store(1, Ordering::Relaxed);
        clock.shared.word(4_096 + 136).store(77, Ordering::Relaxed);
        assert_eq!(clock.wanted(), Some(77));
        clock.run(77, 99).expect("sent");
        assert_eq!([word(&clock, 8), word(&clock, 16), word(&clock, 24)], [99, 77, 2 << 16 | 1]);
        clock.set(80);
        assert_eq!(clock.now(), 80);
    }
}
