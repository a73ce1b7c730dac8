//! tbf as tc prints it: the buckets as packets are charged for them, overhead, minimum and cells
//! included, in the grain of the kernel's clock and of tc's microseconds; the limit as the latency
//! that it amounts to once the bucket is empty.

use txweir_core::base::units::RateMul;
use txweir_core::law::bucket::{TICK_NS, shown_size};
use txweir_core::sched::erased::Qdisc;
use txweir_core::text::value::{Json, text_of};
use txweir_core::{Bytes, Rate};

use super::{Form, Printed, rate, time};

/// A bucket in the kernel's and in tc's units.
struct Bucket {
    rate: Rate,
    /// Its depth as a time, ticks.
    ticks: u64,
}

impl Bucket {
    /// Returns the time that tc computes of it, whole microseconds.
    const fn micros(&self) -> u64 {
        self.ticks * TICK_NS / 1_000
    }
    /// Returns the size that tc computes of that time.
    fn size(&self) -> Bytes {
        shown_size(self.rate, self.ticks)
    }
    /// Returns the time in which `limit` drains once the bucket is empty, microseconds, as tc
    /// computes it: in floating point, the division first, so that a whole number may come out just
    /// below.
    fn latency(&self, limit: u64) -> f64 {
        1e6 * (limit as f64 / self.rate.0.max(1) as f64) - self.micros() as f64
    }
}

pub(super) fn options(qdisc: &dyn Qdisc, form: &Form) -> Vec<Printed> {
    let mut given = Vec::new();
    qdisc.options(&mut |o| {
        if o.value.is_set() {
            given.push((o.param.key, o.value.json()));
        }
    });
    let number = |key: &str| match given.iter().find(|(k, _)| *k == key) {
        Some((_, Json::Uint(n))) => Some(*n),
        _ => None,
    };
    let atm = given.contains(&("linklayer", Json::Text("atm".into())));
    let (overhead, mpu) = (number("overhead").unwrap_or(0), number("mpu").unwrap_or(0));
    let charged = |size: u64| {
        let size = size.saturating_add(overhead).max(mpu);
        if atm { size.div_ceil(48).saturating_mul(53) } else { size }
    };
    let bucket = |rate: u64, size: u64| {
        let rate = Rate(rate);
        Bucket { rate, ticks: RateMul::new(rate).time_floor(charged(size)).0 / TICK_NS }
    };
    let limit = number("limit").unwrap_or(0);
    let burst = bucket(number("rate").unwrap_or(0), number("burst").unwrap_or(0));
    let peak = number("peakrate").map(|peak| bucket(peak, number("mtu").unwrap_or(0)));

    let mut printed = vec![rate("rate", burst.rate, form)];
    push_bucket(&mut printed, "burst", &burst, mpu, form);
    if let Some(peak) = &peak {
        // tc leaves this out of JSON.
        printed.push(Printed { json: None, ..rate("peakrate", peak.rate, form) });
        // A bucket of less than a tick is not printed, unless there is a least size.
        if peak.ticks > 0 || mpu > 0 {
            push_bucket(&mut printed, if form.details { "mtu" } else { "minburst" }, peak, mpu, form);
        }
    }
    let latency = burst.latency(limit);
    let latency = peak.map_or(latency, |peak| latency.max(peak.latency(limit)));
    match latency >= 0.0 {
        true => {
            // Truncated, as in tc; a limit is below 2^32 and a rate at least 1, so it fits.
            printed.push(time("lat", latency as u64));
            if form.raw {
                let raw = Some(format!("limit {}", text_of(&Bytes(limit))));
                printed.push(Printed { key: "limit", text: raw, json: Some(Json::Uint(limit)) });
            }
        }
        false => printed.push(Printed::new("limit", &Bytes(limit))),
    }
    if overhead > 0 {
        let text = Some(format!("overhead {overhead}"));
        printed.push(Printed { key: "overhead", text, json: Some(Json::Uint(overhead)) });
    }
    if atm || form.details {
        let layer = if atm { "atm" } else { "ethernet" };
        let json = Some(Json::Text(layer.into()));
        printed.push(Printed { key: "linklayer", text: Some(format!("linklayer {layer}")), json });
    }
    if let Some((_, Json::Text(name))) = given.iter().find(|(k, _)| *k == "shared") {
        let json = Some(Json::Text(name.clone()));
        printed.push(Printed { key: "shared", text: Some(format!("shared {name}")), json });
    }
    printed
}

/// Adds a bucket: with details its cell size, which is always 1, and the smallest size; with raw
/// numbers its ticks.
fn push_bucket(printed: &mut Vec<Printed>, key: &'static str, bucket: &Bucket, mpu: u64, form: &Form) {
    let size = text_of(&bucket.size());
    if form.details {
        let cell = format!("{size}/1");
        let text = Some(format!("{key} {cell}"));
        printed.push(Printed { key, text, json: Some(Json::Text(cell)) });
        let text = Some(format!("mpu {}", text_of(&Bytes(mpu))));
        printed.push(Printed { key: "mpu", text, json: Some(Json::Uint(mpu)) });
    } else {
        printed.push(Printed::new(key, &bucket.size()));
    }
    if form.raw {
        let raw_key = if key == "burst" { "burst_raw" } else { "mtu_raw" };
        let text = Some(format!("[{:08x}]", bucket.ticks));
        printed.push(Printed { key: raw_key, text, json: Some(Json::Text(format!("{:x}", bucket.ticks))) });
    }
}
