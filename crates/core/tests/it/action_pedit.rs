//! pedit: packets as Linux 6.12 left them, and a check that no bytes and no offsets cause a panic.

use crate::common::action::{Bench, bytes, hex};
use proptest::prelude::*;
use txweir_core::classify::action::pedit::{At, Header, KEYS_MAX, Key, Pedit};
use txweir_core::classify::action::{Control, Kind};
use txweir_core::classify::filter::Verdict;
use txweir_core::classify::packet::{Packet, PortId, Way};
use txweir_core::packet::headers::Headers;
use txweir_core::{Instant, Meta};

const ETH4: &str = "02ff00000002 020000000000 0800 ";
const UDP: &str = "450000241234000040115493 0a000001 0a000002 03e807d00010dead 6162636465666768";
const TCP: &str =
    "450000301234000040065492 0a000001 0a000002 03e800ff000000010000000250102000dead0000 6162636465666768";
/// A packet with four bytes of options.
const OPT: &str = "46000028123400004011518e 0a000001 0a000002 01010100 03e807d00010dead 6162636465666768";

fn key(header: Header, offset: i32, value: u32, mask: u32) -> Key {
    Key { header, offset, value, mask, ..Key::default() }
}

fn bench(keys: &[Key]) -> Bench {
    Bench::new(Kind::Pedit(Pedit::new(keys.to_vec(), true).unwrap()), Control::Pass)
}

/// Compares the packet behind `ETH4`, and the number of keys that found no place to change.
#[track_caller]
fn becomes(keys: &[Key], from: &str, to: &str, overlimits: u64) {
    let mut bench = bench(keys);
    let from = if from.starts_with("02ff") { from.to_string() } else { format!("{ETH4}{from}") };
    let to = if to.contains("0800") || to.len() > 100 { to.to_string() } else { format!("{ETH4}{to}") };
    let to = if to.starts_with("02ff") || to.starts_with('!') { to } else { format!("{ETH4}{to}") };
    assert_eq!(bench.passes(&from), to.trim_start_matches('!').replace(' ', ""));
    assert_eq!(bench.memory().overlimits, overlimits);
}

/// Each line was sent through a kernel's pedit (oracle).
#[test]
fn words_are_changed_as_by_linux() {
    use Header::{Eth, Ip4, Network, Tcp, Udp};
    // munge offset 24 u32 set 0x11223344: from the network header, of any protocol.
    let raw = [key(Network, 24, 0x1122_3344, 0)];
    becomes(&raw, UDP, &UDP.replace("0010dead", "11223344"), 0);
    becomes(&raw, OPT, &OPT.replace("03e807d0", "11223344"), 0);
    // munge offset 32 and 36 u32: the last word, and the word behind it.
    becomes(&[key(Network, 32, 0x1122_3344, 0)], UDP, &UDP.replace("65666768", "11223344"), 0);
    becomes(&[key(Network, 36, 0x1122_3344, 0)], UDP, UDP, 1);
    // munge offset 8 u16 invert.
    becomes(&[key(Network, 8, 0xffff_0000, 0xffff_ffff)], UDP, &UDP.replace("4011", "bfee"), 0);
    // ex munge ip ttl add 0xff.
    let add = Key { add: true, ..key(Ip4, 8, 0xff00_0000, 0x00ff_ffff) };
    becomes(&[add], TCP, &TCP.replace("4006", "3f06"), 0);
    // ex munge udp dport set 9, also of a packet that is no UDP: the action looks for the transport
    // header, not for its protocol.
    let dport = [key(Udp, 0, 9, 0xffff_0000)];
    becomes(&dport, OPT, &OPT.replace("07d0", "0009"), 0);
    becomes(&dport, TCP, &TCP.replace("00ff0", "00090"), 0);
    becomes(&[key(Tcp, 0, 9, 0xffff_0000)], UDP, &UDP.replace("07d0", "0009"), 0);
    // ex munge eth type set 0x88b6.
    let typed = format!("02ff00000002 020000000000 88b6 {UDP}");
    becomes(&[key(Eth, 12, 0x88b6_0000, 0x0000_ffff)], UDP, &typed, 0);
    // Two words, of which the second or the first does not exist: the missing word ends the list.
    let (ttl, beyond) = (key(Network, 8, 0x0700_0000, 0x00ff_ffff), key(Network, 400, 1, 0));
    becomes(&[ttl, beyond], UDP, &UDP.replace("4011", "0711"), 1);
    becomes(&[beyond, ttl], UDP, UDP, 1);
    // The link header stands in front of the network header, and no bytes stand in front of it.
    becomes(&[key(Network, -4, 0x1122_3344, 0)], UDP, &format!("02ff00000002 020000001122 3344 {UDP}"), 0);
    becomes(
        &[key(Network, -16, 0x1122_3344, 0)],
        UDP,
        &format!("334400000002 020000000000 0800 {UDP}").replacen("3344", "!3344", 1),
        0,
    );
    becomes(&[key(Network, -20, 0x1122_3344, 0)], UDP, UDP, 1);
}

/// munge offset 0 u32 at 1 fc 0, and offset 4 ... at 1 f0 4 (oracle).
#[test]
fn an_offset_is_made_from_the_packet_and_must_be_aligned() {
    let ip = |tos: &str, word: usize| {
        let mut words: Vec<String> =
            UDP.replace(' ', "").as_bytes().chunks(8).map(|w| String::from_utf8_lossy(w).into()).collect();
        words[0] = format!("45{tos}0024");
        if word < 9 {
            words[word] = "11223344".into();
        }
        words.concat()
    };
    let at = |at, mask, shift| Some(At { at, mask, shift });
    let first = [Key { at: at(1, 0xfc, 0), ..key(Header::Network, 0, 0x1122_3344, 0) }];
    for (tos, word, overlimits) in [("04", 1, 0), ("08", 2, 0), ("84", 9, 1), ("05", 1, 0), ("00", 0, 0)] {
        becomes(&first, &ip(tos, 9), &ip(tos, word), overlimits);
    }
    let second = [Key { at: at(1, 0xf0, 4), ..key(Header::Network, 4, 0x1122_3344, 0) }];
    for (tos, word, overlimits) in [("40", 2, 0), ("50", 9, 1), ("f0", 9, 1)] {
        becomes(&second, &ip(tos, 9), &ip(tos, word), overlimits);
    }
    let shifted = [Key { at: at(1, 0xff, 40), ..key(Header::Network, 8, 0x0700_0000, 0x00ff_ffff) }];
    becomes(&shifted, UDP, &UDP.replace("4011", "0711"), 0);
}

/// Parity: Linux on a little-endian machine carries the other way: 00ff and 1 are 0000 there.
#[test]
fn what_is_added_carries_in_the_order_of_the_wire() {
    let dport = Key { add: true, ..key(Header::Tcp, 0, 1, 0xffff_0000) };
    becomes(&[dport], TCP, &TCP.replace("03e800ff", "03e80100"), 0);
    let sport = Key { add: true, ..key(Header::Tcp, 0, 0xffff_0000, 0x0000_ffff) };
    becomes(&[sport], TCP, &TCP.replace("03e800ff", "03e700ff"), 0);
}

/// Parity: Linux looks for ports in the middle of a datagram.
#[test]
fn a_later_fragment_has_no_ports() {
    let later = UDP.replace("12340000", "12340010");
    becomes(&[key(Header::Udp, 0, 9, 0xffff_0000)], &later, &later, 1);
}

/// Over IPv6 Linux looks for the transport that a key names (since 6.4); over IPv4 for the place of
/// any.
#[test]
fn a_transport_over_ipv6_is_the_one_that_a_key_names() {
    let v6 = |next: &str, rest: &str| {
        let pair = "20010db8000000000000000000000001 20010db8000000000000000000000002";
        let len = rest.replace(' ', "").len() / 2;
        format!("{} 86dd 60000000 {len:04x} {next} 40 {pair} {rest}", &ETH4[..25])
    };
    let dport = |header| [key(header, 0, 9, 0xffff_0000)];
    let udp = v6("11", "03e807d0 0010dead 6162636465666768");
    becomes(&dport(Header::Udp), &udp, &udp.replace("07d0", "0009"), 0);
    becomes(&dport(Header::Tcp), &udp, &udp, 1);
    let echo = v6("3a", "80001234 0bad0001 6162636465666768");
    for header in [Header::Tcp, Header::Udp] {
        becomes(&dport(header), &echo, &echo, 1);
    }
    // Behind destination options.
    let tcp = v6("3c", "0600 010400000000 03e800ff 00000001 00000002 50102000 dead0000");
    becomes(&dport(Header::Tcp), &tcp, &tcp.replace("03e800ff", "03e80009"), 0);
    becomes(&dport(Header::Udp), &tcp, &tcp, 1);
}

/// Parity: over IPv4 Linux takes the place behind the IP header for that of the transport, and so
/// changes the authentication header.
#[test]
fn a_transport_stands_behind_an_authentication_header() {
    let ip = "450000301234000040331111 0a000001 0a000002";
    let from = format!("{ip} 110100000000010000000001 03e807d00010dead 6162636465666768");
    becomes(&[key(Header::Udp, 0, 9, 0xffff_0000)], &from, &from.replace("07d0", "0009"), 0);
}

/// Linux takes the tag off a frame that arrives: the addresses stand next to the type behind it.
#[test]
fn fields_of_the_link_header_pass_over_a_tag_that_is_off() {
    use Header::{Eth, Network};
    let left = |one: Key, way: Way, from: &str| {
        let mut bench = bench(&[one]);
        let mut frame = bytes(from);
        let mut meta = Meta::new(u32::try_from(frame.len()).unwrap());
        let headers = Headers::parse_ethernet(&frame);
        let mut packet = Packet::new(&mut frame, &mut meta, headers).at(PortId(1), way);
        assert!(matches!(bench.send(&mut packet, Instant::ZERO), Verdict::Class(_)));
        (hex(&frame), bench.memory().overlimits)
    };
    let tagged = format!("02ff00000002 020000000000 8100 6003 0800 {UDP}");
    // Each key, and the link header that it leaves of a frame that arrives, and of a sent one.
    for (one, arrived, sent) in [
        (
            key(Eth, 12, 0x88b6_0000, 0x0000_ffff),
            "02ff00000002 020000000000 8100 6003 88b6",
            "02ff00000002 020000000000 88b6 6003 0800",
        ),
        (
            key(Network, -4, 0x1122_3344, 0),
            "02ff00000002 020000001122 8100 6003 3344",
            "02ff00000002 020000000000 8100 1122 3344",
        ),
        (
            key(Eth, 0, 0x1122_3344, 0),
            "112233440002 020000000000 8100 6003 0800",
            "112233440002 020000000000 8100 6003 0800",
        ),
        (
            key(Network, -16, 0x1122_3344, 0),
            "334400000002 020000000000 8100 6003 0800",
            "02ff11223344 020000000000 8100 6003 0800",
        ),
    ] {
        let whole = |link: &str| (format!("{link}{UDP}").replace(' ', ""), 0);
        assert_eq!(left(one, Way::Ingress, &tagged), whole(arrived), "{one:?}");
        assert_eq!(left(one, Way::Egress, &tagged), whole(sent), "{one:?}");
        // Without a tag the way does not matter.
        let plain = format!("{ETH4}{UDP}");
        assert_eq!(left(one, Way::Ingress, &plain), left(one, Way::Egress, &plain), "{one:?}");
    }
    // The whole word is in front of the frame.
    let (unchanged, overlimits) = left(key(Network, -20, 0x1122_3344, 0), Way::Ingress, &tagged);
    assert_eq!((unchanged, overlimits), (tagged.replace(' ', ""), 1));
}

/// The packet's metadata is read again: later filters see the new ports, qdiscs the new DS field.
#[test]
fn what_is_known_of_a_packet_follows_its_bytes() {
    let mut bench = bench(&[key(Header::Ip4, 0, 0x00b8_0000, 0xff00_ffff)]);
    let (_, frame, meta) = bench.frame(&bytes(&format!("{ETH4}{UDP}")));
    assert_eq!((frame[15], meta.ds), (0xb8, 0xb8));
    assert_eq!(hex(&frame[..2]), "02ff");
}

#[test]
fn a_list_is_neither_empty_nor_longer_than_tc_makes_it() {
    let text = |n| Pedit::new(vec![Key::default(); n], false).unwrap_err().to_string();
    assert_eq!(text(0), "pedit munge: expected 1 to 128 words, given \"0\"");
    assert_eq!(text(129), "pedit munge: expected 1 to 128 words, given \"129\"");
    assert_eq!(Pedit::new(vec![Key::default(); KEYS_MAX], false).unwrap().keys().len(), 128);
}

fn any_key() -> impl Strategy<Value = Key> {
    use Header::{Eth, Ip4, Ip6, Network, Tcp, Udp};
    let header = prop::sample::select(vec![Network, Eth, Ip4, Ip6, Tcp, Udp]);
    let offset = prop_oneof![-40i32..80, any::<i32>()];
    let at = prop::option::of((prop_oneof![0u32..60, any::<u32>()], any::<u32>(), any::<u32>()));
    (header, offset, at, any::<bool>(), any::<u32>(), any::<u32>()).prop_map(
        |(header, offset, at, add, mask, value)| {
            let at = at.map(|(at, mask, shift)| At { at, mask, shift });
            Key { header, offset, at, add, mask, value }
        },
    )
}

proptest! {
    /// Any bytes and any words: no panic, the length stays, and at most four bytes a word are
    /// changed.
    #[test]
    fn any_words_on_any_bytes(
        frame in prop::collection::vec(any::<u8>(), 0..100),
        ip in any::<bool>(),
        keys in prop::collection::vec(any_key(), 1..6),
    ) {
        let mut frame = frame;
        if ip && frame.len() > 15 {
            frame[12..15].copy_from_slice(&[8, 0, 0x45]);
        }
        let (_, out, meta) = bench(&keys).frame(&frame);
        prop_assert_eq!((out.len(), meta.len as usize), (frame.len(), frame.len()));
        let changed = out.iter().zip(&frame).filter(|(a, b)| a != b).count();
        prop_assert!(changed <= 4 * keys.len());
    }
}
