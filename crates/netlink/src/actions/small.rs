//! csum, sample and simple.

use txweir_core::classify::action::{Csum, Sample, Simple};

use super::{Asked, Form, Found, Links, Shown, pair};
use crate::refusal::Refusal;
use crate::wire::Writer;

pub(super) const CSUM: Form = Form { kind: "csum", parms: (1, 24), times: 2, known: &[3], read: read_csum };

/// Checksums in the order of their bits.
const SUMS: [&str; 7] = ["iph", "icmp", "igmp", "tcp", "udp", "udplite", "sctp"];

fn read_csum(asked: &Asked<'_>, _: Links<'_>) -> Found {
    let bits = asked.parms.u32(20);
    if bits == 0 {
        return Ok(None);
    }
    if bits >> SUMS.len() != 0 {
        return Err(Refusal::invalid(format!("action csum: expected bits of 1 to 127, given {bits}")));
    }
    let named = SUMS.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 != 0);
    let mut words: Vec<String> = named.map(|(_, name)| (*name).to_string()).collect();
    words.extend(asked.control()?);
    Ok(Some(words))
}

pub(super) fn write_csum(csum: &Csum, shown: &Shown<'_>, w: &mut Writer) {
    let Csum { iph, icmp, igmp, tcp, udp, udplite, sctp } = *csum;
    let on = [iph, icmp, igmp, tcp, udp, udplite, sctp];
    let bits = on.iter().enumerate().fold(0, |bits, (bit, on)| bits | u32::from(*on) << bit);
    shown.parms(1, &[bits], w);
}

const RATE: u16 = 3;
const TRUNC: u16 = 4;
const GROUP: u16 = 5;

pub(super) const SAMPLE: Form =
    Form { kind: "sample", parms: (2, 20), times: 1, known: &[RATE, TRUNC, GROUP, 6], read: read_sample };

fn read_sample(asked: &Asked<'_>, _: Links<'_>) -> Found {
    let mut words = Vec::new();
    for (key, number) in [("rate", RATE), ("group", GROUP), ("trunc", TRUNC)] {
        words.extend(asked.all.u32(number)?.into_iter().flat_map(|n| pair(key, n)));
    }
    if words.is_empty() {
        return Ok(None);
    }
    words.extend(asked.control()?);
    Ok(Some(words))
}

pub(super) fn write_sample(sample: Sample, shown: &Shown<'_>, w: &mut Writer) {
    shown.parms(2, &[], w);
    w.u32(RATE, sample.rate());
    sample.trunc().into_iter().for_each(|size| w.u32(TRUNC, size));
    w.u32(GROUP, sample.group());
}

const DATA: u16 = 3;

pub(super) const SIMPLE: Form =
    Form { kind: "simple", parms: (2, 20), times: 1, known: &[DATA, 4], read: read_simple };

/// Longest text that a message may have. The engine's own bound is below.
const TEXT_MAX: usize = 255;

fn read_simple(asked: &Asked<'_>, _: Links<'_>) -> Found {
    let Some(text) = asked.all.text(DATA, TEXT_MAX)? else { return Ok(None) };
    let mut words = Vec::from(pair("sdata", text));
    words.extend(asked.control()?);
    Ok(Some(words))
}

pub(super) fn write_simple(simple: &Simple, shown: &Shown<'_>, w: &mut Writer) {
    shown.parms(2, &[], w);
    w.text(DATA, simple.text());
}
