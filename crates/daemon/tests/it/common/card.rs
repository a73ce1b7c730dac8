//! An interface in virtual time: a test puts frames into it, and reads how many it was given.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard};

use txweir_daemon::Link;
use txweir_device::{
    Batch, Batched, Calls, Counters, Endpoint, FrameRef, Gso, IfName, LinkIo, Nic, Rest, Source, VnetHdr,
};
use txweir_runtime::WireSpec;

/// The part of the interface that a test sees.
#[derive(Debug, Default)]
pub struct Seen {
    pub incoming: VecDeque<(VnetHdr, Vec<u8>)>,
    pub counters: Counters,
    /// Frames that it took, if the test wants them.
    pub sent: Option<Vec<(VnetHdr, Vec<u8>)>>,
    /// Frames that it takes before it is full.
    pub room: usize,
    /// True if it is administratively down.
    pub down: bool,
    /// True if the interface does not exist any more.
    pub gone: bool,
    /// True if frames that are not received stay with their senders.
    pub waits: bool,
    /// Its MTU, bytes; 1500 if the test does not say.
    pub mtu: Option<usize>,
}

/// A handle to an interface.
#[derive(Clone, Debug, Default)]
pub struct Card(Arc<Mutex<Seen>>);

impl Card {
    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().expect("no test panics while it looks")
    }

    /// Makes a link of this name over the interface, paced by this wire.
    pub fn link(&self, name: &str, wire: &str) -> Link {
        self.over(name, Some(wire.parse().expect("a wire")))
    }

    /// Makes a link of this name that is as fast as the interface.
    pub fn unpaced(&self, name: &str) -> Link {
        self.over(name, None)
    }

    fn over(&self, name: &str, wire: Option<WireSpec>) -> Link {
        let io = self.io(name);
        let name = IfName::new(name).expect("a name");
        let endpoint: Endpoint = format!("packet:{name}").parse().expect("an endpoint");
        Link::over(name, endpoint, io, wire).expect("a link")
    }

    /// Opens the interface under this name.
    pub fn io(&self, name: &str) -> LinkIo {
        let name = IfName::new(name).expect("a name");
        // The descriptor is only there to be waited for.
        let (fd, _) = UnixStream::pair().expect("a pair");
        Box::new(Batched::new(Fake { seen: self.0.clone(), name, fd }, 8 << 20))
    }

    /// Lets a frame of a TCP flow come in: a super-frame if its payload is longer than a segment.
    pub fn tcp(&self, payload: usize) {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
        frame.extend(u16::try_from(40 + payload).expect("a length").to_be_bytes());
        frame.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0, 80, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
        frame.resize(54 + payload, 7);
        let gso = if payload > 1448 { Gso::TcpV4 } else { Gso::None };
        let gso_size = if payload > 1448 { 1448 } else { 0 };
        let hdr = VnetHdr {
            needs_csum: true,
            gso,
            gso_size,
            csum_start: 34,
            csum_offset: 16,
            ..VnetHdr::default()
        };
        self.seen().incoming.push_back((hdr, frame));
    }
}

#[derive(Debug)]
struct Fake {
    seen: Arc<Mutex<Seen>>,
    name: IfName,
    fd: UnixStream,
}

impl Fake {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("no test panics while it looks")
    }
}

impl Source for Fake {
    fn recv(&mut self, room: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        let mut seen = self.seen();
        if seen.gone {
            return Err(io::ErrorKind::NotFound.into());
        }
        let Some((hdr, frame)) = seen.incoming.pop_front() else { return Ok(None) };
        room[..frame.len()].copy_from_slice(&frame);
        seen.counters.rx_frames += 1;
        Ok(Some((hdr, frame.len())))
    }
}

impl Nic for Fake {
    fn kind(&self) -> &'static str {
        "packet"
    }
    fn name(&self) -> &IfName {
        &self.name
    }
    fn counters(&mut self) -> Counters {
        let mut seen = self.seen();
        let waiting = seen.incoming.len() as u64;
        seen.counters.rx_seen = seen.counters.rx_frames + seen.counters.rx_lost() + waiting;
        seen.counters
    }
    fn is_up(&self) -> io::Result<bool> {
        Ok(!self.seen().down)
    }
    fn senders_wait(&self) -> bool {
        self.seen().waits
    }
    fn has_frames(&self) -> bool {
        let seen = self.seen();
        seen.waits && !seen.incoming.is_empty()
    }
    fn mtu(&self) -> io::Result<usize> {
        Ok(self.seen().mtu.unwrap_or(1500))
    }
}

impl Calls for Fake {
    fn send_batch(&mut self, frames: &[FrameRef<'_>]) -> Batch {
        let mut seen = self.seen();
        let taken = frames.len().min(seen.room);
        seen.room -= taken;
        seen.counters.tx_frames += taken as u64;
        if let Some(sent) = &mut seen.sent {
            sent.extend(frames[..taken].iter().map(|frame| (frame.hdr, frame.bytes.to_vec())));
        }
        let rest = if taken < frames.len() { Rest::Full } else { Rest::None };
        Batch { taken, lost: 0, rest }
    }
}

impl AsFd for Fake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
