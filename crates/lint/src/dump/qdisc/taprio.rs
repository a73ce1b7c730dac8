//! The options of taprio: its classes, and its schedule.

use super::super::json::Value;
use super::super::members::Members;
use super::{Done, push};

/// Adds the options in the words of tc.
pub(super) fn words(o: &mut Members<'_>, out: &mut String) -> Done {
    push(out, "num_tc", &o.need_uint("tc")?.to_string());
    if let Some(map) = o.numbers("map")? {
        push(out, "map", &map.iter().map(u64::to_string).collect::<Vec<_>>().join(" "));
    }
    let number = |value: &Value, key: &str| match value {
        Value::Object(members) => members.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone()),
        _ => None,
    };
    let pair = |o: &Members<'_>, list: &'static str, row: &Value, keys: [&str; 2]| {
        let word = |key: &str| match number(row, key) {
            Some(Value::Text(text) | Value::Number(text)) => Ok(text),
            _ => Err(o.wrong(list, "objects with numbers", row)),
        };
        Ok((word(keys[0])?, word(keys[1])?))
    };
    let mut ranges = Vec::new();
    for row in o.list("queues")?.unwrap_or_default() {
        let (offset, count) = pair(o, "queues", row, ["offset", "count"])?;
        ranges.push(format!("{count}@{offset}"));
    }
    push(out, "queues", &ranges.join(" "));
    for (key, word) in [
        ("clockid", "clockid"),
        ("base_time", "base-time"),
        ("cycle_time", "cycle-time"),
        ("cycle_time_extension", "cycle-time-extension"),
    ] {
        if let Some(value) = o.plain(key)? {
            push(out, word, value);
        }
    }
    if let Some(mut sdus) = o.numbers("max-sdu")? {
        // The kernel lists 16 classes.
        while sdus.pop_if(|sdu| *sdu == 0).is_some() {}
        if !sdus.is_empty() {
            push(out, "max-sdu", &sdus.iter().map(u64::to_string).collect::<Vec<_>>().join(" "));
        }
    }
    express(o)?;
    for row in o.list("schedule")?.unwrap_or_default() {
        let (mask, ns) = pair(o, "schedule", row, ["gatemask", "interval"])?;
        push(out, "sched-entry", &format!("S {mask} {ns}"));
    }
    Ok(())
}

/// Takes the kinds of frames of the classes, which must be express ones.
pub(super) fn express(o: &mut Members<'_>) -> Done {
    let preemptible = |frames: &Value| *frames != Value::Text("E".into());
    match o.list("fp")?.unwrap_or_default().iter().any(preemptible) {
        true => Err(o.refused("preemptible frames (fp) are work of a device, expected E for each class")),
        false => Ok(()),
    }
}
