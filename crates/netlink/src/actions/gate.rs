//! gate: `struct tc_gate`, and the schedule.

use txweir_core::classify::action::Gate;
use txweir_core::classify::action::gate::GateEntry;
use txweir_core::law::gates::ENTRIES_MAX;
use txweir_core::qdisc::etf::Clock;

use super::{Asked, Form, Found, Links, Shown, pair};
use crate::refusal::Refusal;
use crate::wire::{Attributes, Writer};

const PRIORITY: u16 = 4;
const ENTRIES: u16 = 5;
const BASE_TIME: u16 = 6;
const CYCLE_TIME: u16 = 7;
const CYCLE_TIME_EXT: u16 = 8;
const FLAGS: u16 = 9;
const CLOCK: u16 = 10;
/// The attribute of an entry in the list.
const ONE: u16 = 1;
/// Attributes of an entry.
const INDEX: u16 = 1;
const OPEN: u16 = 2;
const INTERVAL: u16 = 3;
const IPV: u16 = 4;
const OCTETS: u16 = 5;

pub(super) const FORM: Form = Form {
    kind: "gate",
    parms: (2, 20),
    times: 1,
    known: &[3, PRIORITY, ENTRIES, BASE_TIME, CYCLE_TIME, CYCLE_TIME_EXT, FLAGS, CLOCK],
    read,
};

/// Clocks by their numbers (`linux/time.h`).
const CLOCKS: [(i32, Clock); 4] =
    [(0, Clock::Realtime), (1, Clock::Monotonic), (7, Clock::Boottime), (11, Clock::Tai)];

fn read(asked: &Asked<'_>, _: Links<'_>) -> Found {
    let all = &asked.all;
    let mut words = Vec::new();
    words.extend(all.u32(PRIORITY)?.into_iter().flat_map(|n| pair("priority", n.cast_signed())));
    for (key, number) in
        [("base-time", BASE_TIME), ("cycle-time", CYCLE_TIME), ("cycle-time-ext", CYCLE_TIME_EXT)]
    {
        words.extend(all.u64(number)?.into_iter().flat_map(|n| pair(key, n)));
    }
    words.extend(all.u32(FLAGS)?.into_iter().flat_map(|n| pair("flags", n)));
    if let Some(number) = all.u32(CLOCK)?.map(u32::cast_signed) {
        let Some((_, clock)) = CLOCKS.iter().find(|(known, _)| *known == number) else {
            return Err(Refusal::invalid(format!("action gate: there is no clock {number}")));
        };
        words.extend(pair("clockid", clock.name()));
    }
    let entries = all.nested(ENTRIES)?;
    let listed: Vec<&[u8]> = entries.iter().filter(|a| a.number == ONE).map(|a| a.value).collect();
    if words.is_empty() && listed.is_empty() {
        return Ok(None);
    }
    if listed.len() > ENTRIES_MAX {
        let text = format!("action gate: expected at most {ENTRIES_MAX} entries, given {}", listed.len());
        return Err(Refusal::invalid(text));
    }
    for one in listed {
        words.extend(entry(one)?);
    }
    words.extend(asked.control()?);
    Ok(Some(words))
}

/// Returns the words of an entry.
fn entry(value: &[u8]) -> Result<Vec<String>, Refusal> {
    let all = Attributes::read(value, "action gate: entry")?;
    all.only(&[INDEX, OPEN, INTERVAL, IPV, OCTETS])?;
    let state = if all.bytes(OPEN).is_some() { "open" } else { "close" };
    let mut words = vec!["sched-entry".into(), state.into(), all.u32(INTERVAL)?.unwrap_or(0).to_string()];
    for number in [IPV, OCTETS] {
        words.push(all.u32(number)?.map_or(-1, u32::cast_signed).to_string());
    }
    Ok(words)
}

pub(super) fn write(gate: &Gate, shown: &Shown<'_>, w: &mut Writer) {
    let config = gate.config();
    let or_any = |value: Option<u32>| value.unwrap_or(u32::MAX);
    shown.parms(2, &[], w);
    w.u64(BASE_TIME, config.base_time);
    w.u64(CYCLE_TIME, config.cycle_time);
    w.u64(CYCLE_TIME_EXT, config.cycle_time_ext);
    let clock = CLOCKS.iter().find(|(_, known)| *known == config.clock).map_or(11, |(number, _)| *number);
    w.u32(CLOCK, clock.cast_unsigned());
    w.u32(FLAGS, config.flags);
    w.u32(PRIORITY, or_any(config.priority));
    w.nest(ENTRIES, |w| {
        for (index, GateEntry { open, ns, ipv, octets }) in (0..).zip(&config.entries) {
            w.nest(ONE, |w| {
                w.u32(INDEX, index);
                if *open {
                    w.bytes(OPEN, &[]);
                }
                w.u32(INTERVAL, *ns);
                w.u32(OCTETS, or_any(*octets));
                w.u32(IPV, or_any(*ipv));
            });
        }
    });
}
