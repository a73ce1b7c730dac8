//! A log of packets in memory: a line for each packet that leaves a wire.

use std::cell::RefCell;
use std::rc::Rc;

use txweir_core::{Ecn, Instant};

use crate::frame::Frame;
use crate::link::{Fate, Witness};
use crate::pcap::packet_id;
use crate::stop::Stop;

/// Most packets of a log.
pub const PACKETS_MAX: usize = 10_000_000;

/// A packet that has left a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Time of its last bit on the wire.
    pub at: Instant,
    /// Time at which it was made.
    pub sent: Instant,
    /// Number of the direction of a link among [`PacketLog::ways`].
    pub way: u32,
    /// Bytes of the frame, without FCS.
    pub bytes: u32,
    /// An identity that it keeps on each link of its way.
    pub id: u64,
    /// Ports of its source and its destination.
    pub ports: [u16; 2],
    /// True for UDP, false for TCP.
    pub udp: bool,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Its fate on the link.
    pub fate: Fate,
}

#[derive(Debug, Default)]
struct Kept {
    packets: Vec<Passed>,
    ways: Vec<String>,
    max: usize,
    full: bool,
}

/// A log of at most so many packets. Each copy is the same log.
#[derive(Clone, Debug)]
pub struct PacketLog(Rc<RefCell<Kept>>);

impl Default for PacketLog {
    /// Returns an empty log of at most [`PACKETS_MAX`] packets.
    fn default() -> Self {
        Self::with_max(PACKETS_MAX)
    }
}

impl PacketLog {
    /// Returns an empty log of at most `max` packets.
    pub fn with_max(max: usize) -> Self {
        Self(Rc::new(RefCell::new(Kept { max, ..Kept::default() })))
    }

    /// Returns the packets, in the order in which their units left, and empties the log.
    pub fn take(&self) -> Vec<Passed> {
        std::mem::take(&mut self.0.borrow_mut().packets)
    }

    /// Returns the names of the directions of links, `from -> to`.
    pub fn ways(&self) -> Vec<String> {
        self.0.borrow().ways.clone()
    }

    /// True if a packet had no room. The run was stopped then.
    pub fn is_full(&self) -> bool {
        self.0.borrow().full
    }

    /// Returns the witness of a direction of a link, which ends the run by `stop` if the log is
    /// full.
    pub(crate) fn witness(&self, name: &str, stop: &Stop) -> Box<dyn Witness> {
        let ways = &mut self.0.borrow_mut().ways;
        let way = ways.len() as u32;
        ways.push(name.to_owned());
        Box::new(Way { log: self.clone(), way, stop: stop.clone() })
    }
}

/// A direction of a link that writes into a log.
#[derive(Debug)]
struct Way {
    log: PacketLog,
    way: u32,
    stop: Stop,
}

impl Witness for Way {
    fn packet(&mut self, frame: &Frame, at: Instant, fate: Fate) {
        let mut kept = self.log.0.borrow_mut();
        if kept.packets.len() >= kept.max {
            kept.full = true;
            self.stop.ask();
            return;
        }
        let head = frame.head();
        let transport = head.transport();
        let port = |at: usize| transport.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
        kept.packets.push(Passed {
            at,
            sent: frame.sent,
            way: self.way,
            bytes: frame.len(),
            id: packet_id(frame),
            ports: [port(0), port(2)],
            udp: head.is_udp(),
            ecn: frame.ecn(),
            fate,
        });
    }
}
