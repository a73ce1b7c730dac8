//! Packets: headers, filters, actions, qdiscs and the cutting of super-frames.

use std::cell::RefCell;

use txweir_core::packet::hash::FlowHasher;
use txweir_core::packet::headers::{End, Headers, L3, L4};

use crate::world::{Input, World, cut};

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
    let Some(input) = Input::read(data) else { return };
    // The parsers meet the frame as it came, too.
    parsed(&data[data.len() - input.frame.len()..]);
    cut(&input.hdr, &input.frame, input.is_right());
    if input.is_only_parsed() {
        return;
    }
    WORLDS.with_borrow_mut(|worlds| {
        let at = usize::from(input.policy) % POLICIES.len();
        let (lines, keeps_sums) = POLICIES[at];
        // A frame that breaks a law must not leave a broken world behind.
        let mut world = worlds[at].take().unwrap_or_else(|| World::new(lines, keeps_sums));
        world.send(&input);
        worlds[at] = Some(world);
    });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_is_applied() {
        let mut wrong = Vec::new();
        for (lines, keeps_sums) in POLICIES {
            let made = std::panic::catch_unwind(|| World::new(lines, keeps_sums));
            wrong.extend(made.err().map(|_| lines));
        }
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}
