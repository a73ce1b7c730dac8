//! Blocks of a capture file in pcapng (draft-ietf-opsawg-pcapng), which Wireshark and related tools
//! read.
//!
//! The module makes bytes only; the owner of a file writes them. A file is a section, interfaces,
//! and packets; an interface comes before the first of its packets. The byte order is
//! little-endian. Times are in nanoseconds. Not for the data path: a block is allocated.

use alloc::vec::Vec;

/// Block types (section 4).
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

/// Magic number that shows the reader the byte order (section 4.1).
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// LINKTYPE_ETHERNET.
const ETHERNET_LINK: u16 = 1;

/// Option of any block: a comment (section 3.5).
pub const OPT_COMMENT: u16 = 1;
/// Option of an interface: its speed in bit/s, 8 bytes (section 4.2).
pub const IF_SPEED: u16 = 8;
/// Option of a packet: a number that identifies it on every interface, 8 bytes (section 4.3).
pub const EPB_PACKETID: u16 = 5;
/// Option of a packet: the queue that it came by, 4 bytes (section 4.3).
pub const EPB_QUEUE: u16 = 6;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;

/// A block under construction: options may be added.
#[derive(Clone, Debug)]
pub struct Block {
    kind: u32,
    body: Vec<u8>,
}

impl Block {
    fn new(kind: u32) -> Self {
        Self { kind, body: Vec::with_capacity(256) }
    }
    /// Returns the beginning of a file that this application writes; its length is not known ahead.
    #[must_use]
    pub fn section(application: &str) -> Self {
        let block = Self::new(SECTION_HEADER).u32(BYTE_ORDER_MAGIC).u16(1).u16(0).u32(u32::MAX).u32(u32::MAX);
        block.option(SHB_USERAPPL, application.as_bytes())
    }
    /// Returns an interface of Ethernet frames, of which at most `snaplen` bytes are kept (0: all).
    /// The first has the number 0.
    #[must_use]
    pub fn interface(name: &str, snaplen: u32) -> Self {
        let block = Self::new(INTERFACE).u16(ETHERNET_LINK).u16(0).u32(snaplen);
        // The resolution is a power of ten: nanoseconds.
        block.option(IF_NAME, name.as_bytes()).option(IF_TSRESOL, &[9])
    }
    /// Returns the first bytes of a frame of `original` bytes, at this time in nanoseconds.
    #[must_use]
    pub fn packet(interface: u32, at_ns: u64, bytes: &[u8], original: u32) -> Self {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        // The high and the low half of the time.
        let block = Self::new(ENHANCED_PACKET)
            .u32(interface)
            .u32((at_ns >> 32) as u32)
            .u32((at_ns & 0xffff_ffff) as u32);
        block.u32(len).u32(original).padded(&bytes[..len as usize])
    }
    fn u16(mut self, v: u16) -> Self {
        self.body.extend(v.to_le_bytes());
        self
    }
    fn u32(mut self, v: u32) -> Self {
        self.body.extend(v.to_le_bytes());
        self
    }
    /// Appends bytes, and zeros up to a multiple of four.
    fn padded(mut self, bytes: &[u8]) -> Self {
        self.body.extend_from_slice(bytes);
        self.body.resize(self.body.len().next_multiple_of(4), 0);
        self
    }
    /// Adds an option; a value longer than its length field can hold is cut.
    #[must_use]
    pub fn option(self, code: u16, value: &[u8]) -> Self {
        let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
        self.u16(code).u16(len).padded(&value[..usize::from(len)])
    }
    /// Ends the options, and returns the block as it stands in the file: its length before and
    /// after the body.
    #[must_use]
    pub fn bytes(self) -> Vec<u8> {
        let block = self.u16(0).u16(0);
        let len = u32::try_from(block.body.len() + 12).unwrap_or(u32::MAX).to_le_bytes();
        [&block.kind.to_le_bytes()[..], &len, &block.body, &len].concat()
    }
}
