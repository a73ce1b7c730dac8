//! RED on each flow of sfq: an average per flow, all under the same parameters.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::{Config, Sfq};
use crate::base::chance::Probability;
use crate::base::time::{Instant, Nanos};
use crate::base::units::Bytes;
use crate::law::red::{
    IdleTable, RedAction, RedError, RedParams, RedState, probability_of_one, weight_for_burst,
};
use crate::qdisc::red::reason_of;
use crate::sched::cx::Cx;
use crate::sched::discipline::Discipline;
use crate::text::error::{ConfigError, ErrorKind, Object};
use crate::text::value::exact_of;

/// Default size of an average packet (tc-sfq(8)).
const AVPKT: Bytes = Bytes(1000);
/// Default chance of a mark just below `max`: 0.02 (tc-sfq(8)), in units of 2^-32.
const PROBABILITY: Probability = Probability(85_899_345);

/// The averages of all slots.
#[derive(Debug)]
pub struct Red {
    params: RedParams,
    flows: Vec<RedState>,
    ecn: bool,
    harddrop: bool,
}

impl Red {
    /// Returns the averages that `cfg` asks for; `None` without RED. `resolve` has accepted the
    /// same values.
    pub fn of(cfg: &Config) -> Option<Self> {
        let params = params(cfg)?.ok()?;
        let flows = alloc::vec![RedState::new(&params, Instant::ZERO); cfg.flows as usize];
        Some(Self { params, flows, ecn: cfg.ecn, harddrop: cfg.harddrop })
    }
    /// Begins a flow in this slot.
    pub fn begin(&mut self, slot: u32, now: Instant) {
        self.flows[slot as usize] = RedState::new(&self.params, now);
    }
    /// Decides about a packet that comes to the flow in this slot, in which `bytes` wait.
    pub fn on_arrival(&mut self, slot: u32, bytes: u64, cx: &mut Cx) -> RedAction {
        self.flows[slot as usize].on_arrival(&self.params, bytes, cx.now, &mut cx.rng)
    }
    /// True if a mark may replace a drop.
    pub const fn marks(&self, forced: bool) -> bool {
        self.ecn && !(forced && self.harddrop)
    }
}

/// Completes the parameters of RED: afterwards all are given, or none.
pub fn resolve(cfg: &mut Config) -> Result<(), ConfigError> {
    let Some(limit) = cfg.redflowlimit else {
        let said = [
            ("min", cfg.min.is_some()),
            ("max", cfg.max.is_some()),
            ("avpkt", cfg.avpkt.is_some()),
            ("burst", cfg.burst.is_some()),
            ("probability", cfg.probability.is_some()),
            ("ecn", cfg.ecn),
            ("harddrop", cfg.harddrop),
        ];
        return match said.iter().find(|(_, said)| *said) {
            None => Ok(()),
            Some((key, _)) => {
                let expected = alloc::format!("a size, because {key} is of RED, which it turns on");
                Err(ConfigError::new(ErrorKind::Missing, Object::Kind(Sfq::KIND), expected, "")
                    .key("redflowlimit"))
            }
        };
    };
    // The defaults of tc-sfq(8).
    let max = *cfg.max.get_or_insert(Bytes(limit.0 / 4));
    let min = *cfg.min.get_or_insert(Bytes(max.0 / 3));
    let avpkt = *cfg.avpkt.get_or_insert(AVPKT);
    let conflict = |key: &str, expected: &str, given: Bytes| {
        Err(ConfigError::new(ErrorKind::Conflict, Object::Kind(Sfq::KIND), expected, exact_of(&given))
            .key(key))
    };
    if max > limit {
        return conflict("max", "at most redflowlimit", max);
    }
    if min >= max {
        return conflict("min", "less than max", min);
    }
    let burst = (2 * min.0 + max.0) / (3 * avpkt.0.max(1));
    cfg.burst.get_or_insert(u32::try_from(burst).unwrap_or(u32::MAX));
    cfg.probability.get_or_insert(PROBABILITY);
    if let Some(params) = params(cfg) {
        cfg.probability = Some(Probability(params?.probability().into()));
    }
    Ok(())
}

/// Returns the law's parameters; `None` without RED.
fn params(cfg: &Config) -> Option<Result<RedParams, ConfigError>> {
    cfg.redflowlimit?;
    let bits32 = |b: Option<Bytes>| b.and_then(|b| u32::try_from(b.0).ok());
    let (min, max, avpkt) = (bits32(cfg.min)?, bits32(cfg.max)?, bits32(cfg.avpkt)?);
    let (burst, probability) = (cfg.burst?, cfg.probability?);
    let refused = |key: &str, e: RedError| {
        let given = match key {
            "burst" => burst.to_string(),
            "probability" => exact_of(&probability),
            _ => exact_of(&Bytes(max.into())),
        };
        let err = ConfigError::new(ErrorKind::OutOfRange, Object::Kind(Sfq::KIND), e, given).key(key);
        ConfigError { reason: reason_of(e), ..err }
    };
    let wlog = match weight_for_burst(min, burst, avpkt) {
        Ok(wlog) => wlog,
        Err(e) => return Some(Err(refused("burst", e))),
    };
    let probability = match u32::try_from(probability.0) {
        // The kernel has no form for a probability below one in 2^31 for each byte between the two.
        _ if probability.0 << 31 <= u64::from(max.saturating_sub(min)) << 32 => {
            return Some(Err(refused("probability", RedError::NoProbability)));
        }
        Ok(p) => p,
        Err(_) => probability_of_one(max - min),
    };
    // No flow is ever idle: it ends with its last packet. The table is not read.
    let idle = IdleTable::new(wlog, Nanos::from_micros(1));
    let law = RedParams::new(min, max, wlog, probability, idle);
    Some(law.map_err(|e| refused(if e == RedError::NoProbability { "probability" } else { "max" }, e)))
}
