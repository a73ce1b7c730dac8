//! The options of gred: those of the qdisc, and of each virtual queue.

use txweir_core::qdisc::gred::QueueStats;
use txweir_core::text::stats::Counters as _;

use super::super::members::Members;
use super::{AVPKT, Done, burst, push};

/// Adds the options in the words of tc, as one line.
pub(super) fn words(o: &mut Members<'_>, out: &mut String) -> Done {
    push(out, "setup", "");
    push(out, "vqs", &o.need_uint("dp_cnt")?.to_string());
    push(out, "default", &o.need_uint("dp_default")?.to_string());
    if o.flag("grio")? {
        push(out, "grio", "");
    }
    if let Some(limit) = o.uint("limit")? {
        push(out, "limit", &format!("{limit}b"));
    }
    let own = flags(o)?;
    own.iter().for_each(|flag| push(out, flag, ""));
    let what = format!("{}: vqs", o.what);
    for row in o.list("vqs")?.unwrap_or_default() {
        let mut queue = Members::of(&what, row)?;
        let number = queue.need_uint("vq")?;
        push(out, "vq", &number.to_string());
        queue.what = format!("{what} {number}");
        let min = queue.need_uint("min")?;
        push(out, "min", &format!("{min}b"));
        for key in ["limit", "max"] {
            push(out, key, &format!("{}b", queue.need_uint(key)?));
        }
        push(out, "avpkt", &format!("{AVPKT}b"));
        push(out, "burst", &burst(&mut queue, min, 1)?.to_string());
        for key in ["prio", "probability"] {
            if let Some(number) = queue.plain(key)? {
                push(out, key, number);
            }
        }
        // Those of the qdisc are those of all queues.
        flags(&mut queue)?.iter().filter(|_| own.is_empty()).for_each(|flag| push(out, flag, ""));
        queue.end(|key| QueueStats::TABLE.iter().any(|counter| counter.key == key))?;
    }
    Ok(())
}

/// Takes the flags of RED, and returns those that are on and that gred has.
fn flags(o: &mut Members<'_>) -> Done<Vec<&'static str>> {
    ["adaptive", "nodrop"].into_iter().for_each(|flag| o.pass(flag));
    let mut on = Vec::new();
    for flag in ["ecn", "harddrop"] {
        if o.flag(flag)? {
            on.push(flag);
        }
    }
    Ok(on)
}
