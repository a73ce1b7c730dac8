//! Properties of a kind of qdisc that rules ask for: its classes, its limit, the target of its AQM.
//! Those of the engine's kinds come from their declarations, those of other kinds from their pages
//! of tc(8).

use txweir_core::sched::discipline::Filtered;
use txweir_core::sched::spec::{ClassShape, Spec, Unset};
use txweir_core::text::value::{Json, Quantity, Show, Value, Words, text_of};
use txweir_core::{Env, Nanos};
use txweir_tc::language::Settings;

use super::CheckOptions;
use super::model::Qdisc;

/// The classes that a qdisc of a kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Classes {
    /// None to which a qdisc or a filter could be attached.
    None,
    /// Classes made by lines.
    Made,
    /// Classes from 1 to this number.
    Upto(u64),
    /// Classes of an unknown number, which depends on the device or the packets.
    Any,
}

/// The limit of a qdisc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// A limit in bytes.
    Bytes(u64),
    /// A limit in packets.
    Packets(u64),
}

/// Returns the classes of a qdisc with these settings.
pub(super) fn classes(name: &str, spec: Option<&Spec>, settings: &Settings) -> Classes {
    let queues = || settings.queues("queues").iter().map(|q| q.value.0.saturating_add(q.value.1)).max();
    let Some(spec) = spec else {
        return match name {
            "noqueue" | "noop" | "teql0" => Classes::None,
            _ => Classes::Any,
        };
    };
    match spec.shape {
        ClassShape::Made => Classes::Made,
        ClassShape::One => Classes::Upto(1),
        ClassShape::Bands => {
            let said = settings.number("bands").map(|n| n.value);
            let on = |queues| resolved(spec, settings, "bands", &Env { queues, ..Env::default() });
            let (one, two) = (on(1), on(2));
            if said.is_none() && one != two {
                // The number of bands is that of the device's queues.
                return Classes::Any;
            }
            let bands = said.or(one).or_else(|| default(spec, "bands"));
            bands.map_or(Classes::Any, Classes::Upto)
        }
        // Its classes are all queues of the device, those too that no traffic class has.
        ClassShape::ByQueue if spec.kind == "taprio" => Classes::Any,
        ClassShape::ByQueue => queues().map_or(Classes::Any, Classes::Upto),
        // Filters choose among numbered flows, which have no qdiscs of their own.
        ClassShape::Leaf if spec.filters != Filtered::No => Classes::Any,
        ClassShape::Leaf => Classes::None,
    }
}

/// True if all classes of a kind are the device's queues, whose number no line gives.
pub(super) fn is_for_queues(spec: Option<&Spec>) -> bool {
    spec.is_some_and(|s| s.shape == ClassShape::ByQueue && !s.params.iter().any(|p| p.key == "queues"))
}

/// True if a kind has no classes.
pub(super) fn is_leaf(spec: Option<&Spec>) -> bool {
    spec.is_some_and(|s| s.shape == ClassShape::Leaf)
}

/// Returns the limit of a qdisc.
pub(super) fn held(qdisc: &Qdisc, options: &CheckOptions) -> Held {
    let (name, settings) = (qdisc.kind.as_str(), &qdisc.settings);
    let limit = settings.number("limit").map(|n| n.value);
    let queue = u64::from(options.txqueuelen);
    let spec = match (name, qdisc.spec) {
        ("cake" | "cake_mq", spec) => {
            let limit = settings.bytes("memlimit").map(|limit| limit.value.0);
            return Held::Bytes(limit.unwrap_or_else(|| cake_memory(spec, settings, options)));
        }
        ("gred", _) => {
            let all = queue.saturating_mul(options.frame());
            return Held::Bytes(settings.bytes("limit").map_or(all, |limit| limit.value.0));
        }
        (_, Some(spec)) => spec,
        ("noqueue" | "noop", None) => return Held::Packets(0),
        (_, None) => return Held::Packets(limit.unwrap_or(queue)),
    };
    let unit = |key: &str| spec.params.iter().find(|p| p.key == key).map(|p| p.quantity);
    for key in spec.capacity.keys {
        match unit(key) {
            Some(Quantity::Bytes) => {
                if let Some(limit) = settings.bytes(key) {
                    return Held::Bytes(limit.value.0);
                }
            }
            _ => {
                if let Some(limit) = settings.number(key) {
                    return Held::Packets(limit.value);
                }
            }
        }
    }
    let last = spec.capacity.keys.last().copied();
    let in_bytes = last.and_then(unit) == Some(Quantity::Bytes);
    let env = Env { mtu: options.mtu, tx_queue_len: options.txqueuelen, ..Env::default() };
    let default = last.and_then(|key| default_on(spec, key, &env)).filter(|n| *n > 0);
    match (default, spec.capacity.unset) {
        (Some(n), _) if in_bytes => Held::Bytes(n),
        (Some(n), _) => Held::Packets(n),
        (None, Unset::Packets(n)) => Held::Packets(n.into()),
        (None, Unset::Queues(n)) if in_bytes => {
            Held::Bytes(queue.saturating_mul(n.into()).saturating_mul(options.frame()))
        }
        (None, Unset::Queues(n)) => Held::Packets(queue.saturating_mul(n.into())),
    }
}

/// Returns the target of a qdisc's AQM.
pub(super) fn target(qdisc: &Qdisc) -> Option<Nanos> {
    let default = match qdisc.kind.as_str() {
        "cake" | "cake_mq" => cake_target(qdisc.spec, &qdisc.settings),
        _ => {
            let spec = qdisc.spec?;
            let mut target = None;
            spec.defaults(&Env::default(), &mut |o| {
                if o.param.key == "target" && o.param.quantity == Quantity::Time {
                    // The text is as tc prints it: some laws count in ticks of their own, a little
                    // below the given value.
                    target = Nanos::take(&mut Words::new(&[&text_of(o.value)])).ok();
                }
            });
            target?
        }
    };
    Some(qdisc.settings.time("target").map_or(default, |t| t.value))
}

/// Returns the target of cake: a twentieth of the round trip, and at least the time of one and a
/// half packets of 1514 bytes at its rate (docs/qdisc/cake.md).
fn cake_target(spec: Option<&Spec>, settings: &Settings) -> Nanos {
    let packets = settings.rate("bandwidth").filter(|r| r.value.0 > 0);
    let packets = packets.map_or(0, |r| r.value.time_ceil(CAKE_TARGET_BYTES).0);
    Nanos((cake_rtt(spec, settings).0 / 20).max(packets))
}

/// Returns the memory of cake: four times the bytes of its rate in a round trip, at least 4 MiB
/// (tc-cake(8)), and at most 10240 full frames, which an unlimited one has.
fn cake_memory(spec: Option<&Spec>, settings: &Settings, options: &CheckOptions) -> u64 {
    let most = CAKE_FRAMES.saturating_mul(options.frame());
    let Some(rate) = settings.rate("bandwidth").filter(|r| r.value.0 > 0) else { return most };
    let rtt = u128::from(cake_rtt(spec, settings).0);
    let bytes = (4 * u128::from(rate.value.0)).saturating_mul(rtt) / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX).clamp(CAKE_LEAST.min(most), most)
}

/// Returns the round trip for which a cake is made.
fn cake_rtt(spec: Option<&Spec>, settings: &Settings) -> Nanos {
    let words: Vec<&str> = settings.all_words().iter().map(|w| w.text.as_str()).collect();
    let mut rtt = None;
    if let Some(Ok(cake)) = spec.map(|spec| spec.read(&mut Words::new(&words), &Env::default())) {
        cake.options(&mut |o| {
            if o.param.key == "rtt" {
                let text = text_of(o.value);
                let time = text.split(' ').next_back().unwrap_or("");
                rtt = Nanos::take(&mut Words::new(&[time])).ok();
            }
        });
    }
    rtt.unwrap_or(Nanos::from_millis(100))
}

/// One and a half frames of 1514 bytes.
const CAKE_TARGET_BYTES: u64 = 2271;
/// Least memory of a cake without `memlimit`, bytes.
const CAKE_LEAST: u64 = 4 << 20;
/// Most full frames of a cake without `memlimit`.
const CAKE_FRAMES: u64 = 10_240;

/// Returns the number of a parameter after the settings, on such a device.
fn resolved(spec: &Spec, settings: &Settings, key: &str, env: &Env) -> Option<u64> {
    let words: Vec<&str> = settings.all_words().iter().map(|w| w.text.as_str()).collect();
    let mut n = None;
    spec.read(&mut Words::new(&words), env).ok()?.options(&mut |o| {
        if o.param.key == key {
            n = number(o.value);
        }
    });
    n
}

/// Returns the default number of a parameter.
fn default(spec: &Spec, key: &str) -> Option<u64> {
    default_on(spec, key, &Env::default())
}

fn default_on(spec: &Spec, key: &str, env: &Env) -> Option<u64> {
    let mut n = None;
    spec.defaults(env, &mut |o| {
        if o.param.key == key && o.value.is_set() {
            n = number(o.value);
        }
    });
    n
}

fn number(value: &dyn Show) -> Option<u64> {
    match value.json() {
        Json::Uint(n) => Some(n),
        Json::Text(text) => text.parse().ok(),
        _ => None,
    }
}
