//! `Detail`: facts about a packet beyond its `Meta` that few kinds need: hosts, the offset of its
//! network header, and the acknowledgement of a TCP segment. The pool keeps it beside the metadata
//! only while a qdisc of the tree wants it (`Discipline::WANTS_DETAIL`). The owner of the bytes
//! then reads it once, on the way in (`TxPath::submit_with`).

use crate::base::bound::Bound;
use crate::packet::hash::FlowHasher;
use crate::packet::headers::{Fragment, Headers, L3, L4, tcp_flag};
use crate::packet::route::Route;

/// Blocks of a selective acknowledgement that fit the options of a segment (RFC 2018 section 3).
pub const SACK_BLOCKS: usize = 4;

/// Facts about one packet beside its metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// Keyed hash of the source address; 0 if there is none.
    pub src_host: u32,
    /// Keyed hash of the destination address; 0 if there is none.
    pub dst_host: u32,
    /// Number of bytes in front of the network header, if it was found.
    pub l3_offset: Option<u16>,
    /// Acknowledgement of a TCP segment; `None` for other packets, and for cut or malformed ones.
    pub tcp: Option<TcpDetail>,
    /// Results of the filters at qdiscs (`Tree::route`).
    pub route: Route,
    /// Minor number of the class that was chosen ahead of the queue, set by the engine: filters at
    /// qdiscs give the packet other classes.
    pub index: u16,
    /// Number that the qdisc in which the packet waits keeps for it. A value that is handed in is
    /// overwritten.
    pub note: u32,
}

/// Header fields and options of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpDetail {
    /// Source and destination address, IPv4 mapped into IPv6.
    pub addresses: [[u8; 16]; 2],
    /// Source and destination port.
    pub ports: [u16; 2],
    /// Acknowledgement number.
    pub ack: u32,
    /// The segment's timestamp and the one that it echoes (RFC 7323 section 3.2).
    pub stamps: Option<[u32; 2]>,
    /// Left and right edges of the selectively acknowledged blocks.
    pub sack: [[u32; 2]; SACK_BLOCKS],
    /// Number of valid entries in `sack`.
    pub sacks: u8,
    /// Control bits, see `headers::tcp_flag`.
    pub flags: u8,
    /// True if any of the four bits between the data offset and the control bits is set (RFC 9293
    /// section 3.1).
    pub reserved: bool,
    /// True if it carries data.
    pub data: bool,
    /// True if its options are well-formed, and are only padding, timestamps, selective
    /// acknowledgement and MD5 signature.
    pub plain: bool,
}

const _: () =
    assert!(size_of::<Detail>() <= 208, "what a path keeps beside each slot for the kinds that want it");

impl Detail {
    /// Returns the facts that `bytes` hold, of which `h` was read; `hasher` keys the hashes of
    /// hosts.
    pub fn of(h: &Headers, bytes: &[u8], hasher: &FlowHasher) -> Self {
        let hosts = match h.l3 {
            L3::Ipv4 | L3::Ipv6 => [hasher.source(h), hasher.destination(h)],
            L3::None | L3::Arp => [0, 0],
        };
        Self {
            src_host: hosts[0],
            dst_host: hosts[1],
            l3_offset: h.l3_offset,
            tcp: TcpDetail::of(h, bytes),
            route: Route::default(),
            index: 0,
            note: 0,
        }
    }

    /// Returns the detail of a piece cut from the packet: it has data, even if the packet had none.
    #[must_use]
    pub fn piece(mut self) -> Self {
        if let Some(tcp) = &mut self.tcp {
            tcp.data = true;
        }
        self
    }
}

impl TcpDetail {
    fn of(h: &Headers, bytes: &[u8]) -> Option<Self> {
        let whole = h.is_complete() && h.l4 == L4::Tcp && h.fragment == Fragment::Whole;
        let at = h.l4_offset.filter(|_| whole).map(usize::from)?;
        let header = bytes.get(at..usize::from(h.header_len))?;
        let ack = header.get(8..12)?.first_chunk::<4>()?;
        let mut tcp = Self {
            addresses: [h.src, h.dst],
            ports: [h.src_port, h.dst_port],
            ack: u32::from_be_bytes(*ack),
            stamps: None,
            sack: [[0; 2]; SACK_BLOCKS],
            sacks: 0,
            flags: h.tcp_flags,
            reserved: header.get(12)? & 0x0f != 0,
            data: h.payload_len > 0,
            plain: true,
        };
        tcp.plain = tcp.read_options(header.get(20..)?);
        Some(tcp)
    }

    /// Reads the known options; false if there are others, or they are malformed.
    fn read_options(&mut self, mut options: &[u8]) -> bool {
        let mut plain = true;
        let mut bound = Bound::of(options.len());
        while let [kind, rest @ ..] = options {
            bound.turn();
            match (*kind, rest.first().map(|len| usize::from(*len))) {
                (option::END, _) => break,
                (option::NOTHING, _) => options = rest,
                (kind, Some(len)) if (2..=options.len()).contains(&len) => {
                    plain &= self.read_option(kind, options.get(2..len).unwrap_or_default());
                    options = options.get(len..).unwrap_or_default();
                }
                _ => return false,
            }
        }
        plain
    }

    fn read_option(&mut self, kind: u8, value: &[u8]) -> bool {
        let mut pairs = value.chunks_exact(8).filter_map(|c| c.first_chunk::<8>()).map(|c| {
            let [a, b, c, d, e, f, g, h] = *c;
            [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])]
        });
        match kind {
            option::TIMESTAMP if value.len() == 8 => {
                self.stamps = pairs.next();
                true
            }
            option::SACK if value.len().is_multiple_of(8) => {
                for (slot, block) in self.sack.iter_mut().zip(pairs) {
                    *slot = block;
                    self.sacks += 1;
                }
                usize::from(self.sacks) * 8 == value.len()
            }
            option::MD5 => true,
            _ => false,
        }
    }

    /// Returns the blocks of its selective acknowledgement.
    pub fn blocks(&self) -> &[[u32; 2]] {
        self.sack.get(..usize::from(self.sacks)).unwrap_or(&self.sack)
    }

    /// Returns the bits of congestion notification: ECE and CWR.
    pub const fn notice(&self) -> u8 {
        self.flags & (tcp_flag::ECE | tcp_flag::CWR)
    }
}

/// TCP option kinds (IANA "TCP Option Kind Numbers").
mod option {
    /// End of the list.
    pub const END: u8 = 0;
    /// Padding.
    pub const NOTHING: u8 = 1;
    /// Selective acknowledgement (RFC 2018).
    pub const SACK: u8 = 5;
    /// Timestamps (RFC 7323).
    pub const TIMESTAMP: u8 = 8;
    /// MD5 signature (RFC 2385).
    pub const MD5: u8 = 19;
}
