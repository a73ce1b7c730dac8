//! flower (tc-flower(8)): its printed form, and the words that make it again. `read` reads words.

mod read;
mod value;

use txweir_core::classify::filter::Flower;
use txweir_core::classify::filter::flower::Field;
use txweir_core::packet::headers::ethertype;

use super::Shown;
use crate::action::Ways;
use crate::out::Out;
use crate::protocol;

pub(crate) use read::address_line;
pub(super) use read::{hw_class, read, template};

/// The classes that stand for classes of traffic in hardware: `hw_tc N`.
const HW_CLASS: u32 = 0xffff_ffe0;

/// PPP's numbers by the names of their ethertypes.
const PPP: [(u16, &str); 4] = [(0x21, "ip"), (0x57, "ipv6"), (0x281, "mpls_uc"), (0x283, "mpls_mc")];

/// Entries of a label stack.
const DEPTHS: std::ops::RangeInclusive<u8> = 1..=7;

/// A part of a label stack entry: name, shift, bits.
const LSE: [(&str, u32, u32); 4] = [("label", 12, 0xf_ffff), ("tc", 9, 7), ("bos", 8, 1), ("ttl", 0, 0xff)];

/// The form of a key's value.
enum Form {
    /// A number, and its mask if that is not whole.
    Number(u128, Option<u128>),
    /// A value in words.
    Word(String),
    /// First and last port.
    Range(u16, u16),
    /// The flags that matter of `frag` and `firstfrag`; true for those that must be set.
    Flags(Vec<(&'static str, bool)>),
    /// Entries of a label stack: depth and the parts that matter.
    Stack(Vec<(u8, Vec<(&'static str, u32)>)>),
}

/// A printed key: its name, its word in the input if that is another (or none), and its value.
struct Item {
    name: &'static str,
    said: Option<&'static str>,
    form: Form,
}

fn mac(value: u128) -> String {
    let bytes = (value as u64).to_be_bytes(); // 48 bits
    let parts: Vec<String> = bytes[2..].iter().map(|b| format!("{b:02x}")).collect();
    parts.join(":")
}

/// Returns the number of leading ones of a mask of `bits` bits, if only zeros follow.
fn prefix(mask: u128, bits: u32) -> Option<u32> {
    let left = mask << (128 - bits);
    (left.leading_ones() + left.trailing_zeros() == 128 || mask == 0).then(|| left.leading_ones())
}

fn mac_word(value: u128, mask: u128) -> String {
    match prefix(mask, 48) {
        Some(48) => mac(value),
        Some(ones) => format!("{}/{ones}", mac(value)),
        None => format!("{}/{}", mac(value), mac(mask)),
    }
}

fn ip_word(value: u128, mask: u128, v6: bool) -> String {
    let (address, bits) = match v6 {
        true => (std::net::Ipv6Addr::from(value).to_string(), 128),
        false => (std::net::Ipv4Addr::from(value as u32).to_string(), 32), // the low half
    };
    match prefix(mask, bits) {
        Some(ones) if ones == bits => address,
        Some(ones) => format!("{address}/{ones}"),
        None => format!("{address}/{mask:#x}"),
    }
}

fn ethertype_word(kind: u16) -> String {
    match kind {
        ethertype::IPV4 => "ipv4".into(),
        ethertype::IPV6 => "ipv6".into(),
        ethertype::ARP => "arp".into(),
        0x8035 => "rarp".into(),
        other => format!("{other:04x}"),
    }
}

/// Returns the low bits of a field of at most 16.
fn small(value: u128) -> u16 {
    value as u16 // the field has no more
}

/// Returns all keys of a rule, in the order in which they are printed.
fn items(rule: &Flower) -> Vec<Item> {
    let mut all = Vec::new();
    let mut add = |name, said, form| all.push(Item { name, said, form });
    let number = |field: Field| {
        let (value, mask) = rule.get(field)?;
        Some(Form::Number(value, (mask != field.whole()).then_some(mask)))
    };
    let named = |field: Field| Some(Form::Word(protocol::name(small(rule.get(field)?.0))));
    let link = |field: Field| rule.get(field).map(|(value, mask)| Form::Word(mac_word(value, mask)));
    let kind = rule.get(Field::ETH_TYPE).map(|(kind, _)| small(kind));
    let is_arp = matches!(kind, Some(ethertype::ARP | 0x8035));
    let address = |field| {
        let v6 = kind == Some(ethertype::IPV6);
        rule.get(field).map(|(value, mask)| Form::Word(ip_word(value, mask, v6)))
    };
    let range = |ports: Option<(u16, u16)>| ports.map(|(first, last)| Form::Range(first, last));
    let decimal = |field: Field| {
        let (value, mask) = rule.get(field)?;
        let whole = mask == field.whole();
        Some(Form::Word(if whole { value.to_string() } else { format!("{value}/{mask}") }))
    };
    for (name, form) in [
        ("num_of_vlans", number(Field::VLAN_COUNT)),
        ("vlan_id", number(Field::VLAN_ID)),
        ("vlan_prio", number(Field::VLAN_PRIO)),
        ("vlan_ethtype", named(Field::VLAN_ETHTYPE)),
        ("cvlan_id", number(Field::CVLAN_ID)),
        ("cvlan_prio", number(Field::CVLAN_PRIO)),
        ("cvlan_ethtype", named(Field::CVLAN_ETHTYPE)),
        ("dst_mac", link(Field::DST_MAC)),
        ("src_mac", link(Field::SRC_MAC)),
    ] {
        form.into_iter().for_each(|form| add(name, Some(name), form));
    }
    if let Some(kind) = kind {
        add("eth_type", None, Form::Word(ethertype_word(kind)));
    }
    let ip_proto = rule.get(Field::IP_PROTO).map(|(proto, _)| Form::Word(ip_proto_word(small(proto))));
    for (name, form) in
        [("ip_proto", ip_proto), ("ip_tos", number(Field::IP_TOS)), ("ip_ttl", number(Field::IP_TTL))]
    {
        form.into_iter().for_each(|form| add(name, Some(name), form));
    }
    stack(rule, &mut add);
    let (source, destination) = (address(Field::SRC_IP), address(Field::DST_IP));
    let (sip, tip, src_ip, dst_ip) = match is_arp {
        true => (source, destination, None, None),
        false => (None, None, source, destination),
    };
    let tcp_flags = rule.get(Field::TCP_FLAGS).map(|(v, m)| Form::Word(format!("{v:#x}/{m:x}")));
    let arp_op = rule.get(Field::ARP_OP).map(|(value, mask)| match (value, mask) {
        (1, 0xff) => Form::Word("request".into()),
        (2, 0xff) => Form::Word("reply".into()),
        (value, 0xff) => Form::Word(value.to_string()),
        (value, mask) => Form::Word(format!("{value}/{mask}")),
    });
    let ppp = rule.get(Field::PPP_PROTO).map(|(value, _)| {
        let name = PPP.iter().find(|(number, _)| u128::from(*number) == value);
        Form::Word(name.map_or_else(|| format!("[{value}]"), |(_, name)| (*name).into()))
    });
    for (name, said, form) in [
        ("dst_ip", "dst_ip", dst_ip),
        ("src_ip", "src_ip", src_ip),
        ("dst_port", "dst_port", number(Field::DST_PORT)),
        ("dst_port", "dst_port", range(rule.dst_ports)),
        ("src_port", "src_port", number(Field::SRC_PORT)),
        ("src_port", "src_port", range(rule.src_ports)),
        ("tcp_flags", "tcp_flags", tcp_flags),
        ("icmp_type", "type", decimal(Field::ICMP_TYPE)),
        ("icmp_code", "code", decimal(Field::ICMP_CODE)),
        ("arp_sip", "arp_sip", sip),
        ("arp_tip", "arp_tip", tip),
        ("arp_op", "arp_op", arp_op),
        ("arp_sha", "arp_sha", link(Field::ARP_SHA)),
        ("arp_tha", "arp_tha", link(Field::ARP_THA)),
        ("pppoe_sid", "pppoe_sid", number(Field::PPPOE_SID)),
        ("ppp_proto", "ppp_proto", ppp),
        ("ip_flags", "ip_flags", flags(rule)),
    ] {
        form.into_iter().for_each(|form| add(name, Some(said), form));
    }
    all
}

fn ip_proto_word(proto: u16) -> String {
    match read::IP_PROTOS.iter().find(|(number, ..)| u16::from(*number) == proto) {
        Some((_, name)) => (*name).into(),
        None => format!("{proto:02x}"),
    }
}

fn flags(rule: &Flower) -> Option<Form> {
    let (value, mask) = rule.get(Field::IP_FLAGS)?;
    let flags = [("frag", 1), ("firstfrag", 2)];
    let said = flags.into_iter().filter(|(_, bit)| mask & bit != 0);
    Some(Form::Flags(said.map(|(name, bit)| (name, value & bit != 0)).collect()))
}

/// Adds the label stack: the words of its outermost entry if only that matters, else a list.
fn stack(rule: &Flower, add: &mut impl FnMut(&'static str, Option<&'static str>, Form)) {
    const OUTERMOST: [&str; 4] = ["mpls_label", "mpls_tc", "mpls_bos", "mpls_ttl"];
    let entry = |depth: u8| {
        let (value, mask) = Field::lse(depth).and_then(|field| rule.get(field)).unwrap_or_default();
        let (value, mask) = (value as u32, mask as u32); // an entry has 32 bits
        let parts = LSE.iter().filter(|(_, shift, bits)| mask >> shift & bits != 0);
        parts.map(|(name, shift, bits)| (*name, value >> shift & bits)).collect::<Vec<_>>()
    };
    let spoken_of = rule.get(Field::LSES).map_or(0, |(_, mask)| mask);
    let first = entry(1);
    if spoken_of == 1 && !first.is_empty() {
        for (name, value) in first {
            let at = LSE.iter().position(|(part, ..)| *part == name).unwrap_or(0);
            let word = OUTERMOST[at];
            // As in the reference, the label is a number in JSON, the others are words.
            let form = match at {
                0 => Form::Number(value.into(), None),
                _ => Form::Word(value.to_string()),
            };
            add(word, Some(word), form);
        }
    } else if spoken_of != 0 {
        let spoken = DEPTHS.filter(|depth| spoken_of >> (depth - 1) & 1 != 0);
        add("mpls", Some("mpls"), Form::Stack(spoken.map(|depth| (depth, entry(depth))).collect()));
    }
}

impl Form {
    /// Returns it in its printed form, which is also its input form, except for a label stack,
    /// which is printed over several lines.
    fn text(&self) -> String {
        match self {
            Self::Number(value, None) => value.to_string(),
            Self::Number(value, Some(mask)) => format!("{value}/{mask:#x}"),
            Self::Word(word) => word.clone(),
            Self::Range(first, last) => format!("{first}-{last}"),
            Self::Flags(flags) => {
                let word = |(name, on): &(&str, bool)| format!("{}{name}", if *on { "" } else { "no" });
                flags.iter().map(word).collect::<Vec<_>>().join("/")
            }
            Self::Stack(entries) => {
                let part = |(name, value): &(&str, u32)| format!(" {name} {value}");
                let entry = |(depth, parts): &(u8, Vec<_>)| {
                    format!("lse depth {depth}{}", parts.iter().map(part).collect::<String>())
                };
                entries.iter().map(entry).collect::<Vec<_>>().join(" ")
            }
        }
    }

    fn show(&self, name: &str, out: &mut Out) {
        let text = match self {
            Self::Stack(_) => {
                format!("\n  {name}{}", format!(" {}", self.text()).replace(" lse ", "\n    lse "))
            }
            _ => format!("\n  {name} {}", self.text()),
        };
        match self {
            Self::Number(value, mask) => {
                out.raw(name, &value.to_string(), &text);
                if let Some(mask) = mask {
                    out.word(&format!("{name}_mask"), &format!("{mask:x}"), "");
                }
            }
            Self::Word(word) => out.word(name, word, &text),
            Self::Range(first, last) => {
                out.raw(name, &format!("{{\"start\":{first},\"end\":{last}}}"), &text);
            }
            Self::Flags(flags) => {
                let one = |(name, on): &(&str, bool)| format!("\"{name}\":{on}");
                let all: Vec<String> = flags.iter().map(one).collect();
                out.raw(name, &format!("{{{}}}", all.join(",")), &text);
            }
            Self::Stack(entries) => {
                let part = |(name, value): &(&str, u32)| format!(",\"{name}\":{value}");
                let entry = |(depth, parts): &(u8, Vec<_>)| {
                    format!("{{\"depth\":{depth}{}}}", parts.iter().map(part).collect::<String>())
                };
                let all: Vec<String> = entries.iter().map(entry).collect();
                out.raw(name, &format!("[{}]", all.join(",")), &text);
            }
        }
    }
}

/// Returns the number of the traffic class of hardware that a class stands for.
const fn hw_tc(class: txweir_core::Handle) -> Option<u32> {
    if class.0 >= HW_CLASS && class.0 < HW_CLASS + 16 { Some(class.0 - HW_CLASS) } else { None }
}

pub(super) fn show(rule: &Flower, shown: &Shown<'_>, ways: &Ways<'_>, out: &mut Out) {
    out.uint("handle", shown.handle, &format!("handle {:#x} ", shown.handle));
    match hw_tc(shown.goal.class) {
        Some(tc) => out.uint("hw_tc", tc, &format!("hw_tc {tc} ")),
        None => shown.class("classid", ways, out),
    }
    if let Some(name) = &rule.indev {
        out.word("indev", name, &format!("\n  indev {name}"));
    }
    keys(rule, out);
    if rule.skip_hw {
        out.flag("skip_hw", "\n  skip_hw");
    }
    out.flag("not_in_hw", "\n  not_in_hw");
}

/// Prints the fields that the filters of a chain may look at.
pub(super) fn show_template(rule: &Flower, out: &mut Out) {
    if let Some(name) = &rule.indev {
        out.word("indev", name, &format!("\n  indev {name}"));
    }
    keys(rule, out);
}

fn keys(rule: &Flower, out: &mut Out) {
    out.open("keys");
    items(rule).iter().for_each(|item| item.form.show(item.name, out));
    out.close();
}

/// Returns the words that make it again; the class is `classid`, that of hardware too.
pub(super) fn words(rule: &Flower) -> String {
    let mut words = String::new();
    if rule.skip_hw {
        words.push_str(" skip_hw");
    }
    if let Some(name) = &rule.indev {
        words.push_str(&format!(" indev {name}"));
    }
    let mut items = items(rule);
    // The protocol that a session carries comes before the fields behind it.
    items.sort_by_key(|item| !matches!(item.name, "pppoe_sid" | "ppp_proto"));
    for item in items {
        let Some(said) = item.said else { continue };
        let text = item.form.text();
        // A number that has no name is printed in brackets.
        let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).map(str::to_string);
        words.push_str(&format!(" {said} {}", bare.unwrap_or(text)));
    }
    words
}
