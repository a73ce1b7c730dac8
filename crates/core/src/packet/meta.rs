//! `Meta`: the facts about a packet that a qdisc may read. Together with its list link it fills one
//! cache line.

use crate::base::handle::ClassId;
use crate::base::rng::Rng;
use crate::base::time::Instant;
use crate::packet::hash::FlowHasher;
use crate::packet::headers::Headers;
use crate::packet::reason::DropReason;

/// ECN field of the IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not take marks, or the packet is not IP.
    #[default]
    NotEct = 0,
    /// ECN-capable, ECT(1): also the L4S identifier (RFC 9331).
    Ect1 = 1,
    /// ECN-capable, ECT(0).
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// Returns the ECN field in the low two bits of the DS field.
    pub const fn from_ds(ds: u8) -> Self {
        match ds & 3 {
            1 => Self::Ect1,
            2 => Self::Ect0,
            3 => Self::Ce,
            _ => Self::NotEct,
        }
    }
    /// True if a mark may stand for a drop.
    pub const fn capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// One packet as the scheduler sees it. A GSO super-packet is one packet of `segs` segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Time at which the outermost qdisc admitted it, or an emulated link (netem) gave it to the
    /// qdisc in its class; set by the engine. Sojourn times are measured from here.
    pub enqueued: Instant,
    /// Launch time: the packet must not leave before it (Linux: `SO_TXTIME`); `ZERO` if it has
    /// none.
    pub txtime: Instant,
    /// Bytes of the frame as handed in, link header included.
    pub len: u32,
    /// Bytes after segmentation: `len` plus the repeated headers of segments 2..; the size that
    /// qdiscs count.
    pub wire_len: u32,
    /// Flow hash: 32 well mixed bits, best by a key that a sender does not know (`FlowHasher`).
    /// Kinds with flows (fq_codel, sfq, red's variants) reduce it to a bucket as it is, so numbers
    /// that count up would share one; [`Meta::flow`] mixes them. 0 for all packets is one flow.
    pub hash: u32,
    /// Priority; its low four bits choose a band, and a value whose major is a qdisc's handle
    /// chooses that qdisc's class directly (tc-prio(8)).
    pub priority: u32,
    /// Firewall mark.
    pub mark: u32,
    /// Class chosen ahead of the queue, or `NONE`.
    pub class: ClassId,
    /// Number of segments that go on the wire, at least 1.
    pub segs: u16,
    /// Payload bytes of one segment; 0 if the packet is not a super-packet.
    pub gso_size: u16,
    /// Bytes of link to transport header, which each segment repeats.
    pub header_len: u16,
    /// Ethertype.
    pub protocol: u16,
    /// Transmit queue chosen ahead, 0-based.
    pub queue: u16,
    /// DS field (TOS, traffic class) as parsed; marks show in `ecn`.
    pub ds: u8,
    /// ECN field, as parsed or as marked since.
    pub ecn: Ecn,
    /// True once a qdisc has CE-marked it: the device must mark the bytes on the way out.
    pub marked: bool,
    /// True once a qdisc has cleared its DSCP: the device must clear it in the bytes on the way
    /// out.
    pub washed: bool,
    /// True for a TCP segment that carries control and no data: SYN, SYN-ACK, pure ACK
    /// (`Headers::is_tcp_control`); always false where the port has this switched off
    /// (`prio_synack`).
    pub tcp_control: bool,
    /// Note of the engine.
    pub(crate) note: Note,
}

/// Note of the engine on a packet: the basis of its choice of transmit queue, as long as the choice
/// may have to be repeated; the drop reason, once it was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Note {
    /// The queue was chosen by the packet's hash: a repeated choice gives the queue of the packets
    /// behind it.
    #[default]
    Hashed,
    /// The queue was chosen by the sender.
    BySender,
    /// The queue was chosen elsewhere: it was asked for.
    Asked,
    /// Dropped.
    Dropped(DropReason),
}

impl Meta {
    /// Copies into a piece the queue of the whole packet and the marks that qdiscs have made on it.
    pub(crate) const fn inherit(&mut self, whole: &Self) {
        (self.queue, self.note) = (whole.queue, whole.note);
        if whole.marked {
            (self.marked, self.ecn) = (true, Ecn::Ce);
        }
        if whole.washed {
            (self.washed, self.ds) = (true, whole.ds);
        }
    }

    /// Returns the drop reason, once the packet was dropped.
    pub(crate) const fn dropped_for(&self) -> Option<DropReason> {
        match self.note {
            Note::Dropped(reason) => Some(reason),
            _ => None,
        }
    }

    /// Returns a packet of `len` bytes, one segment, priority 0, hash 0.
    pub const fn new(len: u32) -> Self {
        Self {
            enqueued: Instant::ZERO,
            txtime: Instant::ZERO,
            len,
            wire_len: len,
            hash: 0,
            priority: 0,
            mark: 0,
            class: ClassId::NONE,
            segs: 1,
            gso_size: 0,
            header_len: 0,
            protocol: 0,
            queue: 0,
            ds: 0,
            ecn: Ecn::NotEct,
            marked: false,
            washed: false,
            tcp_control: false,
            note: Note::Hashed,
        }
    }

    /// Returns a packet of `len` bytes with these headers: its flow hash, the priority that Linux
    /// gives a forwarded packet by its TOS field (tc-prio(8)), its DS and ECN fields, its
    /// Ethertype, and whether it is a TCP control segment.
    ///
    /// ```
    /// use txweir_core::{Meta, packet::{hash::FlowHasher, headers::Headers}};
    ///
    /// // The least IPv4 packet: 20 bytes of header, TOS 0x10.
    /// let packet = [0x45, 0x10, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    /// let meta = Meta::of(&Headers::parse_ip(&packet), 34, &FlowHasher::new(1));
    /// assert_eq!((meta.priority, meta.ds, meta.protocol), (6, 0x10, 0x0800));
    /// ```
    #[must_use]
    #[inline]
    pub fn of(headers: &Headers, len: u32, hasher: &FlowHasher) -> Self {
        let mut meta = Self::new(len)
            .hash(hasher.five_tuple(headers))
            .priority(headers.tos_priority())
            .ecn(headers.ecn());
        meta.ds = headers.ds;
        meta.protocol = headers.ethertype;
        meta.tcp_control = headers.is_tcp_control();
        meta
    }

    /// Sets the flow hash of a numbered flow: a connection's id, a subscriber, an index. Any
    /// numbers do, because they are mixed; a sender that chooses its number can still choose its
    /// bucket. Where strangers send, the hash is that of a `FlowHasher`.
    #[must_use]
    pub const fn flow(mut self, id: u64) -> Self {
        // The first number of a generator is a bijection of its seed that mixes all bits.
        self.hash = (Rng::new(id).next_u64() >> 32) as u32;
        self
    }

    /// Sets the flow hash, of 32 mixed bits: see [`hash`](Self#structfield.hash). For a plain
    /// number of a flow there is [`flow`](Self::flow).
    #[must_use]
    pub const fn hash(mut self, hash: u32) -> Self {
        self.hash = hash;
        self
    }

    /// Sets the priority.
    #[must_use]
    pub const fn priority(mut self, priority: u32) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the launch time.
    #[must_use]
    pub const fn txtime(mut self, txtime: Instant) -> Self {
        self.txtime = txtime;
        self
    }

    /// Sets the ECN field.
    #[must_use]
    pub const fn ecn(mut self, ecn: Ecn) -> Self {
        self.ecn = ecn;
        self
    }

    /// Makes it a GSO super-packet: `header_len` bytes of headers, then payload cut every
    /// `gso_size` bytes. A `gso_size` of 0, or one that covers the payload, leaves it an ordinary
    /// packet.
    #[must_use]
    pub const fn gso(mut self, header_len: u16, gso_size: u16) -> Self {
        let payload = self.len.saturating_sub(header_len as u32);
        if gso_size == 0 || payload <= gso_size as u32 {
            return self;
        }
        let segs = payload.div_ceil(gso_size as u32);
        // No link carries a unit of 65 536 segments; a forged one counts as the maximum.
        self.segs = if segs > u16::MAX as u32 { u16::MAX } else { segs as u16 };
        self.gso_size = gso_size;
        self.header_len = header_len;
        self.wire_len = self.len.saturating_add((self.segs as u32 - 1) * header_len as u32);
        self
    }

    /// Returns the size of the largest single packet that this becomes on the wire, link header
    /// included.
    pub const fn segment_len(&self) -> u32 {
        if self.segs > 1 { self.header_len as u32 + self.gso_size as u32 } else { self.len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_leaves_room_for_the_link_in_its_cache_line() {
        assert!(size_of::<Meta>() <= 60, "{}", size_of::<Meta>());
    }

    #[test]
    fn gso_counts_segments_and_repeated_headers() {
        let m = Meta::new(54 + 45 * 1448).gso(54, 1448);
        assert_eq!((m.segs, m.wire_len, m.segment_len()), (45, 54 + 45 * 1448 + 44 * 54, 1502));
        let m = Meta::new(54 + 1448).gso(54, 1448);
        assert_eq!((m.segs, m.wire_len, m.gso_size), (1, 1502, 0));
        assert_eq!(Meta::new(u32::MAX).gso(54, 1).segs, u16::MAX);
    }

    #[test]
    fn super_packet_lengths() {
        for (frame, header, size, expected) in [
            (54 + 45 * 1448, 54, 1448, (45, 54 + 45 * 1448 + 44 * 54)),
            (54 + 44 * 1448 + 1, 54, 1448, (45, 54 + 44 * 1448 + 1 + 44 * 54)),
            (54 + 1448, 54, 1448, (1, 1502)),
            (54 + 1449, 54, 1448, (2, 54 + 1449 + 54)),
            (54, 54, 1448, (1, 54)),
            (40, 54, 1448, (1, 40)),
            (0, 0, 0, (1, 0)),
            (1000, 54, 0, (1, 1000)),
            (1000, 0, 100, (10, 1000)),
            (u32::MAX, 54, 1, (u16::MAX, u32::MAX)),
        ] {
            let meta = Meta::new(frame).gso(header, size);
            assert_eq!((meta.segs, meta.wire_len), expected);
        }
    }
}
