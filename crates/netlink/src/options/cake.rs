//! cake: an attribute a setting, numbers for words.

use super::{Words, pair};
use crate::given::Given;
use crate::refusal::Refusal;
use crate::wire::{Attributes, Writer, u32_of};

const PAD: u16 = 1;
const BASE_RATE64: u16 = 2;
const DIFFSERV_MODE: u16 = 3;
const ATM: u16 = 4;
const FLOW_MODE: u16 = 5;
const OVERHEAD: u16 = 6;
const RTT: u16 = 7;
const TARGET: u16 = 8;
const AUTORATE: u16 = 9;
const MEMORY: u16 = 10;
const NAT: u16 = 11;
const RAW: u16 = 12;
const WASH: u16 = 13;
const MPU: u16 = 14;
const INGRESS: u16 = 15;
const ACK_FILTER: u16 = 16;
const SPLIT_GSO: u16 = 17;
const FWMARK: u16 = 18;

/// The words of a setting by their numbers; each setting with its key.
type Named = (u16, &'static str, &'static [&'static str]);

const NAMED: [Named; 7] = [
    (DIFFSERV_MODE, "diffserv", &["diffserv3", "diffserv4", "diffserv8", "besteffort", "precedence"]),
    (
        FLOW_MODE,
        "flowmode",
        &[
            "flowblind",
            "srchost",
            "dsthost",
            "hosts",
            "flows",
            "dual-srchost",
            "dual-dsthost",
            "triple-isolate",
        ],
    ),
    (NAT, "nat", &["nonat", "nat"]),
    (WASH, "wash", &["nowash", "wash"]),
    (INGRESS, "ingress", &["egress", "ingress"]),
    (ACK_FILTER, "ack_filter", &["no-ack-filter", "ack-filter", "ack-filter-aggressive"]),
    (SPLIT_GSO, "split_gso", &["no-split-gso", "split-gso"]),
];
/// The words of cells.
const CELLS: [&str; 3] = ["noatm", "atm", "ptm"];

/// Returns the word of a number.
fn word(key: &str, names: &'static [&'static str], n: u32) -> Result<String, Refusal> {
    let most = names.len().saturating_sub(1);
    let wrong = || Refusal::invalid(format!("cake {key}: expected 0 to {most}, given {n}"));
    let at = usize::try_from(n).unwrap_or(usize::MAX);
    names.get(at).map(|word| (*word).to_string()).ok_or_else(wrong)
}

pub(super) fn read(options: &[u8]) -> Words {
    let all = Attributes::read(options, "cake")?;
    let known: Vec<u16> = (PAD..=FWMARK).collect();
    all.only(&known)?;
    let mut words = Vec::new();
    match all.u64(BASE_RATE64)? {
        None => {}
        Some(0) => words.push("unlimited".into()),
        Some(rate) => words.extend(pair("bandwidth", format!("{rate}bps"))),
    }
    if all.u32(AUTORATE)?.is_some_and(|on| on != 0) {
        words.push("autorate-ingress".into());
    }
    for (number, key, names) in NAMED {
        if let Some(n) = all.u32(number)? {
            words.push(word(key, names, n)?);
        }
    }
    let rtt = all.u32(RTT)?;
    words.extend(rtt.iter().flat_map(|us| pair("rtt", format!("{us}us"))));
    if let Some(target) = all.u32(TARGET)? {
        let follows = rtt.map(|rtt| (rtt / 20).max(1));
        if follows != Some(target) {
            let text = format!("cake target: expected a twentieth of the rtt beside it, given {target}us");
            return Err(Refusal::unsupported(text));
        }
    }
    if all.bytes(RAW).is_some() {
        words.push("raw".into());
    }
    // `raw` ends cells and begins an overhead of its own, so that these come behind it.
    if let Some(r) = all.record(OVERHEAD, 4)? {
        words.extend(pair("overhead", r.i32(0)));
    }
    if let Some(n) = all.u32(ATM)? {
        words.push(word("atm", &CELLS, n)?);
    }
    if let Some(n) = all.u32(MPU)? {
        words.extend(pair("mpu", n));
    }
    if let Some(n) = all.u32(MEMORY)? {
        words.extend(pair("memlimit", format!("{n}b")));
    }
    if let Some(n) = all.u32(FWMARK)? {
        words.extend(pair("fwmark", format!("{n:#x}")));
    }
    Ok(words)
}

/// Returns the number behind a word of a text.
fn behind<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut words = text.split(' ');
    words.find(|word| *word == key)?;
    words.next()
}

/// Returns the number at the beginning of a word such as `100000us`.
fn number(word: Option<&str>) -> Option<u64> {
    word?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

pub(super) fn write(given: &Given, w: &mut Writer) {
    let bandwidth = given.exact("bandwidth");
    w.u64(BASE_RATE64, number(behind(bandwidth, "bandwidth")).unwrap_or(0));
    for (number, key, names) in NAMED {
        let word = given.exact(key);
        let at = names.iter().position(|name| *name == word).unwrap_or(0);
        w.u32(number, u32_of(at as u64));
    }
    let rtt = u32_of(number(behind(given.exact("rtt"), "rtt")).unwrap_or(0));
    w.u32(RTT, rtt);
    w.u32(TARGET, (rtt / 20).max(1));
    w.u32(AUTORATE, bandwidth.ends_with("autorate-ingress").into());
    if let Some(limit) = number(behind(given.exact("memlimit"), "memlimit")) {
        w.u32(MEMORY, u32_of(limit));
    }
    let framing = given.exact("framing");
    let overhead: i32 = behind(framing, "overhead").and_then(|n| n.parse().ok()).unwrap_or(0);
    w.bytes(OVERHEAD, &overhead.to_ne_bytes());
    if framing.starts_with("raw ") {
        w.u32(RAW, 0);
    }
    let cells = CELLS.iter().position(|cells| framing.split(' ').any(|word| word == *cells)).unwrap_or(0);
    w.u32(ATM, u32_of(cells as u64));
    w.u32(MPU, u32_of(number(behind(framing, "mpu")).unwrap_or(0)));
    let mask = behind(given.exact("fwmark"), "fwmark").and_then(|mask| mask.strip_prefix("0x"));
    if let Some(mask) = mask.and_then(|mask| u32::from_str_radix(mask, 16).ok()) {
        w.u32(FWMARK, mask);
    }
}
