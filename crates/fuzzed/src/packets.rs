//! Packets: headers, filters, actions, qdiscs and the cutting of super-frames.

use std::cell::RefCell;

use txweir_core::Instant;
use txweir_core::packet::hash::FlowHasher;
use txweir_core::packet::headers::{End, Headers, L3, L4};
use txweir_core::text::stats::Counters as _;
use txweir_daemon::sums::{Intake, Sums};
use txweir_daemon::{Daemon, Links};
use txweir_device::segment::complete_checksum;
use txweir_device::{Gso, Segmenter, VnetHdr};
use txweir_runtime::Notes;

use crate::card::Card;
use crate::sums;

/// Bytes in front of the frame: the policy, the flags, the vnet header.
const FRONT: usize = 12;
/// Flag: the checksums of the frame are made right.
const REPAIR: u8 = 1;
/// Flag: the frame is described as a super-frame with its own headers.
const SUPER: u8 = 2;
/// Flag: only the parsers read the frame.
const PARSE: u8 = 4;
/// Flag: the interface behind the qdiscs is slow to take frames.
const BUSY: u8 = 8;

/// Policies at the link that the frames leave by (`b`); they come in by `a`. True if the policy
/// keeps right checksums right.
const POLICIES: [(&str, bool); 12] = [
    ("qdisc add dev b root handle 1: fq_codel flows 16 limit 60", true),
    (
        "qdisc add dev b root handle 1: cake bandwidth 50mbit diffserv4 wash ack-filter memlimit 200kb
         filter add dev b parent 1: protocol all prio 1 handle 1 flow hash keys src,dst,proto,proto-src,proto-dst divisor 8",
        true,
    ),
    (
        "qdisc add dev b root handle 1: prio bands 4
         qdisc add dev b parent 1:2 handle 2: red limit 90kb min 3kb max 9kb avpkt 1000 burst 5 ecn
         qdisc add dev b parent 1:3 handle 3: tbf rate 80mbit burst 4kb limit 60kb
         filter add dev b parent 1: protocol ip prio 1 u32 match ip protocol 6 0xff match ip dport 80 0xffff flowid 1:2
         filter add dev b parent 1: protocol ipv6 prio 2 u32 match ip6 dport 53 0xffff at 60 flowid 1:3
         filter add dev b parent 1: protocol all prio 3 u32 match u8 0x40 0xf0 at 0 match u16 0x1 0x1 at nexthdr+2 flowid 1:4",
        true,
    ),
    (
        "qdisc add dev b clsact
         filter add dev b egress protocol ip prio 1 flower ip_proto tcp dst_port 80 tcp_flags 0x2/0x2 action drop
         filter add dev b egress protocol ip prio 2 flower src_ip 10.0.0.0/8 ip_tos 0x10/0xf0 action skbedit priority 1:2 mark 7
         filter add dev b egress protocol ipv6 prio 3 flower dst_ip fd00::/16 ip_ttl 64 action skbedit queue_mapping 3
         filter add dev b egress protocol 802.1q prio 4 flower vlan_id 5 vlan_prio 3 vlan_ethtype ip action gact pass
         filter add dev b egress protocol all prio 5 flower ip_flags frag action gact drop
         filter add dev b egress protocol arp prio 6 flower arp_op request arp_tip 10.0.0.2 action gact drop",
        true,
    ),
    (
        "qdisc add dev b clsact
         filter add dev b egress matchall action pedit ex munge ip dst set 192.168.77.3 munge ip ttl decrement pipe \
         action pedit ex munge tcp dport set 81 munge udp sport set 99 pipe action csum ip4h and tcp and udp and icmp",
        false,
    ),
    (
        "qdisc add dev b clsact
         filter add dev b egress protocol ip matchall action pedit ex munge ip tos set 0x12 munge ip ttl set 9 pipe \
         action csum ip4h and tcp and udp",
        true,
    ),
    (
        "qdisc add dev b clsact
         filter add dev b egress prio 1 matchall action vlan push id 5 pipe action vlan push id 7 protocol 802.1ad \
         pipe action csum ip4h and tcp and udp pipe action vlan pop pipe action vlan modify id 9 priority 3",
        true,
    ),
    (
        "qdisc add dev b clsact
         filter add dev b egress prio 1 matchall action vlan pop continue
         filter add dev b egress prio 2 matchall action skbmod swap mac pipe action skbmod ecn pipe action csum ip4h",
        true,
    ),
    (
        "qdisc add dev b clsact
         qdisc add dev a clsact
         filter add dev a ingress prio 1 matchall action police rate 1mbit burst 9k mtu 3k conform-exceed pipe/drop \
         action mirred egress mirror dev a
         filter add dev b egress prio 1 matchall action mirred ingress mirror dev b
         filter add dev b egress prio 2 matchall action mirred egress redirect dev a",
        true,
    ),
    (
        "qdisc add dev b root handle 1: htb default 20
         class add dev b parent 1: classid 1:1 htb rate 90mbit
         class add dev b parent 1:1 classid 1:10 htb rate 30mbit ceil 90mbit
         class add dev b parent 1:1 classid 1:20 htb rate 9mbit ceil 90mbit
         qdisc add dev b parent 1:10 handle 10: codel limit 20 target 1ms interval 9ms ecn ce_threshold 2ms
         filter add dev b parent 1: protocol all prio 1 basic match \
         'cmp(u8 at 9 layer 1 eq 6) and not u32(u16 0x50 0xffff at 22)' \
         classid 1:10
         filter add dev b parent 1: protocol ip prio 2 basic match \
         'nbyte(\"ab\" at 0 layer 2) or meta(pkt_len gt 600)' classid 1:20",
        true,
    ),
    (
        "qdisc add dev b root handle 1: netem delay 2ms 1ms duplicate 20% loss 5% reorder 10% limit 40
         qdisc add dev b clsact
         filter add dev b egress prio 1 chain 0 matchall action gact goto chain 3
         filter add dev b egress prio 1 chain 3 bpf bytecode \
         '6,40 0 0 12,21 0 3 2048,48 0 0 23,21 0 1 6,6 0 0 65536,6 0 0 0' \
         action gact reclassify
         filter add dev b egress prio 2 chain 3 matchall action gact pass random determ drop 3",
        true,
    ),
    (
        "qdisc add dev b root handle 1: tbf rate 20mbit burst 3kb limit 90kb
         qdisc add dev b clsact
         filter add dev b egress prio 1 matchall action sample rate 2 group 5 trunc 64 pipe action simple sdata hello pipe \
         action csum ip4h and icmp and igmp and udplite and sctp and tcp and udp",
        true,
    ),
];

/// Two links that are peers, in virtual time.
struct World {
    daemon: Daemon,
    cards: [Card; 2],
    now: Instant,
    /// True if right checksums stay right.
    keeps_sums: bool,
}

thread_local! {
    /// One world a policy: made at its first frame, and empty after each.
    static WORLDS: RefCell<[Option<World>; POLICIES.len()]> = const { RefCell::new([const { None }; POLICIES.len()]) };
}

/// Parses a frame, and sends it through a policy: nothing is lost without a count, right checksums
/// stay right, a super-frame is cut into right frames, and the events end.
///
/// # Panics
/// If one of these laws does not hold.
pub fn packets(data: &[u8]) {
    let Some((front, frame)) = data.split_first_chunk::<FRONT>() else { return };
    let &[policy, flags, ref raw @ ..] = front;
    let mut header = [0; 12];
    header[..10].copy_from_slice(raw);
    let (mut hdr, mut frame) = (VnetHdr::decode(&header), frame.to_vec());
    parsed(&frame);
    if flags & REPAIR != 0 {
        sums::repair(&mut frame);
        hdr = VnetHdr::default();
        if flags & SUPER != 0 {
            hdr = described(&mut frame, u16::from_be_bytes([raw[4], raw[5]]));
        }
    }
    cut(&hdr, &frame, flags & REPAIR != 0);
    if flags & PARSE != 0 {
        return;
    }
    WORLDS.with_borrow_mut(|worlds| {
        let at = usize::from(policy) % POLICIES.len();
        // A frame that breaks a law must not leave a broken world behind.
        let mut world = worlds[at].take().unwrap_or_else(|| World::new(POLICIES[at]));
        world.send(hdr, &frame, flags);
        worlds[at] = Some(world);
    });
}

/// Describes a frame as a super-frame whose checksum is left to the device, if its headers allow.
fn described(frame: &mut [u8], gso_size: u16) -> VnetHdr {
    let h = Headers::parse_ethernet(frame);
    // The device sums to the end of the frame, so that there is no padding.
    let whole = sums::segment(frame, &h).filter(|of| of.end == frame.len());
    let Some(of) = whole else { return VnetHdr::default() };
    let partial = sums::pseudo(frame, &h, of).partial();
    let at = of.start + of.offset;
    frame[at..at + 2].copy_from_slice(&partial.to_be_bytes());
    let gso = match (h.l4, h.ethertype) {
        _ if gso_size == 0 => Gso::None,
        (L4::Udp, _) => Gso::UdpL4,
        (_, 0x86dd) => Gso::TcpV6,
        _ => Gso::TcpV4,
    };
    VnetHdr {
        needs_csum: true,
        gso,
        gso_size,
        csum_start: of.start as u16, // the headers of a frame end below 2^16
        csum_offset: of.offset as u16,
        ..VnetHdr::default()
    }
}

/// Checks what the parsers say about a frame.
fn parsed(frame: &[u8]) {
    let h = Headers::parse_ethernet(frame);
    let len = frame.len();
    let within = |offset: Option<u16>| offset.is_none_or(|offset| usize::from(offset) <= len);
    assert!(within(h.l3_offset) && within(h.l4_offset) && usize::from(h.header_len) <= len, "{h:?}");
    assert!(h.end != End::Whole || h.l4_offset.is_some() || h.l4 == L4::None, "{h:?}");
    let hasher = FlowHasher::new(7);
    assert_eq!(hasher.five_tuple(&h), hasher.five_tuple(&h.clone()));
    if let Some(ip) = h
        .l3_offset
        .and_then(|l3| frame.get(usize::from(l3)..))
        .filter(|_| matches!(h.l3, L3::Ipv4 | L3::Ipv6))
    {
        let alone = Headers::parse_ip(ip);
        assert_eq!((alone.src, alone.dst, alone.end), (h.src, h.dst, h.end));
        assert_eq!((alone.src_port, alone.dst_port, alone.l4), (h.src_port, h.dst_port, h.l4));
    }
    // A cut frame says the same, or less.
    let cut = Headers::parse_ethernet(&frame[..len - len / 3]);
    assert!(cut.l3 == h.l3 || cut.l3 == L3::None, "{cut:?} {h:?}");
    assert!(cut.l4 == h.l4 || cut.l4 == L4::None, "{cut:?} {h:?}");
    assert!(cut.src_port == h.src_port || cut.src_port == 0, "{cut:?} {h:?}");
}

/// Cuts a super-frame: the pieces have its payload, and their checksums are right if its was.
fn cut(hdr: &VnetHdr, frame: &[u8], right: bool) {
    let Ok(mut segmenter) = Segmenter::new(hdr, frame) else { return };
    let mut room = vec![0; segmenter.longest()];
    let (mut pieces, mut bytes) = (0, 0);
    while let Some(len) = segmenter.next_into(frame, &mut room).expect("room for a piece of this frame") {
        (pieces, bytes) = (pieces + 1, bytes + len);
        assert!(
            !right || sums::wrong(&room[..len]).is_none(),
            "piece {pieces}: {:?}",
            sums::wrong(&room[..len])
        );
    }
    assert_eq!(pieces, segmenter.segments());
    assert!(bytes >= frame.len(), "{bytes} bytes in {pieces} pieces of {}", frame.len());
}

impl World {
    fn new((lines, keeps_sums): (&str, bool)) -> Self {
        let cards = [Card::default(), Card::default()];
        let wire = "rate=1gbit,ring=64,completion=immediate";
        let links = [cards[0].link("a", wire), cards[1].link("b", wire)];
        let mut daemon = Daemon::with(Links::between(links));
        *daemon.links_mut().notes_mut() = Notes::new(Box::new(std::io::sink()));
        cards.iter().for_each(|card| {
            let mut seen = card.seen();
            (seen.room, seen.sent) = (usize::MAX, Some(Vec::new()));
        });
        let reply = daemon.configure(Instant::ZERO, "policy", lines);
        assert_eq!((reply.status, reply.stderr.as_str()), (0, ""), "{lines}");
        Self { daemon, cards, now: Instant(1_000_000), keeps_sums }
    }

    fn turn(&mut self) {
        let now = self.now;
        self.daemon.links_mut().turn(&move || now, &[]);
    }

    /// Sends a frame up to four times, and lets time pass until no event is left.
    fn send(&mut self, hdr: VnetHdr, frame: &[u8], flags: u8) {
        self.cards[1].seen().room = if flags & BUSY != 0 { 1 } else { usize::MAX };
        for _ in 0..1 + flags / 64 {
            self.cards[0].seen().incoming.push_back((hdr, frame.to_vec()));
        }
        self.turn();
        self.hold();
        self.cards.iter().for_each(|card| card.seen().room = usize::MAX);
        self.turn();
        let mut events = 0;
        while let Some(at) = self.daemon.links().deadline(self.now) {
            self.now = self.now.max(at);
            self.turn();
            events += 1;
            assert!(events < 100_000, "the events do not end");
        }
        let [came, went] = self.hold();
        assert_eq!(came, went, "frames are left in the links after their last event");
        // Buckets and timers begin anew with the next frame.
        self.now = Instant(self.now.0 + 1_000_000_000);
        for card in &self.cards {
            let sent = std::mem::take(card.seen().sent.as_mut().expect("frames are kept"));
            if flags & REPAIR != 0 && self.keeps_sums {
                sent.into_iter().for_each(|(hdr, frame)| right(hdr, frame));
            }
        }
    }

    /// Checks the sums of both links, and returns the frames that came into their paths, and those
    /// that are not in them any more.
    fn hold(&mut self) -> [u64; 2] {
        let mut all = [0; 2];
        for link in self.daemon.links_mut().all_mut() {
            let sums = Sums::of(link);
            let [came, known] = sums.fates.sums();
            assert_eq!(came, known, "{:?}", sums.fates);
            let (mut sides, mut at) = ([0; 2], 0);
            sums.intake.visit(&mut |_, n| {
                sides[usize::from(at >= Intake::SOURCES)] += n;
                at += 1;
            });
            assert_eq!(sides[0], sides[1], "{:?}", sums.intake);
            let inside = sums.fates.waiting + sums.fates.queued + sums.fates.inflight;
            all = [all[0] + came, all[1] + came - inside];
        }
        all
    }
}

/// Does the device's part of a frame that was sent, and checks its checksums.
fn right(mut hdr: VnetHdr, mut frame: Vec<u8>) {
    if hdr.is_gso() {
        return cut(&hdr, &frame, true);
    }
    let described = hdr;
    if complete_checksum(&mut hdr, &mut frame).is_ok() {
        assert_eq!(sums::wrong(&frame), None, "{described:?} {frame:02x?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_is_applied() {
        let mut wrong = Vec::new();
        for policy in POLICIES {
            let made = std::panic::catch_unwind(|| World::new(policy));
            wrong.extend(made.err().map(|_| policy.0));
        }
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}
