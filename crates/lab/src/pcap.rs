//! Captures: a pcapng file per link, readable by Wireshark and its relatives.
//!
//! The format is draft-ietf-opsawg-pcapng: a section header, one interface description per
//! direction of the link, and one enhanced packet block per packet that leaves the wire, stamped
//! with the time of its last bit in nanoseconds. Captures contain headers only, because the lab has
//! no payload; the original length is the frame's, without FCS. A TSO unit is written as the
//! segments that the wire makes of it, so its blocks may be older than blocks of the other
//! direction that stand before them.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write};
use std::rc::Rc;

use txweir_core::packet::checksum::Sum;
use txweir_core::packet::headers::protocol;
use txweir_core::packet::pcapng::{Block, EPB_PACKETID, EPB_QUEUE, IF_SPEED, OPT_COMMENT};
use txweir_core::{Instant, Rate};

use crate::frame::{Frame, HEADER_MAX, put};
use crate::ip::Family;
use crate::link::{Fate, Witness};
use crate::shown::addresses;
use crate::tagged::ETHERNET;
use crate::tagged::{LINK_MAX, LinkHeader};

/// Largest number of captured bytes of a packet.
pub const SNAPLEN: u32 = (LINK_MAX + HEADER_MAX) as u32;

/// A pcapng file being written.
pub struct Capture {
    out: Box<dyn Write>,
    interfaces: u32,
    packets: u64,
    error: Option<io::Error>,
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { interfaces, packets, error, .. } = self;
        f.debug_struct("Capture")
            .field("interfaces", interfaces)
            .field("packets", packets)
            .field("error", error)
            .finish_non_exhaustive()
    }
}

impl Capture {
    /// Begins a file with a comment on its section; `out` should be buffered.
    pub fn new(out: Box<dyn Write>, comment: &str) -> Self {
        let mut capture = Self { out, interfaces: 0, packets: 0, error: None };
        let block = Block::section("txweir lab").option(OPT_COMMENT, comment.as_bytes());
        capture.write(block);
        capture
    }

    /// Adds an interface and returns its number. All interfaces come before the first packet.
    pub fn interface(&mut self, name: &str, rate: Rate) -> u32 {
        let block = Block::interface(name, SNAPLEN).option(IF_SPEED, &rate.bits().to_le_bytes());
        self.write(block);
        self.interfaces += 1;
        self.interfaces - 1
    }

    /// Returns the number of packets written.
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// Flushes the file and returns the first error of writing; no block is written after an error.
    pub fn finish(&mut self) -> io::Result<()> {
        match self.error.take() {
            Some(e) => Err(e),
            None => self.out.flush(),
        }
    }

    fn write(&mut self, block: Block) {
        if self.error.is_none() {
            self.error = self.out.write_all(&block.bytes()).err();
        }
    }
}

/// One interface of a capture, for one direction of a link.
#[derive(Clone, Debug)]
pub struct Tap {
    capture: Rc<RefCell<Capture>>,
    interface: u32,
    ethernet: [u8; ETHERNET as usize],
}

impl Tap {
    /// Returns the tap of an interface of a capture; the hosts' numbers make the addresses of the
    /// Ethernet header.
    pub fn new(capture: &Rc<RefCell<Capture>>, interface: u32, from: u32, to: u32) -> Self {
        let mut ethernet = [0; ETHERNET as usize];
        ethernet[..12].copy_from_slice(&addresses(from, to));
        Self { capture: Rc::clone(capture), interface, ethernet }
    }
}

impl Witness for Tap {
    /// Writes a packet that leaves the wire.
    fn packet(&mut self, frame: &Frame, at: Instant, fate: Fate) {
        let mut headers = [0; SNAPLEN as usize];
        let ip = frame.header();
        self.ethernet[12..].copy_from_slice(&frame.protocol.to_be_bytes());
        let link = frame.link().map_or(&self.ethernet[..], LinkHeader::bytes);
        let end = link.len() + ip.len();
        headers[..link.len()].copy_from_slice(link);
        headers[link.len()..end].copy_from_slice(ip);
        set_checksums(&mut headers[link.len()..end], frame);
        let comment = match fate {
            Fate::Arrives => None,
            Fate::Lost => Some("lost on the link".to_string()),
            Fate::Late(by) => Some(format!("late by {by}")),
        };
        let mut block = Block::packet(self.interface, at.0, &headers[..end], frame.len())
            .option(EPB_PACKETID, &packet_id(frame).to_le_bytes())
            .option(EPB_QUEUE, &0_u32.to_le_bytes());
        if let Some(comment) = comment {
            block = block.option(OPT_COMMENT, comment.as_bytes());
        }
        let mut capture = self.capture.borrow_mut();
        capture.packets += 1;
        capture.write(block);
    }
}

/// Returns an identity that a packet keeps on each link that it takes, and that differs from those
/// of other packets, its retransmission included.
pub(crate) fn packet_id(frame: &Frame) -> u64 {
    let mut id = frame.sent.0 ^ u64::from(frame.to) << 40;
    let head = frame.head();
    let what = match head.is_udp() {
        true => head.number().unwrap_or(0),
        false => u64::from(head.tcp_seq()) << 32 | u64::from(head.tcp_ack()),
    };
    for word in [what, u64::from(frame.ip_len())] {
        let m = u128::from(id ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        id = (m as u64) ^ ((m >> 64) as u64);
    }
    id
}

/// Fills in the checksums that the hosts leave to the device and that must not be zero: of an IPv4
/// header (RFC 1071), and of UDP over IPv6 (RFC 8200 section 8.1).
fn set_checksums(headers: &mut [u8], frame: &Frame) {
    match (Family::of(headers), frame.head().is_udp()) {
        (Family::V4, _) => {
            let Some(header) = headers.get_mut(..Family::V4.header()) else { return };
            put(header, 10, [0; 2]);
            let sum = Sum::default().bytes(header).checksum();
            put(header, 10, sum.to_be_bytes());
        }
        (Family::V6, true) => {
            let Some((ip, udp)) = headers.split_at_mut_checked(Family::V6.header()) else { return };
            put(udp, 6, [0; 2]);
            // The rest of a payload that nobody reads is zeros.
            let kept = frame.kept().get(frame.header().len()..).unwrap_or_default();
            let len = (udp.len() as u32 + frame.payload_len()) as u16;
            let sum = Sum::default().bytes(&ip[8..]).word(len).word(protocol::UDP.into()).bytes(udp);
            let sum = sum.bytes(frame.payload().unwrap_or(kept)).finish();
            put(udp, 6, sum.to_be_bytes());
        }
        (Family::V6, false) => {}
    }
}
