//! police: `struct tc_police`, and wide numbers beside it.

use txweir_core::base::link::LinkLayer;
use txweir_core::classify::action::Police;
use txweir_core::law::bucket;
use txweir_core::{Bytes, Rate};

use super::{Asked, Form, Found, Links, Shown, control_code, control_words, pair};
use crate::options::bucket::{LEN, RateSpec, bytes_of};
use crate::refusal::Refusal;
use crate::wire::{Writer, u32_of};

const PARMS: u16 = 1;
const RATE_TABLE: u16 = 2;
const PEAK_TABLE: u16 = 3;
const AVRATE: u16 = 4;
const RESULT: u16 = 5;
const TIMES: u16 = 6;
const PAD: u16 = 7;
const RATE64: u16 = 8;
const PEAKRATE64: u16 = 9;
const PACKETS: u16 = 10;
const PACKETS_BURST: u16 = 11;
/// Offsets in the struct.
pub(super) const CONTROL: usize = 4;
const BURST: usize = 12;
const MTU: usize = 16;
const RATE: usize = 20;
const PEAK: usize = RATE + LEN;
pub(super) const HOLDERS: usize = PEAK + LEN;

pub(super) const FORM: Form = Form {
    kind: "police",
    parms: (PARMS, PEAK + LEN + 8),
    times: TIMES,
    known: &[RATE_TABLE, PEAK_TABLE, AVRATE, RESULT, PAD, RATE64, PEAKRATE64, PACKETS, PACKETS_BURST],
    read,
};

/// Returns the least size that takes this time at a rate: tc sends the time alone, in ticks that it
/// has made of whole microseconds.
fn size_of(rate: u64, ticks: u32) -> u64 {
    let us = (u128::from(ticks) * u128::from(bucket::TICK_NS)).div_ceil(1_000);
    let least = u64::try_from((us * u128::from(rate)).div_ceil(1_000_000)).unwrap_or(u64::MAX);
    let is_it = |size: &u64| bucket::ticks(Rate(rate), Bytes(*size)) == ticks;
    // The division in floating point may fall short of the microsecond.
    let near = [least, least.saturating_add(1)];
    near.into_iter().find(is_it).unwrap_or_else(|| bytes_of(rate, ticks))
}

fn read(asked: &Asked<'_>, _: Links<'_>) -> Found {
    let (all, parms) = (&asked.all, asked.parms);
    let rate = RateSpec::read(parms, RATE, all.u64(RATE64)?);
    let peak = RateSpec::read(parms, PEAK, all.u64(PEAKRATE64)?);
    let (burst, mtu, average) = (parms.u32(BURST), parms.u32(MTU), all.u32(AVRATE)?.unwrap_or(0));
    let (packets, packets_burst) = (all.u64(PACKETS)?.unwrap_or(0), all.u64(PACKETS_BURST)?.unwrap_or(0));
    if rate.rate == 0 && packets == 0 && mtu == 0 && average == 0 && parms.u32(0) != 0 {
        return Ok(None);
    }
    let mut words = Vec::new();
    let mut add = |key: &str, value: String, is: bool| {
        if is {
            words.extend(pair(key, value));
        }
    };
    add("rate", format!("{}bps", rate.rate), rate.rate > 0);
    add("burst", format!("{}b", size_of(rate.rate, burst)), rate.rate > 0);
    add("pkts_rate", packets.to_string(), packets > 0);
    add("pkts_burst", size_of(packets, u32_of(packets_burst)).to_string(), packets > 0);
    add("avrate", format!("{average}bps"), average > 0);
    add("mtu", format!("{mtu}b"), mtu > 0);
    add("peakrate", format!("{}bps", peak.rate), peak.rate > 0);
    words.extend(rate.words());
    let exceed = asked.control()?;
    let conform = match all.u32(RESULT)? {
        None | Some(0) => Vec::new(),
        Some(code) => control_words(code.cast_signed())?,
    };
    words.push("conform-exceed".into());
    words.extend(match (&exceed[..], &conform[..]) {
        (_, []) => exceed,
        ([exceed], [first, rest @ ..]) => {
            std::iter::once(format!("{exceed}/{first}")).chain(rest.iter().cloned()).collect()
        }
        _ => {
            let text = "action police: a jump or a chain for packets that exceed goes with no other control";
            return Err(Refusal::unsupported(text));
        }
    });
    Ok(Some(words))
}

pub(super) fn write(police: &Police, shown: &Shown<'_>, w: &mut Writer) {
    let config = police.config();
    let sizing = config.sizing;
    let short = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
    let spec = |rate: u64| RateSpec {
        atm: sizing.layer == LinkLayer::Atm,
        overhead: short(sizing.overhead),
        mpu: short(sizing.mpu),
        rate,
    };
    let rate = spec(config.rate.0);
    let peak = config.peakrate.filter(|rate| rate.0 > 0).map(|rate| spec(rate.0));
    let burst = if rate.rate > 0 { bucket::ticks(config.rate, config.burst) } else { 0 };
    let [refs, binds] = shown.holders();
    let control = control_code(shown.entry.action.control).cast_unsigned();
    w.nest(PARMS, |w| {
        w.put_all(&[shown.entry.index, control, 0, burst, police.mtu()]);
        match rate.rate {
            0 => w.put(&[0; LEN]),
            _ => rate.write(w),
        }
        match peak {
            None => w.put(&[0; LEN]),
            Some(peak) => peak.write(w),
        }
        w.put_all(&[refs, binds, 0]);
    });
    rate.wide().into_iter().for_each(|wide| w.u64(RATE64, wide));
    peak.and_then(|peak| peak.wide()).into_iter().for_each(|wide| w.u64(PEAKRATE64, wide));
    if let Some((packets, burst)) = config.packets {
        w.u64(PACKETS, packets);
        w.u64(PACKETS_BURST, bucket::ticks(Rate(packets), Bytes(burst)).into());
    }
    if control_code(config.conform) != 0 {
        w.u32(RESULT, control_code(config.conform).cast_unsigned());
    }
    if let Some(average) = config.average {
        w.u32(AVRATE, u32_of(average.rate.0));
    }
}
