//! The calendar of a kernel in virtual time: messages of 16 bytes, each of which is acknowledged
//! (User-Mode Linux, `um_timetravel.h`).

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Bytes of a message: operation, sequence number, and a time in nanoseconds.
const MESSAGE: usize = 16;

const ACK: u32 = 0;
const RUN: u32 = 6;
const FREE_UNTIL: u32 = 7;

/// An operation of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// It acknowledges the last message of the calendar.
    Ack,
    /// It has connected.
    Start,
    /// It wants to run at this time; an earlier wish is void.
    Request(u64),
    /// It stands still until it is told to run.
    Wait,
    /// It asks for the time.
    Get,
    /// It has come to this time.
    Update(u64),
    /// It asks for the time of day.
    GetTimeOfDay,
    /// Something that concerns the calendar not.
    Other,
}

/// A message of the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    sequence: u32,
    pub(crate) operation: Operation,
}

/// The connection of a kernel to its calendar.
#[derive(Debug)]
pub(crate) struct Clock {
    socket: UnixStream,
    buffer: [u8; MESSAGE],
    have: usize,
    sequence: u32,
}

impl Clock {
    pub(crate) fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self { socket, buffer: [0; MESSAGE], have: 0, sequence: 0 })
    }

    /// Returns the next message if all of it is there.
    ///
    /// # Errors
    /// The system's error; the kind is `UnexpectedEof` if the kernel has ended.
    pub(crate) fn next(&mut self) -> io::Result<Option<Message>> {
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
        Ok(Some(Message::read(&self.buffer)))
    }

    /// Acknowledges a message, with a time for those that ask for one.
    pub(crate) fn acknowledge(&mut self, message: Message, time: u64) -> io::Result<()> {
        self.send(ACK, message.sequence, time)
    }

    /// Lets the kernel run at this time. It acknowledges that.
    pub(crate) fn run(&mut self, time: u64) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        self.send(RUN, self.sequence, time)
    }

    /// Lets the kernel move its clock itself before this time, until it waits. It acknowledges
    /// that.
    pub(crate) fn free_until(&mut self, time: u64) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        self.send(FREE_UNTIL, self.sequence, time)
    }

    fn send(&mut self, operation: u32, sequence: u32, time: u64) -> io::Result<()> {
        let mut raw = [0; MESSAGE];
        raw[..4].copy_from_slice(&operation.to_ne_bytes());
        raw[4..8].copy_from_slice(&sequence.to_ne_bytes());
        raw[8..].copy_from_slice(&time.to_ne_bytes());
        self.socket.write_all(&raw)
    }
}

impl AsFd for Clock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Message {
    fn read(raw: &[u8; MESSAGE]) -> Self {
        let word = |at: usize| u32::from_ne_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        let mut time = [0; 8];
        time.copy_from_slice(&raw[8..]);
        let time = u64::from_ne_bytes(time);
        let operation = match word(0) {
            ACK => Operation::Ack,
            1 => Operation::Start,
            2 => Operation::Request(time),
            3 => Operation::Wait,
            4 => Operation::Get,
            5 => Operation::Update(time),
            8 => Operation::GetTimeOfDay,
            _ => Operation::Other,
        };
        Self { sequence: word(4), operation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(operation: u32, sequence: u32, time: u64) -> Vec<u8> {
        [&operation.to_ne_bytes()[..], &sequence.to_ne_bytes(), &time.to_ne_bytes()].concat()
    }

    #[test]
    fn messages_in_bytes() {
        let (mut kernel, socket) = UnixStream::pair().expect("a pair");
        let mut clock = Clock::new(socket).expect("a clock");
        assert!(clock.next().expect("open").is_none());
        let sent = [raw(2, 9, 5_000), raw(3, 10, 0)].concat();
        kernel.write_all(&sent[..20]).expect("sent");
        let first = clock.next().expect("open").expect("a message");
        assert_eq!(first.operation, Operation::Request(5_000));
        assert!(clock.next().expect("open").is_none(), "a part of a message");
        kernel.write_all(&sent[20..]).expect("sent");
        let second = clock.next().expect("open").expect("a message");
        assert_eq!(second.operation, Operation::Wait);
        clock.acknowledge(second, 7).expect("sent");
        clock.free_until(9).expect("sent");
        clock.run(8).expect("sent");
        let mut read = [0; 48];
        kernel.read_exact(&mut read).expect("read");
        assert_eq!(read.to_vec(), [raw(0, 10, 7), raw(7, 1, 9), raw(6, 2, 8)].concat());
        drop(kernel);
        assert_eq!(clock.next().map(|_| ()).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}
