//! gred: `struct tc_gred_sopt` for the qdisc, `struct tc_gred_qopt` for a virtual queue with what
//! stands beside it, and in a listing all queues at once with their counters.

use txweir_core::qdisc::gred::QUEUES;
use txweir_core::qdisc::red::packet_time;
use txweir_core::text::value::{Value, Words as Cursor};
use txweir_core::{Bytes, Rate};

use super::red::{self, TABLE, chance_log, flag_words, law_words, parts};
use super::{Words, pair};
use crate::given::Given;
use crate::refusal::Refusal;
use crate::wire::{Attributes, Writer, u32_of};
use txweir_core::law::red::{IdleTable, weight_for_burst};

const PARMS: u16 = 1;
const STAB: u16 = 2;
const DPS: u16 = 3;
const MAX_P: u16 = 4;
const LIMIT: u16 = 5;
const VQ_LIST: u16 = 6;
/// Of the list.
const ENTRY: u16 = 1;
/// Of an entry.
const DP: u16 = 2;
const STAT_BYTES: u16 = 3;
const FLAGS: u16 = 12;
/// The counters of an entry of 32 bits.
const COUNTERS: [(u16, &str); 8] = [
    (4, "packets"),
    (5, "backlog"),
    (6, "prob_drop"),
    (7, "prob_mark"),
    (8, "forced_drop"),
    (9, "forced_mark"),
    (10, "pdrop"),
    (11, "other"),
];
/// Bytes of the structs.
const SETUP: usize = 12;
const QUEUE: usize = 52;
/// Flags that gred has.
const OWN_FLAGS: u8 = 3;

pub(super) fn read(options: &[u8]) -> Words {
    let all = Attributes::read(options, "gred")?;
    all.only(&[PARMS, STAB, DPS, MAX_P, LIMIT, VQ_LIST])?;
    if all.bytes(PARMS).is_some() || all.bytes(STAB).is_some() {
        return read_queue(&all);
    }
    let Some(r) = all.record(DPS, SETUP)? else {
        return Err(Refusal::invalid("gred: attribute 3, its setup, is missing"));
    };
    let mut words = vec!["setup".to_string()];
    words.extend(pair("vqs", r.u32(0)));
    words.extend(pair("default", r.u32(4)));
    words.extend((r.u8(8) != 0).then(|| "grio".to_string()));
    if let Some(limit) = all.u32(LIMIT)? {
        words.extend(pair("limit", format!("{limit}b")));
    }
    words.extend(flag_words(r.u8(9) & OWN_FLAGS));
    Ok(words)
}

/// Returns the words of one virtual queue.
fn read_queue(all: &Attributes<'_>) -> Words {
    let (Some(r), Some(table)) = (all.record(PARMS, QUEUE)?, all.bytes(STAB).and_then(|t| t.get(..TABLE)))
    else {
        let text =
            format!("gred: expected attribute 1, a virtual queue, and attribute 2, a table of {TABLE} bytes");
        return Err(Refusal::invalid(text));
    };
    if all.bytes(LIMIT).is_some() {
        return Err(Refusal::invalid("gred: expected a limit of the qdisc or a virtual queue, given both"));
    }
    let (number, min) = (r.u32(12), r.u32(4));
    let mut words = pair("vq", number).to_vec();
    for (key, at) in [("limit", 0), ("min", 4), ("max", 8)] {
        words.extend(pair(key, format!("{}b", r.u32(at))));
    }
    words.extend(law_words("gred", min, min, (r.u8(40), r.u8(42)), table)?);
    if let Some(parts) = all.u32(MAX_P)? {
        words.extend(pair("probability", red::probability(parts)));
    }
    words.extend(pair("prio", r.u8(43)));
    for entry in all.nested(VQ_LIST)?.iter().filter(|a| a.number == ENTRY) {
        let entry = Attributes::read(entry.value, "gred vq")?;
        if entry.u32(DP)? == Some(number) {
            // Below 256.
            words.extend(flag_words(entry.u32(FLAGS)?.unwrap_or(0) as u8 & OWN_FLAGS));
        }
    }
    Ok(words)
}

/// A virtual queue by its words.
struct Queue {
    number: u32,
    words: Vec<String>,
}

impl Queue {
    fn word(&self, key: &str) -> &str {
        let at = self.words.iter().position(|word| word == key);
        at.and_then(|at| self.words.get(at + 1)).map_or("0", String::as_str)
    }
    fn size(&self, key: &str) -> u32 {
        Bytes::take(&mut Cursor::new(&[self.word(key)])).map_or(0, |size| u32_of(size.0))
    }
    fn number(&self, key: &str) -> u32 {
        self.word(key).parse().unwrap_or(0)
    }
    fn flags(&self, given: &Given) -> u8 {
        let own = ["ecn", "harddrop"].map(|flag| self.words.iter().any(|word| word == flag));
        let own = u8::from(own[0]) | u8::from(own[1]) << 1;
        // Those of the qdisc are those of all queues.
        own | red::flags(given)
    }
}

/// Returns the virtual queues that have parameters.
fn queues(given: &Given) -> Vec<Queue> {
    let one = |text: &str| {
        let mut words = text.split(' ').map(String::from);
        Some(Queue { number: words.next()?.parse().ok()?, words: words.collect() })
    };
    given.exact("vq").split(" vq ").filter_map(one).collect()
}

pub(super) fn write(given: &Given, w: &mut Writer) {
    let all = queues(given);
    let of = |number: u32| all.iter().find(|queue| queue.number == number);
    w.nest(DPS, |w| {
        w.put_all(&[given.u32("vqs"), given.u32("default")]);
        w.put(&[u8::from(given.on("grio")), red::flags(given), 0, 0]);
    });
    let chances =
        (0..QUEUES as u32).flat_map(|n| of(n).map_or(0, |q| parts(q.word("probability"))).to_ne_bytes());
    w.bytes(MAX_P, &chances.collect::<Vec<u8>>());
    w.u32(LIMIT, given.u32("limit"));
    w.nest(PARMS, |w| {
        for number in 0..QUEUES as u32 {
            match of(number) {
                Some(queue) => write_queue(given, queue, w),
                None => {
                    // A number beyond all queues.
                    w.put_all(&[0, 0, 0, QUEUES as u32 + number]);
                    w.put(&[0; QUEUE - 16]);
                }
            }
        }
    });
    w.nest(VQ_LIST, |w| {
        for queue in &all {
            w.nest(ENTRY, |w| {
                w.u32(DP, queue.number);
                w.u32(FLAGS, queue.flags(given).into());
                w.u64(STAT_BYTES, given.part(queue.number, "bytes"));
                for (number, key) in COUNTERS {
                    w.u32(number, given.part(queue.number, key) as u32);
                }
            });
        }
    });
}

fn write_queue(given: &Given, queue: &Queue, w: &mut Writer) {
    let [limit, min, max, avpkt] = ["limit", "min", "max", "avpkt"].map(|key| queue.size(key));
    let count = |key: &str| given.part(queue.number, key) as u32;
    w.put_all(&[limit, min, max, queue.number]);
    w.put_all(&["backlog", "qave", "forced_drop", "prob_drop", "other", "pdrop"].map(count));
    let wlog = weight_for_burst(min, queue.number("burst"), avpkt).unwrap_or(0);
    let rate = Rate::take(&mut Cursor::new(&[queue.word("bandwidth")])).unwrap_or(Rate(0));
    let table = IdleTable::new(wlog, packet_time(rate, avpkt));
    let plog = chance_log(min, max, parts(queue.word("probability")));
    let prio = u8::try_from(queue.number("prio")).unwrap_or(u8::MAX);
    w.put(&[wlog, plog, table.cell_log(), prio]);
    w.put_all(&["packets", "bytes"].map(count));
}
