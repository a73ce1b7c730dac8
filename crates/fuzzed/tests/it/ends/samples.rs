//! Lines of filters and actions, with a number for each parameter that has one.

/// The qdiscs of the link `b`, by which frames leave.
pub const SETUP: &str = "\
qdisc add dev b root handle 1: prio bands 4
qdisc add dev b parent 1:2 handle 2: tbf rate 80mbit burst 4kb limit 60kb
qdisc add dev b clsact
actions add action gact pass index 77
";

/// A filter of the chain that actions name.
pub const CHAIN: &str = "filter add dev b egress protocol all prio 9 chain 3 matchall action gact drop";

/// The words of filters, behind `filter add dev b parent 1:`.
pub const FILTERS: [(&str, &[&str]); 8] = [
    (
        "basic",
        &[
            "protocol ip prio 1 handle 1 basic match 'cmp(u8 at 9 layer 1 mask 0xff trans eq 6)' classid 1:2",
            "protocol all prio 1 basic match 'cmp( u32 at 4 layer 0 mask 0xf0 gt 5 )' classid 1:2",
            "protocol all prio 1 basic match 'u32( u16 0x50 0xff at 22 )' classid 1:2",
            "protocol all prio 1 basic match 'u32( u32 0x50 0xff at nexthdr+4 )' classid 1:2",
            "protocol all prio 1 basic match 'nbyte( \"ab\" at 0 layer 2 )' classid 1:2",
            "protocol all prio 1 basic match 'meta( pkt_len gt 600 )' classid 1:2",
            "protocol all prio 1 basic match 'meta( nf_mark shift 3 mask 0xff lt 7 )' classid 1:2",
            "protocol all prio 1 basic match 'meta( vlan mask 0xfff eq 5 )' classid 1:2",
            "protocol all prio 1 basic match 'meta( random mask 0xff gt 3 )' classid 1:2",
            "protocol all prio 1 basic match 'not meta( priority eq 0 )' police rate 1mbit burst 9k drop flowid 1:2",
            "protocol all prio 1 basic match 'meta( pkt_len gt 60 )' action gact pass",
            "protocol all prio 1 estimator 250ms 1s basic match 'meta( pkt_len gt 60 )' \
             action police avrate 1mbit conform-exceed drop",
        ],
    ),
    (
        "bpf",
        &[
            "protocol all prio 1 handle 1 bpf bytecode \
             '6,40 0 0 12,21 0 3 2048,48 0 0 23,21 0 1 6,6 0 0 65536,6 0 0 0' classid 1:2",
            "protocol all prio 1 bpf bytecode '7,40 0 0 12,4 0 0 5,36 0 0 3,52 0 0 7,100 0 0 2,116 0 0 1,22 0 0 0' direct-action",
            "protocol all prio 1 bpf bytecode '5,0 0 0 7,2 0 0 3,177 0 0 14,80 0 0 14,22 0 0 0' classid 1:1 skip_hw",
            "protocol all prio 1 bpf bytecode '1,6 0 0 1' police rate 1mbit burst 9k drop flowid 1:2",
            "protocol all prio 1 bpf bytecode '1,6 0 0 1' action gact pass",
        ],
    ),
    (
        "flow",
        &[
            "protocol all prio 1 handle 1 flow hash keys src,dst,proto,proto-src,proto-dst divisor 4 perturb 60 baseclass 1:1",
            "protocol all prio 1 handle 1 flow map key src and 0xff or 0x100 xor 0x3 rshift 8 addend 5 divisor 4 baseclass 1:1",
            "protocol all prio 1 handle 1 flow map key dst addend -10.0.0.1",
            "protocol all prio 1 handle 1 flow map key vlan-tag and 7 match 'meta( pkt_len gt 60 )'",
            "protocol all prio 1 handle 1 flow map key mark police rate 1mbit burst 9k drop",
            "protocol all prio 1 handle 1 flow map key priority action gact pass",
        ],
    ),
    (
        "flower",
        &[
            "protocol ip prio 1 handle 1 flower ip_proto tcp src_port 1-90 dst_port 80 tcp_flags 0x2/0x2 classid 1:2",
            "protocol ip prio 1 flower ip_proto udp src_port 53/0xff dst_port 53-54 classid 1:2 skip_hw",
            "protocol ip prio 1 flower src_ip 10.0.0.0/8 dst_ip 10.0.0.2/30 ip_tos 0x10/0xf0 ip_ttl 64/0xff classid 1:2",
            "protocol ipv6 prio 1 flower src_ip fd00::1/64 dst_ip ::2 ip_tos 1/7 ip_ttl 6 classid 1:2",
            "protocol ip prio 1 flower ip_proto icmp type 8/255 code 0/15 classid 1:2",
            "protocol ipv6 prio 1 flower ip_proto icmpv6 type 128 code 0 action gact pass",
            "protocol all prio 1 flower dst_mac 02:00:00:00:00:02/ff:ff:00:00:00:00 src_mac 02:00:00:00:00:01/24 classid 1:2",
            "protocol 802.1q prio 1 flower vlan_id 5 vlan_prio 3 vlan_ethtype ip num_of_vlans 1 verbose classid 1:2",
            "protocol 802.1ad prio 1 flower vlan_ethtype 802.1q cvlan_id 5 cvlan_prio 1 cvlan_ethtype ip classid 1:2",
            "protocol arp prio 1 flower arp_op 1 arp_tip 10.0.0.2/24 arp_sip 10.0.0.1/8 \
             arp_tha 00:00:00:00:00:00/8 arp_sha 02:00:00:00:00:01 classid 1:2",
            "protocol ip prio 1 flower ip_flags frag/nofirstfrag indev a classid 1:2",
            "protocol ip prio 1 flower ip_flags nofrag hw_tc 2",
            "protocol ip prio 1 flower ip_proto 6 police rate 1mbit burst 9k drop",
            "protocol ppp_ses prio 1 flower pppoe_sid 1 ppp_proto ip classid 1:2",
            "protocol mpls_uc prio 1 flower mpls_label 5 mpls_tc 1 mpls_bos 1 mpls_ttl 64 classid 1:2",
            "protocol mpls_uc prio 1 flower mpls lse depth 1 label 1 tc 3 bos 1 ttl 64 classid 1:2",
        ],
    ),
    (
        "fw",
        &[
            "protocol all prio 1 handle 7 fw classid 1:2",
            "protocol all prio 1 handle 0x10/0xff fw classid 1:2 indev a",
            "protocol all prio 1 handle 7 fw police rate 1mbit burst 9k drop",
            "protocol all prio 1 handle 7 fw action gact pass",
        ],
    ),
    (
        "matchall",
        &[
            "protocol all prio 1 handle 1 matchall classid 1:2 skip_hw",
            "protocol 0x800 prio 1 chain 0 matchall action gact pass",
        ],
    ),
    (
        "tcpctl",
        &["protocol all prio 1 handle 1 tcpctl classid 1:2", "protocol all prio 1 tcpctl action gact pass"],
    ),
    (
        "u32",
        &[
            "protocol ip prio 1 handle 800::5 u32 match ip src 10.0.0.0/8 match ip dport 80 0xffff flowid 1:2",
            "protocol all prio 1 u32 match u32 0x1 0x1 at 12 match u16 0x1 0x1 at nexthdr+2 match u8 0x40 0xf0 at 0 flowid 1:2",
            "protocol ipv6 prio 1 u32 match ip6 dst fd00::2/64 match ip6 flowlabel 5 0xff match ip6 priority 1 0xff flowid 1:2",
            "protocol ip prio 1 u32 match tcp dst 80 0xfff match ip tos 0x10 0xf match ip protocol 6 0xff flowid 1:2",
            "protocol ip prio 1 u32 match icmp type 8 0xff match mark 7 0xff order 5 indev a skip_hw classid 1:2",
            "protocol all prio 1 handle 2: u32 divisor 16",
            "protocol all prio 1 handle 2: u32 divisor 16\n\
             filter add dev b parent 1: protocol all prio 1 u32 ht 800: match u32 0 0 \
             offset at 0 mask 0x0f00 shift 6 plus 4 eat link 2: flowid 1:2",
            "protocol all prio 1 handle 2: u32 divisor 16\n\
             filter add dev b parent 1: protocol all prio 1 u32 ht 800: match u32 0 0 \
             hashkey mask 0xff at 12 link 2: flowid 1:2",
            "protocol all prio 1 u32 ht 800: sample ip src 10.0.0.1 divisor 1 match u8 0 0 police rate 1mbit burst 9k drop",
            "protocol all prio 1 u32 match u8 0 0 at 0 action gact pass",
        ],
    ),
];

/// The words of actions, behind `filter add dev b egress prio 1 matchall action`.
pub const ACTIONS: [(&str, &[&str]); 15] = [
    (
        "bpf",
        &[
            "bpf bytecode '4,40 0 0 12,21 0 1 2048,6 0 0 4294967295,6 0 0 2' pipe index 5",
            "bpf bytecode '2,48 0 0 23,22 0 0 0' drop",
        ],
    ),
    (
        "csum",
        &[
            "csum ip4h and tcp and udp and icmp and igmp and udplite and sctp",
            "csum ip4h or tcp",
            "csum iph + tcp",
        ],
    ),
    (
        "gact",
        &[
            "gact drop random determ pass 3 index 5 cookie abcd",
            "gact pass random netrand drop 2",
            "gact goto chain 3",
            "gact jump 1 pipe action gact drop action gact pass",
            "gact pipe action gact drop",
            "gact index 77",
        ],
    ),
    (
        "gate",
        &[
            "gate priority 3 base-time 5ns cycle-time 10ms cycle-time-ext 7 clockid CLOCK_TAI flags 1 \
             sched-entry open 5ms 2 8kb sched-entry close 5ms -1 -1 pipe index 5",
            "gate sched-entry open 1s",
        ],
    ),
    (
        "ife",
        &[
            "skbedit mark 5 priority 3 action ife encode allow mark allow prio allow tcindex action ife decode index 5",
            "ife encode use mark 7 use prio 9 use tcindex 5 dst 02:00:00:00:00:07 src 02:00:00:00:00:08 type 0xdead pass",
        ],
    ),
    (
        "mirred",
        &[
            "mirred egress mirror dev a pipe index 5",
            "mirred egress redirect dev a",
            "mirred ingress mirror dev b",
            "mirred egress mirror blockid 1",
        ],
    ),
    (
        "mpls",
        &[
            "mpls push protocol mpls_mc label 5 tc 3 ttl 9 bos 0 pipe index 5",
            "mpls push label 5 pipe action mpls modify label 7 tc 1 ttl 2 bos 1 pipe action mpls dec_ttl",
            "mpls mac_push label 5 action vlan push_eth dst_mac 02:00:00:00:00:07 src_mac 02:00:00:00:00:08",
            "mpls pop protocol ip pass",
            "vlan pop_eth action mpls pop protocol teb",
        ],
    ),
    (
        "nat",
        &[
            "nat ingress 10.0.0.0/8 192.168.0.0 pipe index 5",
            "nat egress 10.0.0.1 192.168.77.3",
            "nat egress any 1.2.3.4",
        ],
    ),
    (
        "pedit",
        &[
            "pedit munge offset 12 u32 set 0x0a000001 retain 0xff pipe action csum ip4h",
            "pedit munge offset 1 u8 set 3 munge offset 2 u16 invert munge offset 4 u16 preserve pass",
            "pedit munge offset 0 u8 at 0 0x0f 2 set 1 pass",
            "pedit munge offset 0 u32 at 0 offmask 0xf0 shift 4 set 1 pass",
            "pedit munge ip dst set 192.168.77.3 munge ip tos set 0x10 retain 0xf munge ip ttl clear pass",
            "pedit ex munge ip ttl add 3 munge tcp dport set 81 munge udp sport add 99 munge eth src set 02:00:00:00:00:07 pass",
            "pedit ex munge ip6 flow_lbl set 5 munge ip6 traffic_class set 3 \
             munge ip6 hoplimit decrement munge tcp flags set 2 pass",
        ],
    ),
    (
        "police",
        &[
            "police rate 1mbit burst 9000b mtu 3000b mpu 64 overhead 24 linklayer atm conform-exceed pipe/drop index 5",
            "police rate 1000bps burst 90000b peakrate 2000bps mtu 9000b conform-exceed drop",
            "police pkts_rate 1000 pkts_burst 5 conform-exceed drop/pipe",
            "police rate 8bit burst 9000b action drop",
            "police rate 1mbit burst 9000b/8 mtu 2000b/8 conform-exceed 2/3",
            "police mtu 1000b conform-exceed goto chain 3",
        ],
    ),
    ("sample", &["sample rate 2 group 5 trunc 64 pipe index 5"]),
    ("simple", &["simple sdata hello pipe index 5"]),
    (
        "skbedit",
        &[
            "skbedit priority 1:2 mark 7/0xff ptype host pipe index 5",
            "skbedit queue_mapping 3 inheritdsfield",
            "skbedit queue_mapping skbhash 0 3",
            "skbedit priority 5 mark 6",
        ],
    ),
    (
        "skbmod",
        &[
            "skbmod set dmac 02:00:00:00:00:07 smac 02:00:00:00:00:08 etype 0x800 pipe index 5",
            "skbmod swap mac",
            "skbmod ecn",
        ],
    ),
    (
        "vlan",
        &[
            "vlan push id 5 priority 3 protocol 802.1ad pipe index 5",
            "vlan modify id 6 priority 1 protocol 802.1q pipe action vlan pop",
            "vlan push id 5 pipe action vlan modify id 9 pipe action vlan pop pipe action vlan pop",
            "vlan push_eth dst_mac 02:00:00:00:00:07 src_mac 02:00:00:00:00:08 pipe action vlan pop_eth",
        ],
    ),
];

/// Keys that tc has, and lines with them that this engine refuses: a key of the tables is in a line
/// above, or here.
pub const REFUSED: [&str; 36] = [
    "protocol ip prio 1 bpf bytecode-file x classid 1:2",
    "protocol ip prio 1 bpf object-file x.o classid 1:2",
    "protocol ip prio 1 bpf object-pinned x classid 1:2",
    "protocol ip prio 1 bpf object-file x.o section x classid 1:2",
    "protocol ip prio 1 bpf object-file x.o export x classid 1:2",
    "protocol ip prio 1 bpf object-file x.o verbose classid 1:2",
    "protocol ip prio 1 bpf bytecode '1,6 0 0 1' skip_sw classid 1:2",
    "protocol ip prio 1 flower skip_sw classid 1:2",
    "protocol ip prio 1 flower ct_state +trk classid 1:2",
    "protocol ip prio 1 flower ct_zone 1 classid 1:2",
    "protocol ip prio 1 flower ct_mark 1 classid 1:2",
    "protocol ip prio 1 flower ct_label 1 classid 1:2",
    "protocol ip prio 1 flower enc_dst_ip 10.0.0.1 classid 1:2",
    "protocol ip prio 1 flower enc_src_ip 10.0.0.1 classid 1:2",
    "protocol ip prio 1 flower enc_key_id 1 classid 1:2",
    "protocol ip prio 1 flower enc_dst_port 1 classid 1:2",
    "protocol ip prio 1 flower enc_tos 1 classid 1:2",
    "protocol ip prio 1 flower enc_ttl 1 classid 1:2",
    "protocol ip prio 1 flower enc_flags csum classid 1:2",
    "protocol ip prio 1 flower geneve_opts 1:1:00000001 classid 1:2",
    "protocol ip prio 1 flower vxlan_opts 1 classid 1:2",
    "protocol ip prio 1 flower erspan_opts 1:1:0:0 classid 1:2",
    "protocol ip prio 1 flower gtp_opts 1:1 classid 1:2",
    "protocol ip prio 1 flower pfcp_opts 1:1 classid 1:2",
    "protocol ip prio 1 flower l2tpv3_sid 1 classid 1:2",
    "protocol ip prio 1 flower cfm mdl 1 classid 1:2",
    "protocol ip prio 1 flower ip_proto 32 spi 5 classid 1:2",
    "protocol ip prio 1 matchall skip_sw classid 1:2",
    "protocol ip prio 1 u32 match u32 0 0 skip_sw classid 1:2",
    "protocol ip prio 1 matchall action bpf bytecode-file x",
    "protocol ip prio 1 matchall action bpf object-file x.o",
    "protocol ip prio 1 matchall action bpf object-pinned x",
    "protocol ip prio 1 matchall action bpf object-file x.o section x",
    "protocol ip prio 1 matchall action bpf object-file x.o export x",
    "protocol ip prio 1 matchall action bpf object-file x.o verbose",
    "protocol ip prio 1 matchall action police avrate 1mbit conform-exceed drop",
];
