//! tbf: `struct tc_tbf_qopt`, and wide numbers beside it.

use txweir_core::Rate;
use txweir_core::base::units::RateMul;
use txweir_core::law::bucket::TICK_NS;

use super::bucket::{LEN, RateSpec, bytes_of};
use super::fixed::bytes;
use super::{Words, pair};
use crate::given::Given;
use crate::refusal::Refusal;
use crate::wire::{Attributes, Writer, u32_of};

const PARMS: u16 = 1;
const RTAB: u16 = 2;
const PTAB: u16 = 3;
const RATE64: u16 = 4;
const PRATE64: u16 = 5;
const BURST: u16 = 6;
const PBURST: u16 = 7;
const PAD: u16 = 8;

pub(super) fn read(options: &[u8]) -> Words {
    let all = Attributes::read(options, "tbf")?;
    // The tables of times per size, which older kernels needed, follow from the rates.
    all.only(&[PARMS, RTAB, PTAB, RATE64, PRATE64, BURST, PBURST, PAD])?;
    let Some(r) = all.record(PARMS, 2 * LEN + 12)? else {
        return Err(Refusal::invalid("tbf: attribute 1, its parameters, is missing"));
    };
    let rate = RateSpec::read(r, 0, all.u64(RATE64)?);
    let peak = RateSpec::read(r, LEN, all.u64(PRATE64)?);
    let (limit, buffer, mtu) = (r.u32(2 * LEN), r.u32(2 * LEN + 4), r.u32(2 * LEN + 8));
    let size = |given: Option<u32>, rate: u64, ticks| given.map_or_else(|| bytes_of(rate, ticks), u64::from);
    let mut words = Vec::from(pair("rate", format!("{}bps", rate.rate)));
    words.extend(pair("burst", bytes(size(all.u32(BURST)?, rate.rate, buffer))));
    words.extend(pair("limit", bytes(limit.into())));
    if peak.rate > 0 {
        words.extend(pair("peakrate", format!("{}bps", peak.rate)));
        words.extend(pair("mtu", bytes(size(all.u32(PBURST)?, peak.rate, mtu))));
    }
    words.extend(rate.words());
    Ok(words)
}

pub(super) fn write(given: &Given, w: &mut Writer) {
    let atm = given.exact("linklayer") == "atm";
    let (overhead, mpu) = (given.number("overhead"), given.number("mpu"));
    let spec = |rate| RateSpec {
        atm,
        overhead: u16::try_from(overhead).unwrap_or(u16::MAX),
        mpu: u16::try_from(mpu).unwrap_or(u16::MAX),
        rate,
    };
    let (rate, peak) = (spec(given.number("rate")), spec(given.number("peakrate")));
    // A bucket holds what its size is charged.
    let charged = |size: u64| {
        let size = size.saturating_add(overhead).max(mpu);
        if atm { size.div_ceil(48).saturating_mul(53) } else { size }
    };
    let ticks = |rate: u64, size: u64| match rate {
        0 => 0,
        rate => u32_of(RateMul::new(Rate(rate)).time_floor(charged(size)).0 / TICK_NS),
    };
    w.nest(PARMS, |w| {
        rate.write(w);
        match peak.rate {
            0 => w.put(&[0; LEN]),
            _ => peak.write(w),
        }
        let buffer = ticks(rate.rate, given.number("burst"));
        w.put_all(&[given.u32("limit"), buffer, ticks(peak.rate, given.number("mtu"))]);
    });
    for (number, spec) in [(RATE64, rate), (PRATE64, peak)] {
        if let Some(wide) = spec.wide() {
            w.u64(number, wide);
        }
    }
}
