//! The options of cake, cake_mq and sfb.

use super::*;

pub(super) fn words(o: &mut Members<'_>, out: &mut String) -> Done {
    match o.take("bandwidth") {
        None => {}
        Some(Value::Number(n)) => push(out, "bandwidth", &format!("{n}bps")),
        Some(Value::Text(word)) if word == "unlimited" => push(out, word, ""),
        Some(other) => return Err(o.wrong("bandwidth", "a rate or \"unlimited\"", other)),
    }
    for key in ["autorate", "diffserv", "flowmode"] {
        if let Some(word) = o.word(key)? {
            push(out, word, "");
        }
    }
    const FLAGS: [(&str, &str, &str); 4] = [
        ("nat", "nat", "nonat"),
        ("wash", "wash", "nowash"),
        ("ingress", "ingress", "egress"),
        ("split_gso", "split-gso", "no-split-gso"),
    ];
    for (key, on, off) in FLAGS {
        if o.has(key) {
            let word = if o.flag(key)? { on } else { off };
            push(out, word, "");
        }
    }
    match o.word("ack-filter")? {
        None => {}
        Some("enabled") => push(out, "ack-filter", ""),
        Some("aggressive") => push(out, "ack-filter-aggressive", ""),
        Some("disabled") => push(out, "no-ack-filter", ""),
        Some(other) => {
            let given = Value::Text(other.into());
            return Err(o.wrong("ack-filter", "enabled, aggressive or disabled", &given));
        }
    }
    if let Some(us) = o.uint("rtt")? {
        push(out, "rtt", &format!("{us}us"));
    }
    let raw = o.flag("raw")?;
    if raw {
        push(out, "raw", "");
    }
    if let Some(cells) = o.word("atm")? {
        push(out, cells, "");
    }
    // A key for the overhead ends `raw`, which has none.
    if let Some(overhead) = o.plain("overhead")?.filter(|n| !raw || *n != "0") {
        push(out, "overhead", overhead);
    }
    for key in ["mpu", "memlimit"] {
        if let Some(n) = o.uint(key)? {
            push(out, key, &n.to_string());
        }
    }
    if let Some(mask) = o.word("fwmark")?.filter(|mask| *mask != "0") {
        push(out, "fwmark", mask);
    }
    if let Some(name) = o.word("shared")? {
        push(out, "shared", name);
    }
    Ok(())
}

/// Takes the options of sfb: times are microseconds, and tc reads milliseconds.
pub(super) fn sfb(o: &mut Members<'_>, out: &mut String) -> Done {
    for key in ["rehash", "db"] {
        if let Some(us) = o.uint(key)? {
            push(out, key, &(us / 1000).to_string());
        }
    }
    for key in ["limit", "max", "target", "increment", "decrement", "penalty_rate", "penalty_burst"] {
        if let Some(number) = o.plain(key)? {
            push(out, key, number);
        }
    }
    Ok(())
}
