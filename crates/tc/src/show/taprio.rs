//! taprio as tc prints it: the traffic classes, and the schedule in lines of its own.

use txweir_core::qdisc::taprio::{Entries, classes_of};
use txweir_core::sched::erased::Qdisc;
use txweir_core::sched::traffic::CLASSES_MAX;
use txweir_core::text::value::{Json, Value, Words, exact_of, text_of};

use super::Printed;

pub(super) fn options(qdisc: &dyn Qdisc) -> Vec<Printed> {
    let Some(classes) = classes_of(qdisc) else { return Vec::new() };
    let (mut clock, mut times, mut entries) = (String::new(), [0; 3], Entries::default());
    let mut sdus = None;
    qdisc.options(&mut |o| {
        let number = || if let Json::Uint(n) = o.value.json() { n } else { 0 };
        match o.param.key {
            "clockid" => clock = text_of(o.value),
            "max_sdu" if o.value.is_set() => sdus = Some(o.value.json()),
            "base_time" => times[0] = number(),
            "cycle_time" => times[1] = number(),
            "cycle_time_extension" => times[2] = number(),
            "sched_entry" => {
                let text = exact_of(o.value);
                let words: Vec<&str> = text.split(' ').collect();
                entries = Entries::take(&mut Words::new(&words)).unwrap_or_default();
            }
            _ => {}
        }
    });
    if times[1] == 0 {
        times[1] = entries.0.iter().map(|entry| u64::from(entry.ns)).sum();
    }
    let [base, cycle, extension] = times;
    let tc = classes.ranges().len() as u64;
    let mut text = format!("tc {tc} map {}\nqueues", classes.map().map(|tc| tc.to_string()).join(" "));
    let mut queues = Vec::new();
    for range in classes.ranges() {
        text.push_str(&format!(" offset {} count {}", range.offset, range.count));
        queues.push(vec![
            ("offset", Json::Uint(range.offset.into())),
            ("count", Json::Uint(range.count.into())),
        ]);
    }
    text.push_str(&format!("\nclockid {clock}\tbase-time {base} cycle-time {cycle} "));
    text.push_str(&format!("cycle-time-extension {extension}\n"));
    let mut schedule = Vec::new();
    for (index, entry) in entries.0.iter().enumerate() {
        // As tc prints it: zero without `0x`.
        let mask = if entry.open == 0 { "0".into() } else { format!("{:#x}", entry.open) };
        text.push_str(&format!("\tindex {index} cmd S gatemask {mask} interval {}\n", entry.ns));
        schedule.push(vec![
            ("index", Json::Uint(index as u64)),
            ("cmd", Json::Text("S".into())),
            ("gatemask", Json::Text(mask)),
            ("interval", Json::Uint(entry.ns.into())),
        ]);
    }
    // As tc prints it: a number for each class that there may be.
    let mut more = Vec::new();
    if let Some(Json::List(mut sdus)) = sdus {
        sdus.resize(CLASSES_MAX, 0);
        let numbers: Vec<String> = sdus.iter().map(u64::to_string).collect();
        let frames = vec![String::from("E"); CLASSES_MAX];
        text.push_str(&format!("max-sdu {}\nfp {}\n", numbers.join(" "), frames.join(" ")));
        more = vec![("max-sdu", Json::List(sdus)), ("fp", Json::Texts(frames))];
    }
    let map = classes.map().iter().map(|tc| u64::from(*tc)).collect();
    let json = |key, json| Printed { key, text: None, json: Some(json) };
    let mut printed = vec![
        Printed { key: "tc", text: Some(text), json: Some(Json::Uint(tc)) },
        json("map", Json::List(map)),
        json("queues", Json::Objects(queues)),
        json("clockid", Json::Text(clock)),
        json("base_time", Json::Uint(base)),
        json("cycle_time", Json::Uint(cycle)),
        json("cycle_time_extension", Json::Uint(extension)),
        json("schedule", Json::Objects(schedule)),
    ];
    printed.extend(more.into_iter().map(|(key, value)| json(key, value)));
    printed
}
