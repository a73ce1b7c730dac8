//! flower: an attribute for each field, and another one for its mask.

use std::net::{Ipv4Addr, Ipv6Addr};

use txweir_core::classify::filter::Flower;
use txweir_core::classify::filter::flower::Field;
use txweir_core::packet::headers::ethertype;

use super::{Form, NONE, Words, pair};
use crate::refusal::Refusal;
use crate::wire::{Attributes, Record, Writer};

const ETH_TYPE: u16 = 8;
const IP_PROTO: u16 = 9;
const INDEV: u16 = 2;
const FRAGMENT: u16 = 47;
const FRAGMENT_MASK: u16 = 48;
const LABELS: u16 = 99;
/// The list of entries of a label stack, and the depth of an entry.
const ENTRY: u16 = 1;
const DEPTH: u16 = 1;
/// The bit of an attribute's number that says that it holds others. tc looks for it in a label
/// stack alone.
const NESTED: u16 = 0x8000;

pub(super) const FORM: Form =
    Form { kind: "flower", class: 1, indev: INDEV, actions: 3, flags: 22, known: &KNOWN, ..NONE };

/// The form of a field's value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum As {
    /// A number in the byte order of the machine.
    Host,
    /// A number in network byte order.
    Net,
    /// A protocol in network byte order.
    Protocol,
    /// An Ethernet address.
    Mac,
    /// An address of IPv4 or IPv6.
    Ip,
    /// TCP's flags, in hexadecimal.
    Hex,
    /// Ports, of which neither byte order nor mask differ from other numbers.
    Port,
}

/// A field: word, field, number, number of the mask (0 without one), bytes, form.
type Key = (&'static str, Field, u16, u16, usize, As);

/// Fields of every packet, in an order in which words can be read.
const KEYS: [Key; 20] = [
    ("num_of_vlans", Field::VLAN_COUNT, 102, 0, 1, As::Host),
    ("vlan_id", Field::VLAN_ID, 23, 0, 2, As::Host),
    ("vlan_prio", Field::VLAN_PRIO, 24, 0, 1, As::Host),
    ("vlan_ethtype", Field::VLAN_ETHTYPE, 25, 0, 2, As::Protocol),
    ("cvlan_id", Field::CVLAN_ID, 77, 0, 2, As::Host),
    ("cvlan_prio", Field::CVLAN_PRIO, 78, 0, 1, As::Host),
    ("cvlan_ethtype", Field::CVLAN_ETHTYPE, 79, 0, 2, As::Protocol),
    ("pppoe_sid", Field::PPPOE_SID, 103, 0, 2, As::Net),
    ("ppp_proto", Field::PPP_PROTO, 104, 0, 2, As::Protocol),
    ("dst_mac", Field::DST_MAC, 4, 5, 6, As::Mac),
    ("src_mac", Field::SRC_MAC, 6, 7, 6, As::Mac),
    ("ip_tos", Field::IP_TOS, 73, 74, 1, As::Hex),
    ("ip_ttl", Field::IP_TTL, 75, 76, 1, As::Hex),
    ("arp_op", Field::ARP_OP, 61, 62, 1, As::Host),
    ("arp_sha", Field::ARP_SHA, 63, 64, 6, As::Mac),
    ("arp_tha", Field::ARP_THA, 65, 66, 6, As::Mac),
    ("mpls_label", LSE_1, 70, 0, 4, As::Host),
    ("mpls_tc", LSE_1, 69, 0, 1, As::Host),
    ("mpls_bos", LSE_1, 68, 0, 1, As::Host),
    ("mpls_ttl", LSE_1, 67, 0, 1, As::Host),
];
/// Those of them that are written in the same way; entries of a label stack are not.
const PLAIN: usize = 16;
const LSE_1: Field = match Field::lse(1) {
    Some(field) => field,
    None => Field::LSES,
};

/// Addresses, by the ethertype that they go with.
const ADDRESSES: [(u16, [Key; 2]); 3] = [
    (
        ethertype::IPV4,
        [("src_ip", Field::SRC_IP, 10, 11, 4, As::Ip), ("dst_ip", Field::DST_IP, 12, 13, 4, As::Ip)],
    ),
    (
        ethertype::IPV6,
        [("src_ip", Field::SRC_IP, 14, 15, 16, As::Ip), ("dst_ip", Field::DST_IP, 16, 17, 16, As::Ip)],
    ),
    (
        ethertype::ARP,
        [("arp_sip", Field::SRC_IP, 57, 58, 4, As::Ip), ("arp_tip", Field::DST_IP, 59, 60, 4, As::Ip)],
    ),
];
const RARP: u16 = 0x8035;
/// The ethertype of a session of PPPoE.
const PPPOE: u16 = 0x8864;

/// Fields of transport headers, by the protocol that they go with.
const TRANSPORT: [(u8, [Key; 2]); 5] = [
    (
        6,
        [
            ("src_port", Field::SRC_PORT, 18, 35, 2, As::Port),
            ("dst_port", Field::DST_PORT, 19, 36, 2, As::Port),
        ],
    ),
    (
        17,
        [
            ("src_port", Field::SRC_PORT, 20, 37, 2, As::Port),
            ("dst_port", Field::DST_PORT, 21, 38, 2, As::Port),
        ],
    ),
    (
        132,
        [
            ("src_port", Field::SRC_PORT, 41, 39, 2, As::Port),
            ("dst_port", Field::DST_PORT, 42, 40, 2, As::Port),
        ],
    ),
    (1, [("type", Field::ICMP_TYPE, 51, 52, 1, As::Host), ("code", Field::ICMP_CODE, 49, 50, 1, As::Host)]),
    (58, [("type", Field::ICMP_TYPE, 55, 56, 1, As::Host), ("code", Field::ICMP_CODE, 53, 54, 1, As::Host)]),
];
const TCP_FLAGS: Key = ("tcp_flags", Field::TCP_FLAGS, 71, 72, 2, As::Hex);
/// Ranges of ports: word, first and last.
const RANGES: [(&str, u16, u16); 2] = [("src_port", 87, 88), ("dst_port", 89, 90)];

/// All attributes that a request may have, but for those of every kind.
const KNOWN: [u16; 71] = [
    4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 35, 36, 37, 38, 39, 40, 41,
    42, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71,
    72, 73, 74, 75, 76, 77, 78, 79, 86, 87, 88, 89, 90, 99, 102, 103, 104,
];

/// Returns the number in the bytes of an attribute.
fn number(r: Record<'_>, bytes: usize, form: As) -> u128 {
    let swapped = matches!(form, As::Net | As::Protocol | As::Port) || (form == As::Hex && bytes == 2);
    match (bytes, swapped) {
        (1, _) => r.u8(0).into(),
        (2, true) => u16::from_be(r.u16(0)).into(),
        (2, false) => r.u16(0).into(),
        (4, _) if form == As::Ip => u32::from_be(r.u32(0)).into(),
        (4, _) => r.u32(0).into(),
        (n, _) => (0..n).fold(0, |all, at| all << 8 | u128::from(r.u8(at))),
    }
}

fn mac(n: u128) -> String {
    let bytes = n.to_be_bytes();
    bytes[10..].iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":")
}

/// Returns the number of leading ones of a mask, if only zeros follow.
fn prefix(mask: u128, bits: u32) -> Option<u32> {
    let ones = (mask << (128 - bits)).leading_ones();
    (mask == whole(bits) & !whole(bits - ones)).then_some(ones)
}

const fn whole(bits: u32) -> u128 {
    if bits == 0 { 0 } else { u128::MAX >> (128 - bits) }
}

/// Returns the words of a field; none if the attribute is not there.
fn field(all: &Attributes<'_>, key: Key) -> Words {
    let (word, of, at, mask_at, bytes, form) = key;
    let Some(r) = all.record(at, bytes)? else { return Ok(Vec::new()) };
    let bits = u32::try_from(bytes * 8).unwrap_or(8);
    let most =
        if matches!(form, As::Mac | As::Ip) || word.starts_with("mpls") { whole(bits) } else { of.whole() };
    let value = number(r, bytes, form);
    let mask = match mask_at {
        0 => most,
        number_of => all.record(number_of, bytes)?.map_or(most, |r| number(r, bytes, form)),
    };
    if value > most || mask > most {
        let text = format!("flower: {word}: expected a number up to {most}, given {}", value.max(mask));
        return Err(Refusal::invalid(text));
    }
    // A field of which no bit counts says nothing.
    if mask == 0 {
        return Ok(Vec::new());
    }
    let text = match form {
        As::Protocol => format!("{value:#06x}"),
        As::Mac if mask == most => mac(value),
        As::Mac => format!("{}/{}", mac(value), mac(mask)),
        As::Ip => address(word, value, mask, bits)?,
        As::Hex if bytes == 2 => format!("{value:x}/{mask:x}"),
        As::Hex => format!("{value}/{mask:x}"),
        As::Host | As::Net if mask == most => value.to_string(),
        As::Port if mask == most => value.to_string(),
        As::Port => format!("{value}/{mask:#x}"),
        As::Host | As::Net => format!("{value}/{mask}"),
    };
    Ok(pair(word, text).into())
}

fn address(word: &str, value: u128, mask: u128, bits: u32) -> Result<String, Refusal> {
    let Some(ones) = prefix(mask, bits) else {
        let text = format!("flower: {word}: expected a mask of leading ones, given {mask:#x}");
        return Err(Refusal::unsupported(text));
    };
    Ok(match bits {
        32 => format!("{}/{ones}", Ipv4Addr::from(value as u32)), // it has no more bits
        _ => format!("{}/{ones}", Ipv6Addr::from(value)),
    })
}

pub(super) fn read(all: &Attributes<'_>, protocol: u16) -> Words {
    let mut words = Vec::new();
    let (tags, fields) = KEYS.split_at(9);
    for key in tags {
        words.extend(field(all, *key)?);
    }
    let named = |number: u16| Ok::<_, Refusal>(all.record(number, 2)?.map(|r| u16::from_be(r.u16(0))));
    // The engine takes it from the protocol; behind tags and in sessions, from other attributes.
    let stands_alone = !matches!(protocol, ethertype::VLAN | ethertype::SERVICE_VLAN | PPPOE);
    if let Some(kind) = named(ETH_TYPE)?.filter(|kind| *kind != 0 && *kind != protocol && stands_alone) {
        let text = format!("flower: the ethertype {kind:#06x} goes with a filter of that protocol");
        return Err(Refusal::unsupported(text));
    }
    let ip_proto = all.record(IP_PROTO, 1)?.map(|r| r.u8(0));
    words.extend(ip_proto.into_iter().flat_map(|n| pair("ip_proto", ip_proto_word(n))));
    for key in fields {
        words.extend(field(all, *key)?);
    }
    words.extend(labels(all)?);
    for key in ADDRESSES.iter().flat_map(|(_, keys)| keys) {
        words.extend(field(all, *key)?);
    }
    for (proto, keys) in TRANSPORT {
        for key in keys {
            let said = field(all, key)?;
            if !said.is_empty() && ip_proto != Some(proto) {
                let text = format!("flower: attribute {} goes with protocol {proto} of IP", key.2);
                return Err(Refusal::invalid(text));
            }
            words.extend(said);
        }
    }
    words.extend(field(all, TCP_FLAGS)?);
    for (word, first, last) in RANGES {
        match (named(first)?, named(last)?) {
            (None, None) => {}
            (Some(first), Some(last)) => words.extend(pair(word, format!("{first}-{last}"))),
            _ => {
                let text =
                    format!("flower: a range of ports has both its ends, attributes {first} and {last}");
                return Err(Refusal::invalid(text));
            }
        }
    }
    words.extend(fragments(all)?);
    Ok(words)
}

/// Returns a protocol of IP as a word: those with ports by their names.
fn ip_proto_word(number: u8) -> String {
    match number {
        6 => "tcp".into(),
        17 => "udp".into(),
        132 => "sctp".into(),
        n => format!("{n:02x}"),
    }
}

/// Flags of fragments, each with its bit.
const FLAGS: [(u32, &str); 2] = [(1, "frag"), (2, "firstfrag")];

fn fragments(all: &Attributes<'_>) -> Words {
    let bits = |number: u16| Ok::<_, Refusal>(all.u32(number)?.map(u32::from_be));
    let Some(value) = bits(FRAGMENT)? else { return Ok(Vec::new()) };
    let mask = bits(FRAGMENT_MASK)?.unwrap_or(3);
    if mask & !3 != 0 {
        return Err(Refusal::unsupported(format!("flower: ip_flags: expected bits of 0 to 3, given {mask}")));
    }
    let said = FLAGS.iter().filter(|(bit, _)| mask & bit != 0);
    let words: Vec<String> =
        said.map(|(bit, name)| format!("{}{name}", if value & bit != 0 { "" } else { "no" })).collect();
    Ok(if words.is_empty() { words } else { pair("ip_flags", words.join("/")).into() })
}

/// Parts of an entry of a label stack: word, number in a list, number of the outermost entry,
/// shift, bits, bytes.
const PARTS: [(&str, u16, u16, u32, u32, usize); 4] = [
    ("label", 5, 70, 12, 0xf_ffff, 4),
    ("tc", 4, 69, 9, 7, 1),
    ("bos", 3, 68, 8, 1, 1),
    ("ttl", 2, 67, 0, 0xff, 1),
];

/// Reads a list of entries of a label stack.
fn labels(all: &Attributes<'_>) -> Words {
    let Some(list) = all.bytes(LABELS) else { return Ok(Vec::new()) };
    let list = Attributes::read(list, "flower mpls")?;
    list.only(&[ENTRY])?;
    let mut words = vec!["mpls".to_string()];
    for entry in list.iter() {
        let entry = Attributes::read(entry.value, "flower mpls lse")?;
        entry.only(&[DEPTH, 2, 3, 4, 5])?;
        words.push("lse".into());
        if let Some(r) = entry.record(DEPTH, 1)? {
            words.extend(pair("depth", r.u8(0)));
        }
        for (word, number_of, .., bytes) in PARTS {
            let part = entry.record(number_of, bytes)?.map(|r| number(r, bytes, As::Host));
            words.extend(part.into_iter().flat_map(|n| pair(word, n)));
        }
    }
    Ok(words)
}

/// Writes the fields of a rule, each with its mask.
pub(super) fn write(rule: &Flower, w: &mut Writer) {
    if let Some(name) = &rule.indev {
        w.text(INDEV, name);
    }
    let kind = rule.get(Field::ETH_TYPE).map(|(kind, _)| kind as u16); // it has 16 bits
    let ip_proto = rule.get(Field::IP_PROTO).map(|(proto, _)| proto as u8); // it has 8 bits
    kind.into_iter().for_each(|kind| w.u16(ETH_TYPE, kind.to_be()));
    ip_proto.into_iter().for_each(|proto| w.u8(IP_PROTO, proto));
    KEYS[..PLAIN].iter().for_each(|key| write_field(rule, *key, w));
    let kind = if kind == Some(RARP) { Some(ethertype::ARP) } else { kind };
    for (_, keys) in ADDRESSES.iter().filter(|(of, _)| Some(*of) == kind) {
        keys.iter().for_each(|key| write_field(rule, *key, w));
    }
    for (_, keys) in TRANSPORT.iter().filter(|(of, _)| Some(*of) == ip_proto) {
        keys.iter().for_each(|key| write_field(rule, *key, w));
    }
    write_field(rule, TCP_FLAGS, w);
    for ((_, first_at, last_at), range) in RANGES.iter().zip([rule.src_ports, rule.dst_ports]) {
        if let Some((first, last)) = range {
            w.u16(*first_at, first.to_be());
            w.u16(*last_at, last.to_be());
        }
    }
    if let Some((value, mask)) = rule.get(Field::IP_FLAGS) {
        for (number, bits) in [(FRAGMENT, value), (FRAGMENT_MASK, mask)] {
            w.u32(number, (bits as u32).to_be()); // two bits
        }
    }
    write_labels(rule, w);
}

fn write_field(rule: &Flower, key: Key, w: &mut Writer) {
    let (_, field, at, mask_at, bytes, form) = key;
    let Some((value, mask)) = rule.get(field) else { return };
    let swapped = !matches!(form, As::Host);
    let mut put = |number: u16, n: u128| {
        let all = n.to_be_bytes();
        let mut out = all[16 - bytes..].to_vec();
        if !swapped && cfg!(target_endian = "little") {
            out.reverse();
        }
        w.bytes(number, &out);
    };
    put(at, value);
    if mask_at != 0 {
        put(mask_at, mask);
    }
}

fn write_labels(rule: &Flower, w: &mut Writer) {
    let spoken = rule.get(Field::LSES).map_or(0, |(_, mask)| mask);
    let entry = |depth: u8| {
        let (value, mask) = Field::lse(depth).and_then(|field| rule.get(field)).unwrap_or_default();
        (value as u32, mask as u32) // an entry has 32 bits
    };
    let put = |outermost: bool, (value, mask): (u32, u32), w: &mut Writer| {
        for (_, in_list, alone, shift, bits, bytes) in PARTS {
            let number = if outermost { alone } else { in_list };
            if mask >> shift & bits != 0 {
                let n = value >> shift & bits;
                match bytes {
                    4 => w.u32(number, n),
                    _ => w.u8(number, n as u8), // at most 8 bits
                }
            }
        }
    };
    if spoken == 1 && entry(1).1 != 0 {
        put(true, entry(1), w);
    } else if spoken != 0 {
        w.nest(LABELS | NESTED, |w| {
            for depth in (1..=7u8).filter(|depth| spoken >> (depth - 1) & 1 != 0) {
                w.nest(ENTRY | NESTED, |w| {
                    w.u8(DEPTH, depth);
                    put(false, entry(depth), w);
                });
            }
        });
    }
}
