//! Captures: a pcapng file per link, which Wireshark and its relatives read.
//!
//! The format is draft-ietf-opsawg-pcapng: a section header, one interface description per direction of the link,
//! and one enhanced packet block per packet that leaves the wire, stamped with the time of its last bit in
//! nanoseconds. Only headers are captured, because the lab has no payload; the original length is the frame's,
//! without FCS. A TSO unit is written as the segments that the wire makes of it, so its blocks may be older than
//! blocks of the other direction that stand before them.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write};
use std::rc::Rc;

use txweir_core::{Instant, Rate};

use crate::frame::{ETHERNET, Frame, HEADER_MAX};
use crate::link::Fate;

/// Block types (section 4).
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

/// Tells the reader the order of bytes, which is little-endian here (section 4.1).
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// LINKTYPE_ETHERNET.
const ETHERNET_LINK: u16 = 1;
/// Most bytes captured of a packet.
pub const SNAPLEN: u32 = ETHERNET + HEADER_MAX as u32;

/// Protocol number of UDP, in an IPv4 header.
const UDP: u8 = 17;

/// Option codes: of any block, of sections, of interfaces, of packets (sections 3.5, 4.1, 4.2, 4.3).
const OPT_COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_SPEED: u16 = 8;
const IF_TSRESOL: u16 = 9;
const EPB_PACKETID: u16 = 5;
const EPB_QUEUE: u16 = 6;

/// A block under construction.
struct Block {
    kind: u32,
    body: Vec<u8>,
}

impl Block {
    fn new(kind: u32) -> Self {
        Self { kind, body: Vec::with_capacity(256) }
    }
    fn u16(mut self, v: u16) -> Self {
        self.body.extend(v.to_le_bytes());
        self
    }
    fn u32(mut self, v: u32) -> Self {
        self.body.extend(v.to_le_bytes());
        self
    }
    /// Bytes, and zeros up to a multiple of four.
    fn padded(mut self, bytes: &[u8]) -> Self {
        self.body.extend_from_slice(bytes);
        self.body.resize(self.body.len().next_multiple_of(4), 0);
        self
    }
    /// An option; a value longer than its length field can say is cut.
    fn option(self, code: u16, value: &[u8]) -> Self {
        let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
        self.u16(code).u16(len).padded(&value[..usize::from(len)])
    }
    /// The end of the options, and the block as it stands in the file: its length before and after the body.
    fn bytes(self) -> Vec<u8> {
        let block = self.u16(0).u16(0);
        let len = (block.body.len() as u32 + 12).to_le_bytes();
        [&block.kind.to_le_bytes()[..], &len, &block.body, &len].concat()
    }
}

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
    /// A file with a comment on its section; `out` should be buffered.
    pub fn new(out: Box<dyn Write>, comment: &str) -> Self {
        let mut capture = Self { out, interfaces: 0, packets: 0, error: None };
        let block = Block::new(SECTION_HEADER)
            .u32(BYTE_ORDER_MAGIC)
            .u16(1)
            .u16(0)
            // The section's length is not known ahead.
            .u32(u32::MAX)
            .u32(u32::MAX)
            .option(OPT_COMMENT, comment.as_bytes())
            .option(SHB_USERAPPL, b"txweir lab");
        capture.write(block);
        capture
    }

    /// Adds an interface and gives its number. All of them come before the first packet.
    pub fn interface(&mut self, name: &str, rate: Rate) -> u32 {
        let block = Block::new(INTERFACE)
            .u16(ETHERNET_LINK)
            .u16(0)
            .u32(SNAPLEN)
            .option(IF_NAME, name.as_bytes())
            .option(IF_SPEED, &rate.bits().to_le_bytes())
            // Powers of ten: nanoseconds.
            .option(IF_TSRESOL, &[9]);
        self.write(block);
        self.interfaces += 1;
        self.interfaces - 1
    }

    /// Packets written.
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// Flushes the file and gives the first error that writing met; nothing was written after it.
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

/// One interface of a capture: what a direction of a link writes to.
#[derive(Clone, Debug)]
pub struct Tap {
    capture: Rc<RefCell<Capture>>,
    interface: u32,
    ethernet: [u8; ETHERNET as usize],
}

impl Tap {
    /// For an interface of a capture; the hosts' numbers make the addresses of the Ethernet header.
    pub fn new(capture: &Rc<RefCell<Capture>>, interface: u32, from: u32, to: u32) -> Self {
        let mut ethernet = [0; ETHERNET as usize];
        for (at, host) in [(0, to), (6, from)] {
            // Unicast, locally administered.
            ethernet[at] = 2;
            ethernet[at + 2..at + 6].copy_from_slice(&(host + 1).to_be_bytes());
        }
        ethernet[12] = 8;
        Self { capture: Rc::clone(capture), interface, ethernet }
    }

    /// A packet leaves the wire.
    pub fn packet(&mut self, frame: &Frame, at: Instant, fate: Fate) {
        let mut headers = [0; SNAPLEN as usize];
        let ip = frame.header();
        let end = self.ethernet.len() + ip.len();
        headers[..self.ethernet.len()].copy_from_slice(&self.ethernet);
        headers[self.ethernet.len()..end].copy_from_slice(ip);
        set_checksum(&mut headers[self.ethernet.len()..end]);
        let comment = match fate {
            Fate::Arrives => None,
            Fate::Lost => Some("lost on the link".to_string()),
            Fate::Late(by) => Some(format!("late by {by}")),
        };
        let mut block = Block::new(ENHANCED_PACKET)
            .u32(self.interface)
            .u32((at.0 >> 32) as u32)
            .u32(at.0 as u32)
            .u32(end as u32)
            .u32(frame.len())
            .padded(&headers[..end])
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

/// The same for a packet on each link that it takes, and another for each other packet, its retransmission included.
fn packet_id(frame: &Frame) -> u64 {
    let mut id = frame.sent.0 ^ u64::from(frame.to) << 40;
    let what = match frame.header().get(9) {
        Some(&UDP) => frame.number().unwrap_or(0),
        _ => u64::from(frame.tcp_seq()) << 32 | u64::from(frame.tcp_ack()),
    };
    for word in [what, u64::from(frame.ip_len())] {
        let m = u128::from(id ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        id = (m as u64) ^ ((m >> 64) as u64);
    }
    id
}

/// Fills in the checksum of an IPv4 header (RFC 1071), which the hosts leave to the device.
fn set_checksum(ip: &mut [u8]) {
    let Some(header) = ip.get_mut(..20) else { return };
    header[10..12].fill(0);
    let sum: u32 = header.chunks_exact(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}
