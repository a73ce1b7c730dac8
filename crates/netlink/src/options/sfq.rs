//! sfq: `struct tc_sfq_qopt`, and its longer form, `struct tc_sfq_qopt_v1`.

use txweir_core::law::red::weight_for_burst;
use txweir_core::qdisc::sfq::LIMIT;

use super::fixed::bytes;
use super::red::{AVPKT, burst_of, chance_log, flag_words, flags, parts, probability};
use super::{Words, pair, record};
use crate::given::Given;
use crate::refusal::Refusal;
use crate::wire::{Record, Writer};

/// Bytes of the short and of the long struct, and of the part of it that messages must have.
const SHORT: usize = 20;
const LONG: usize = 48;
/// The counters of RED behind it.
const COUNTERS: [&str; 6] =
    ["prob_drop", "forced_drop", "prob_mark", "forced_mark", "prob_mark_head", "forced_mark_head"];

pub(super) fn read(options: &[u8]) -> Words {
    let r = record(options, SHORT, "sfq")?;
    let mut words = Vec::new();
    let mut some = |key: &str, n: u32| {
        if n > 0 {
            words.extend(pair(key, n));
        }
    };
    some("quantum", r.u32(0));
    some("perturb", r.u32(4));
    some("limit", r.u32(8));
    some("divisor", r.u32(12));
    some("flows", r.u32(16));
    if options.len() >= LONG {
        some("depth", r.u32(20));
        words.extend((r.u32(24) != 0).then(|| "headdrop".to_string()));
        words.extend(read_red(r)?);
    }
    Ok(words)
}

/// Returns the words of RED, if there is a limit for it.
fn read_red(r: Record<'_>) -> Words {
    let (limit, min, max, wlog) = (r.u32(28), r.u32(32), r.u32(36), r.u8(40));
    if limit == 0 {
        return Ok(Vec::new());
    }
    let Some(burst) = burst_of(min, wlog) else {
        let text = format!("sfq: no burst has the weight {wlog} of the average beside the min {min}");
        return Err(Refusal::invalid(text));
    };
    let mut words = Vec::new();
    for (key, n) in [("redflowlimit", limit), ("min", min), ("max", max), ("avpkt", AVPKT)] {
        words.extend(pair(key, bytes(n.into())));
    }
    words.extend(pair("burst", burst));
    words.extend(pair("probability", probability(r.u32(44))));
    words.extend(flag_words(r.u8(43)));
    Ok(words)
}

pub(super) fn write(given: &Given, w: &mut Writer) {
    let limit = if given.has("limit") { given.u32("limit") } else { LIMIT };
    w.put_all(&[given.u32("quantum"), given.u32("perturb"), limit, given.u32("divisor"), given.u32("flows")]);
    w.put_all(&[given.u32("depth"), given.on("headdrop").into()]);
    if !given.has("redflowlimit") {
        w.put(&[0; LONG - 28]);
    } else {
        let (min, max) = (given.u32("min"), given.u32("max"));
        let wlog = weight_for_burst(min, given.u32("burst"), given.u32("avpkt")).unwrap_or(0);
        let chance = parts(given.exact("probability"));
        w.put_all(&[given.u32("redflowlimit"), min, max]);
        w.put(&[wlog, chance_log(min, max, chance), 0, flags(given)]);
        w.put_all(&[chance]);
    }
    w.put_all(&COUNTERS.map(|key| given.u32(key)));
}
