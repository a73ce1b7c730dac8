//! The words of flower, in their order: the form of a word depends on those before it.

use std::borrow::Cow;

use txweir_core::Handle;
use txweir_core::classify::filter::Flower;
use txweir_core::classify::filter::flower::Field;
use txweir_core::classify::packet::PortId;
use txweir_core::packet::headers::ethertype;

use super::value::{Parse, decimal, decimal_or_hex, hex, ipv4, ipv6, mac, mac_bytes, masked};
use super::{DEPTHS, HW_CLASS, LSE, PPP};
use crate::diagnostic::{Diagnostic, code};
use crate::failure::Failure;
use crate::filter::Where;
use crate::kernel;
use crate::language::{range_lines, uint};
use crate::lex::Word;
use crate::protocol;
use crate::said::Said;
use crate::sentence::Sentence;

type Done = Result<(), Failure>;

/// The ethertype of RARP.
const RARP: u16 = 0x8035;
/// The ethertype of a session of PPPoE.
const PPPOE: u16 = 0x8864;
/// Every protocol.
const ALL: u16 = txweir_core::classify::filter::ANY_PROTOCOL;

/// Protocols over IP that have names.
pub(super) const IP_PROTOS: [(u8, &str); 5] =
    [(6, "tcp"), (17, "udp"), (132, "sctp"), (1, "icmp"), (58, "icmpv6")];

/// Returns the class that `hw_tc` names, if that comes last.
pub(in crate::filter) fn hw_class(said: &Said<'_>) -> Option<Handle> {
    let last = said.settings.iter().filter(|(s, _)| matches!(s.key, "hw_tc" | "classid")).last()?;
    let number = (last.0.key == "hw_tc").then(|| uint(&last.1.get(1)?.text)).flatten()?;
    Some(Handle(HW_CLASS + (number as u32 & 15)))
}

struct Reader<'a, 'b> {
    said: &'a Said<'b>,
    /// tc's name of the value that is being read.
    name: &'static str,
    rule: Flower,
    protocol: u16,
    /// The ethertype that the tags carry, if named.
    vlan: Option<u16>,
    cvlan: Option<u16>,
    ppp: Option<u16>,
    vlans: u64,
    ip_proto: Option<u8>,
    /// True if words of the outermost entry of a label stack were given, and true if a list of
    /// entries was.
    labels: [bool; 2],
}

/// Reads all words.
pub(in crate::filter) fn read(
    said: &Said<'_>,
    at: &Where,
    ports: &mut dyn FnMut(&str) -> Option<PortId>,
) -> Result<Flower, Failure> {
    let mut reader = Reader {
        said,
        name: "",
        rule: Flower::default(),
        protocol: at.protocol,
        vlan: None,
        cvlan: None,
        ppp: None,
        vlans: 0,
        ip_proto: None,
        labels: [false; 2],
    };
    reader.rule.skip_hw = said.settings.has("skip_hw");
    for (setting, words) in said.settings.iter() {
        let [key, rest @ ..] = words else { continue };
        reader.name = match setting.key {
            "type" => "icmp type",
            "code" => "icmp code",
            name => name,
        };
        match (setting.key, rest) {
            ("indev", [name, ..]) => {
                let missing = || format!("there is no device \"{}\"", name.text);
                let port = ports(&name.text).ok_or_else(|| {
                    Failure::refused(said.error(code::NOT_FOUND, name, missing())).linux(kernel::NO_INDEV)
                })?;
                reader.rule.set(Field::INDEV, port.0.into(), Field::INDEV.whole());
                reader.rule.indev = Some(name.text.as_str().into());
            }
            ("mpls", entries) => reader.stack(key, entries)?,
            (name, [value, ..]) => reader.key(name, key, value)?,
            _ => {}
        }
    }
    reader.finish();
    Ok(reader.rule)
}

/// Reads the words of a chain. Without a protocol its filters may ask for one.
pub(in crate::filter) fn template(
    said: &Said<'_>,
    at: &Where,
    ports: &mut dyn FnMut(&str) -> Option<PortId>,
) -> Result<Flower, Failure> {
    let mut rule = read(said, at, ports)?;
    rule.skip_hw = false;
    if at.protocol == 0 {
        rule.set(Field::ETH_TYPE, 0, Field::ETH_TYPE.whole());
    }
    Ok(rule)
}

const fn is_tag(kind: u16) -> bool {
    matches!(kind, ethertype::VLAN | ethertype::SERVICE_VLAN)
}

impl Reader<'_, '_> {
    fn wrong(&self, value: &Word, expected: &str) -> Failure {
        let message = format!("flower filter: \"{}\" is not a value for this", value.text);
        let err = self.said.error(code::BAD_VALUE, value, message).expected(expected);
        Failure::unparsable(err).linux(Sentence::Illegal(self.name))
    }

    fn needs(&self, key: &Word, what: &str) -> Failure {
        let message = format!("flower filter {} needs {what}", key.text);
        let err = self.said.error(code::CONFLICT, key, message);
        Failure::unparsable(err).linux(Sentence::Illegal(self.name))
    }

    /// Returns tc's line for a key that does not fit the words around it.
    fn cannot_set(&self, condition: &str) -> String {
        format!("Can't set \"{}\" if {condition}", self.name)
    }

    /// Returns the error for an address of Ethernet.
    fn wrong_mac(&self, value: &Word) -> Failure {
        let failure = self.wrong(value, MAC);
        let (address, mask) = value.text.split_once('/').unwrap_or((&value.text, ""));
        let not = match (mac_bytes(address), mask.parse::<u32>()) {
            (None, _) => address,
            (Some(_), Err(_)) if !mask.is_empty() => mask,
            // tc takes any number of bits.
            _ => return Failure { diagnostic: Diagnostic { linux: None, ..failure.diagnostic }, ..failure },
        };
        failure.linux(format!("\"{not}\" is invalid lladdr.\n{}", Sentence::Illegal(self.name)))
    }

    /// Returns the type of the packet's network header, by tc's rules.
    fn said_kind(&self) -> u16 {
        let ppp = self.ppp.and_then(ppp_kind);
        ppp.or(self.cvlan).or(self.vlan).unwrap_or(self.protocol)
    }

    /// Returns the type by the engine's rules, which look behind tags only if the filter is asked
    /// about tags.
    fn kind(&self) -> Option<u16> {
        let kind = match self.protocol {
            0 | ALL => return None,
            tag if is_tag(tag) => match self.vlan? {
                inner if is_tag(inner) => self.cvlan?,
                inner => inner,
            },
            kind => kind,
        };
        match (kind, self.ppp) {
            (PPPOE, None) => None,
            (PPPOE, Some(ppp)) => Some(ppp_kind(ppp).unwrap_or(PPPOE)),
            (kind, _) => (!is_tag(kind)).then_some(kind),
        }
    }

    fn set(&mut self, field: Field, (value, mask): (u64, u64)) {
        self.rule.set(field, value.into(), mask.into());
    }

    fn number(&mut self, field: Field, value: &Word, parse: Parse) -> Done {
        let whole = field.whole() as u64; // fields of at most 64 bits
        let number = parse(&value.text).filter(|n| *n <= whole);
        let number = number.ok_or_else(|| self.wrong(value, &format!("a number up to {whole}")))?;
        self.set(field, (number, whole));
        Ok(())
    }

    fn key(&mut self, name: &str, key: &Word, value: &Word) -> Done {
        match name {
            "num_of_vlans" => {
                self.vlans = uint(&value.text).unwrap_or(0);
                self.number(Field::VLAN_COUNT, value, uint)
            }
            "vlan_id" | "vlan_prio" | "vlan_ethtype" | "cvlan_id" | "cvlan_prio" | "cvlan_ethtype" => {
                self.tag(name, key, value)
            }
            "dst_mac" | "src_mac" => {
                let mac = mac(&value.text).ok_or_else(|| self.wrong_mac(value))?;
                self.set(if name == "dst_mac" { Field::DST_MAC } else { Field::SRC_MAC }, mac);
                Ok(())
            }
            "ip_proto" | "ip_tos" | "ip_ttl" | "src_ip" | "dst_ip" => self.ip(name, key, value),
            "src_port" | "dst_port" | "tcp_flags" | "type" | "code" => self.transport(name, key, value),
            "ip_flags" => self.flags(value),
            "arp_op" | "arp_sip" | "arp_tip" | "arp_sha" | "arp_tha" => self.arp(name, key, value),
            "pppoe_sid" | "ppp_proto" => self.pppoe(name, key, value),
            "mpls_label" | "mpls_tc" | "mpls_bos" | "mpls_ttl" => {
                self.labels[0] = true;
                self.label(key)?;
                self.lse(1, &name[5..], value)
            }
            name => self.other(name, key),
        }
    }

    /// Reads the words about the filter and not about packets, and those about properties that
    /// packets do not have here.
    fn other(&self, name: &str, key: &Word) -> Done {
        let unsupported = |message: &str| self.said.error(code::UNSUPPORTED, key, message);
        match name {
            "l2tpv3_sid" | "spi" | "cfm" | "enc_flags" | "pfcp_opts" => {
                let message = format!("flower does not look at {name}");
                let err = self.said.error(code::UNKNOWN_KEY, key, message);
                Err(Failure::unparsable(err).linux(Sentence::WhatIs(&key.text)))
            }
            name if name.starts_with("ct_") => {
                Err(Failure::refused(unsupported("connections are not tracked here")))
            }
            name if name.starts_with("enc_") || name.ends_with("_opts") => {
                Err(Failure::refused(unsupported("packets come out of no tunnel here")))
            }
            _ => Ok(()),
        }
    }

    fn tag(&mut self, name: &str, key: &Word, value: &Word) -> Done {
        let inner = name.starts_with('c');
        let tagged = match inner {
            false => is_tag(self.protocol) || self.vlans > 0,
            true => self.vlan.is_some_and(is_tag) || self.vlans > 1,
        };
        if !tagged {
            let what = if inner { "vlan_ethtype 802.1q before it" } else { "protocol 802.1q" };
            let condition = match inner {
                false => "ethertype isn't 802.1Q or 802.1AD and num_of_vlans is 0",
                true => "inner vlan ethertype isn't 802.1Q or 802.1AD and num_of_vlans is less than 2",
            };
            return Err(self.needs(key, what).linux(self.cannot_set(condition)));
        }
        match (name, inner) {
            ("vlan_id", _) => self.number(Field::VLAN_ID, value, uint)?,
            ("vlan_prio", _) => self.number(Field::VLAN_PRIO, value, uint)?,
            ("cvlan_id", _) => self.number(Field::CVLAN_ID, value, uint)?,
            ("cvlan_prio", _) => self.number(Field::CVLAN_PRIO, value, uint)?,
            (_, inner) => {
                let kind = protocol::number(&value.text).ok_or_else(|| {
                    let message = format!("\"{}\" is not an ethertype", value.text);
                    let err = self.said.error(code::BAD_VALUE, value, message);
                    // tc names the outer tag also for the inner one.
                    Failure::usage(err).linux(Sentence::Argument(&value.text, "invalid vlan_ethtype"))
                })?;
                let field = if inner { Field::CVLAN_ETHTYPE } else { Field::VLAN_ETHTYPE };
                self.set(field, (kind.into(), 0xffff));
                *(if inner { &mut self.cvlan } else { &mut self.vlan }) = Some(kind);
            }
        }
        // The tag is of the kind that the filter is asked about, or that the outer tag names.
        match (inner, self.vlan) {
            (false, _) if is_tag(self.protocol) => self.set(Field::VLAN_TPID, (self.protocol.into(), 0xffff)),
            (true, Some(kind)) if is_tag(kind) => self.set(Field::CVLAN_TPID, (kind.into(), 0xffff)),
            _ => {}
        }
        Ok(())
    }

    fn is_ip(&self) -> bool {
        matches!(self.kind(), Some(ethertype::IPV4 | ethertype::IPV6))
    }

    fn ip(&mut self, name: &str, key: &Word, value: &Word) -> Done {
        let kind = self.said_kind();
        if matches!(name, "ip_tos" | "ip_ttl") {
            let found = masked(&value.text, decimal_or_hex, hex, 0xff);
            let found = found.ok_or_else(|| self.wrong(value, "a number up to 255, or number/mask"))?;
            if self.is_ip() {
                self.set(if name == "ip_tos" { Field::IP_TOS } else { Field::IP_TTL }, found);
            }
            return Ok(());
        }
        if !matches!(kind, ethertype::IPV4 | ethertype::IPV6) {
            let failure = self.needs(key, "protocol ip or ipv6");
            return Err(if name == "ip_proto" { failure.linux(OTHER_ETHERTYPE) } else { failure });
        }
        if name == "ip_proto" {
            return self.read_ip_proto(kind, key, value);
        }
        if matches!(value.text.as_str(), "any" | "all") {
            let message = format!("flower filter {name}: \"{}\" is no address", value.text);
            let err = self.said.error(code::BAD_VALUE, value, message);
            return Err(Failure::refused(err).linux(kernel::RANGE_TALKING));
        }
        let v4 = kind == ethertype::IPV4;
        let found = if v4 { ipv4(&value.text) } else { ipv6(&value.text) };
        let expected = if v4 { "an IPv4 address or prefix" } else { "an IPv6 address or prefix" };
        let (address, mask) = found.ok_or_else(|| {
            let form = if v4 { "inet prefix" } else { "inet6 prefix" };
            self.wrong(value, expected).linux(Sentence::Rather(form, &value.text))
        })?;
        if self.is_ip() {
            self.rule.set(if name == "src_ip" { Field::SRC_IP } else { Field::DST_IP }, address, mask);
        }
        Ok(())
    }

    fn read_ip_proto(&mut self, kind: u16, key: &Word, value: &Word) -> Done {
        let named = IP_PROTOS.iter().find(|(_, name)| *name == value.text).map(|(number, _)| *number);
        let number = named.or_else(|| hex(&value.text).and_then(|n| u8::try_from(n).ok()));
        let number = number.ok_or_else(|| {
            self.wrong(value, "one of tcp, udp, sctp, icmp, icmpv6 or a hexadecimal number")
        })?;
        match (value.text.as_str(), kind) {
            ("icmp", ethertype::IPV6) => {
                return Err(self.needs(key, "protocol ip for icmp").linux(OTHER_ETHERTYPE));
            }
            ("icmpv6", ethertype::IPV4) => {
                return Err(self.needs(key, "protocol ipv6 for icmpv6").linux(OTHER_ETHERTYPE));
            }
            _ => {}
        }
        self.ip_proto = Some(number);
        if self.is_ip() {
            self.set(Field::IP_PROTO, (number.into(), 0xff));
        }
        Ok(())
    }

    fn transport(&mut self, name: &str, key: &Word, value: &Word) -> Done {
        match name {
            "tcp_flags" => {
                let found = masked(&value.text, hex, hex, 0xfff);
                let found = found.ok_or_else(|| self.wrong(value, "a hexadecimal number up to fff"))?;
                self.set(Field::TCP_FLAGS, found);
                return Ok(());
            }
            "type" | "code" => {
                if !matches!(self.ip_proto, Some(1 | 58)) {
                    return Err(self.needs(key, "ip_proto icmp or icmpv6 before it"));
                }
                let found = masked(&value.text, decimal, decimal, 0xff);
                let found = found.ok_or_else(|| self.wrong(value, "a number up to 255, or number/mask"))?;
                self.set(if name == "type" { Field::ICMP_TYPE } else { Field::ICMP_CODE }, found);
                return Ok(());
            }
            _ => {}
        }
        if !matches!(self.ip_proto, Some(6 | 17 | 132)) {
            return Err(self.needs(key, "ip_proto tcp, udp or sctp before it"));
        }
        let source = name == "src_port";
        const EXPECTED: &str = "a port, port/mask or first-last";
        let port = |word: &str| decimal(word).filter(|n| (1..=0xffff).contains(n));
        if let Some((first, last)) = value.text.split_once('-') {
            let (Some(first), Some(last)) = (port(first), port(last)) else {
                return Err(self.wrong(value, EXPECTED));
            };
            if first >= last {
                let failure = self.wrong(value, "a range whose last port is above its first");
                return Err(failure.linux(range_lines(self.name)));
            }
            // Each is at most 65 535.
            let range = Some((first as u16, last as u16));
            *(if source { &mut self.rule.src_ports } else { &mut self.rule.dst_ports }) = range;
            return Ok(());
        }
        let found = masked(&value.text, decimal, uint, 0xffff).filter(|(port, _)| *port != 0);
        let found = found.ok_or_else(|| self.wrong(value, EXPECTED))?;
        self.set(if source { Field::SRC_PORT } else { Field::DST_PORT }, found);
        Ok(())
    }

    fn flags(&mut self, value: &Word) -> Done {
        let (mut flags, mut mask) = (0, 0);
        for word in value.text.split('/') {
            let (bit, on) = match word {
                "frag" => (1, true),
                "nofrag" => (1, false),
                "firstfrag" => (2, true),
                "nofirstfrag" => (2, false),
                _ => return Err(self.wrong(value, "frag, nofrag, firstfrag or nofirstfrag")),
            };
            mask |= bit;
            flags = flags & !bit | if on { bit } else { 0 };
        }
        self.set(Field::IP_FLAGS, (flags, mask));
        Ok(())
    }

    fn arp(&mut self, name: &str, key: &Word, value: &Word) -> Done {
        if !matches!(self.said_kind(), ethertype::ARP | RARP) {
            return Err(self.needs(key, "protocol arp or rarp"));
        }
        match name {
            "arp_op" => {
                let operation: Parse = |word| match word {
                    "request" => Some(1),
                    "reply" => Some(2),
                    word => decimal(word).filter(|n| *n <= 2),
                };
                let found = masked(&value.text, operation, decimal, 0xff);
                let found = found.ok_or_else(|| self.wrong(value, "request, reply, 0, 1 or 2"))?;
                self.set(Field::ARP_OP, found);
            }
            "arp_sip" | "arp_tip" => {
                let found = ipv4(&value.text).ok_or_else(|| {
                    let failure = self.wrong(value, "an IPv4 address or prefix");
                    failure.linux(Sentence::Rather("inet prefix", &value.text))
                })?;
                let field = if name == "arp_sip" { Field::SRC_IP } else { Field::DST_IP };
                self.rule.set(field, found.0, found.1);
            }
            _ => {
                let mac = mac(&value.text).ok_or_else(|| self.wrong_mac(value))?;
                self.set(if name == "arp_sha" { Field::ARP_SHA } else { Field::ARP_THA }, mac);
            }
        }
        Ok(())
    }

    fn pppoe(&mut self, name: &str, key: &Word, value: &Word) -> Done {
        let carried = self.cvlan.or(self.vlan).unwrap_or(self.protocol);
        if carried != PPPOE {
            let line = self.cannot_set("ethertype isn't PPPoE session");
            return Err(self.needs(key, "protocol ppp_ses").linux(line));
        }
        if name == "pppoe_sid" {
            return self.number(Field::PPPOE_SID, value, uint);
        }
        let number = match protocol::number(&value.text) {
            Some(kind) => {
                PPP.iter().find(|(_, name)| protocol::name(kind) == *name).map_or(kind, |(n, _)| *n)
            }
            None => {
                let message = format!("\"{}\" is not a protocol of PPP", value.text);
                let err = self.said.error(code::BAD_VALUE, value, message);
                let line = Sentence::Argument(&value.text, "invalid ppp_proto");
                return Err(Failure::usage(err).linux(line));
            }
        };
        self.ppp = Some(number);
        self.set(Field::PPP_PROTO, (number.into(), 0xffff));
        Ok(())
    }

    fn label(&self, key: &Word) -> Done {
        if self.labels == [true; 2] {
            let line = self.cannot_set(match self.name {
                "mpls" => r#""mpls_label", "mpls_tc", "mpls_bos" or "mpls_ttl" is set"#,
                _ => r#""mpls" is set"#,
            });
            return Err(self.needs(key, "one way to say labels, not two").linux(line));
        }
        match self.said_kind() {
            0x8847 | 0x8848 => Ok(()),
            _ => {
                let line = self.cannot_set("ethertype isn't MPLS");
                Err(self.needs(key, "protocol mpls_uc or mpls_mc").linux(line))
            }
        }
    }

    /// Requires that an entry exists.
    fn entry(&mut self, depth: u8) {
        let (value, mask) = self.rule.get(Field::LSES).unwrap_or_default();
        let bit = 1 << (depth - 1);
        self.rule.set(Field::LSES, value | bit, mask | bit);
    }

    /// Reads a part of an entry.
    fn lse(&mut self, depth: u8, part: &str, value: &Word) -> Done {
        let Some((field, (_, shift, whole))) =
            Field::lse(depth).zip(LSE.iter().find(|(name, ..)| *name == part).copied())
        else {
            return Ok(());
        };
        let number = decimal(&value.text).filter(|n| *n <= whole.into());
        let number = number.ok_or_else(|| self.wrong(value, &format!("a number up to {whole}")))?;
        let (old, mask) = self.rule.get(field).unwrap_or_default();
        let bits = u128::from(whole) << shift;
        self.rule.set(field, old & !bits | u128::from(number) << shift, mask | bits);
        self.entry(depth);
        Ok(())
    }

    /// Reads `lse depth N label L ... lse ...`
    fn stack(&mut self, key: &Word, words: &[Word]) -> Done {
        self.labels[1] = true;
        self.label(key)?;
        for entry in words.split(|w| w.text == "lse").filter(|entry| !entry.is_empty()) {
            let pairs = || entry.chunks_exact(2);
            let Some(depth) = pairs().find(|pair| pair[0].text == "depth").map(|pair| &pair[1]) else {
                let err = self.said.error(code::MISSING, key, "an entry of a label stack needs its depth");
                return Err(Failure::usage(err).linux(Sentence::Required("depth")));
            };
            self.name = "depth";
            let number = match decimal(&depth.text).and_then(|n| u8::try_from(n).ok()) {
                Some(n) if DEPTHS.contains(&n) => n,
                Some(0) | None => return Err(self.wrong(depth, "a depth from 1 to 7")),
                Some(_) => {
                    let message = format!("labels are looked at down to depth {}", DEPTHS.end());
                    let err = self.said.error(code::OUT_OF_RANGE, depth, message);
                    return Err(Failure::refused(err).linux(kernel::MPLS_DEPTH));
                }
            };
            self.entry(number);
            for pair in pairs().filter(|pair| pair[0].text != "depth") {
                self.name = LSE.iter().find(|(name, ..)| *name == pair[0].text).map_or("", |(name, ..)| name);
                self.lse(number, &pair[0].text, &pair[1])?;
            }
        }
        Ok(())
    }

    /// Completes the parts that depend on all words: the ethertype, and flags of TCP that only TCP
    /// has.
    fn finish(&mut self) {
        if let Some(kind) = self.kind() {
            self.set(Field::ETH_TYPE, (kind.into(), 0xffff));
        }
        if self.protocol == PPPOE {
            self.set(Field::PPPOE, (1, 1));
        }
        if self.ip_proto != Some(6) {
            self.set(Field::TCP_FLAGS, (0, 0));
        }
    }
}

/// tc's lines for a protocol of IP in packets of another ethertype.
const OTHER_ETHERTYPE: &str = "Illegal \"eth_type\" for ip proto\nIllegal \"ip_proto\"";

/// Returns tc's line for the word at `at` of a line, which is no address of any form: of a key that
/// does not fit the protocol, tc does not read the value.
pub(crate) fn address_line(protocol: u16, words: &[Word], at: usize) -> Option<Cow<'static, str>> {
    let before = words.get(..at)?;
    let value = words.get(at)?;
    let tag = |name: &str| {
        let pair = before.windows(2).rfind(|pair| pair[0].text == name)?;
        protocol::number(&pair[1].text)
    };
    let kind = tag("cvlan_ethtype").or_else(|| tag("vlan_ethtype")).unwrap_or(protocol);
    let key = before.last()?.text.as_str();
    let form = match (key, kind) {
        ("src_ip" | "dst_ip", ethertype::IPV4) => "inet prefix",
        ("src_ip" | "dst_ip", ethertype::IPV6) => "inet6 prefix",
        ("arp_sip" | "arp_tip", ethertype::ARP | RARP) => "inet prefix",
        ("src_ip" | "dst_ip" | "arp_sip" | "arp_tip", _) => return Some(Sentence::Illegal(key).into()),
        _ => return None,
    };
    Some(Sentence::Rather(form, &value.text).into())
}

/// Returns the ethertype of the protocol in a session of PPPoE.
fn ppp_kind(number: u16) -> Option<u16> {
    let (_, name) = PPP.iter().find(|(ppp, _)| *ppp == number)?;
    protocol::number(name)
}

const MAC: &str = "an address (02:00:00:00:00:01), address/bits or address/mask";
