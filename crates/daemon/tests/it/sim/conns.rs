//! Connections of clients, as the daemon reads and writes them: short, interrupted, reset.

use std::collections::VecDeque;
use std::io::{self, Read, Write};

use txweir_daemon::Stream;
use txweir_device::poll::PollFlags;

use super::plan::Lie;
use super::world::{Shared, World};

/// A connection.
#[derive(Debug, Default)]
pub struct Conn {
    /// Bytes that the client has sent and the daemon has not read.
    pub to_server: VecDeque<u8>,
    /// Bytes that the daemon has sent and the client has not read.
    pub to_client: VecDeque<u8>,
    /// Bytes at the end of these that were sent since the last wait.
    pub fresh: usize,
    /// Bytes that fit into each direction.
    pub room: usize,
    /// Bytes of the client that the daemon has read.
    pub read: u64,
    /// True if the client sends no more.
    pub client_ended: bool,
    /// True if the client has closed the connection.
    pub client_gone: bool,
    /// True if the daemon has closed the connection.
    pub server_gone: bool,
    /// True if the last write of the daemon found no room.
    pub refused: bool,
    /// True if the daemon closed it after such a write.
    pub stuffed: bool,
    /// True if it was closed because the daemon has ended.
    pub cut: bool,
}

impl Conn {
    /// Returns the events that are there, as poll(2) has them.
    pub fn events(&self, wanted: PollFlags) -> PollFlags {
        let mut events = PollFlags::empty();
        let ended = self.client_ended || self.client_gone;
        events.set(PollFlags::IN, wanted.contains(PollFlags::IN) && (ended || !self.to_server.is_empty()));
        let room = self.client_gone || self.to_client.len() < self.room;
        events.set(PollFlags::OUT, wanted.contains(PollFlags::OUT) && room);
        events.set(PollFlags::HUP, self.client_gone);
        events
    }
}

/// The daemon's end of a connection.
#[derive(Debug)]
pub struct Pipe {
    pub id: usize,
    pub world: Shared,
}

pub fn errno(n: i32) -> io::Error {
    io::Error::from_raw_os_error(n)
}

pub const EINTR: i32 = 4;
pub const EIO: i32 = 5;
pub const ENXIO: i32 = 6;
pub const EAGAIN: i32 = 11;
pub const ENOMEM: i32 = 12;
pub const ENODEV: i32 = 19;
pub const EMFILE: i32 = 24;
pub const ENOSPC: i32 = 28;
pub const EPIPE: i32 = 32;
pub const ECONNABORTED: i32 = 103;
pub const ECONNRESET: i32 = 104;

/// Returns the error that a call meets by chance. A read finds what is there; a write may find no
/// memory for it.
fn trouble(world: &mut World, writes: bool) -> Option<io::Error> {
    if !world.plan.sockets || world.calm {
        return None;
    }
    match world.rng.below(200) {
        0..4 if writes => Some(errno(EAGAIN)),
        4..8 => Some(errno(EINTR)),
        _ => None,
    }
}

/// Returns how many of `n` bytes a call moves.
fn part(world: &mut World, n: usize) -> usize {
    if !world.plan.sockets || world.calm || !world.once_in(8) {
        return n;
    }
    1 + world.rng.below(n as u64) as usize
}

impl Read for Pipe {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut world = self.world.lock();
        let world = &mut *world;
        world.spins = 0;
        if let Some(trouble) = trouble(world, false) {
            return Err(trouble);
        }
        let Some(conn) = world.conns.get(&self.id) else { return Ok(0) };
        if conn.to_server.is_empty() {
            return match (conn.client_ended, conn.client_gone) {
                (_, true) if world.once_in(2) => Err(errno(ECONNRESET)),
                (false, false) => Err(errno(EAGAIN)),
                _ => Ok(0),
            };
        }
        let there = conn.to_server.len().min(room.len());
        let n = part(world, there);
        let Some(conn) = world.conns.get_mut(&self.id) else { return Ok(0) };
        for (to, from) in room.iter_mut().zip(conn.to_server.drain(..n)) {
            *to = from;
        }
        conn.read += n as u64;
        Ok(n)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut world = self.world.lock();
        let world = &mut *world;
        world.spins = 0;
        if let Some(trouble) = trouble(world, true) {
            if let Some(conn) = world.conns.get_mut(&self.id) {
                conn.refused = trouble.kind() == io::ErrorKind::WouldBlock;
            }
            return Err(trouble);
        }
        let whole_line = bytes.last() == Some(&b'\n') && bytes.iter().filter(|b| **b == b'\n').count() == 1;
        let twice = whole_line && world.lies(Lie::ReplyTwice);
        let lost = whole_line && world.lies(Lie::ReplyLost);
        let Some(conn) = world.conns.get(&self.id) else { return Err(errno(EPIPE)) };
        if conn.client_gone {
            return Err(errno(EPIPE));
        }
        let room = conn.room.saturating_sub(conn.to_client.len());
        if room == 0 {
            world.conns.get_mut(&self.id).expect("it is there").refused = true;
            return Err(errno(EAGAIN));
        }
        let n = part(world, room.min(bytes.len()));
        world.note(1, &bytes[..n]);
        let Some(conn) = world.conns.get_mut(&self.id) else { return Err(errno(EPIPE)) };
        if lost && n == bytes.len() {
            return Ok(n);
        }
        conn.refused = false;
        conn.to_client.extend(&bytes[..n]);
        conn.fresh += n;
        if twice && n == bytes.len() {
            conn.to_client.extend(bytes);
        }
        Ok(n)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Pipe {
    fn who(&self) -> String {
        format!("client {}", self.id)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let mut world = self.world.lock();
        if let Some(conn) = world.conns.get_mut(&self.id) {
            conn.server_gone = true;
            conn.stuffed = conn.refused;
            if conn.client_gone {
                world.conns.remove(&self.id);
            }
        }
    }
}
