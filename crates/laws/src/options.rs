//! Random configurations from a kind's declarations, and the printed options of a qdisc.

use txweir_core::base::chance::{Percent, Probability};
use txweir_core::base::link::LinkLayer;
use txweir_core::base::rng::Rng;
use txweir_core::law::curve::Curve;
use txweir_core::law::pi2::Gain;
use txweir_core::qdisc::cake::{self, Framing};
use txweir_core::qdisc::dualpi2::{Share, Step};
use txweir_core::qdisc::etf::Clock;
use txweir_core::qdisc::ets::Quanta;
use txweir_core::qdisc::fq_codel::Selector;
use txweir_core::qdisc::gred;
use txweir_core::qdisc::mqprio::{Mode, Preemption, Ranges, Rates, Shaper};
use txweir_core::qdisc::red::Qevent;
use txweir_core::qdisc::rough::Profile;
use txweir_core::qdisc::sfb;
use txweir_core::qdisc::sfq::Seconds;
use txweir_core::qdisc::taprio::Entries;
use txweir_core::qdisc::taprio::Sdus;
use txweir_core::sched::classful::{ClassAt, ClassSpec};
use txweir_core::sched::erased::Qdisc;
use txweir_core::sched::spec::Spec;
use txweir_core::text::impairment::{Chance, Delay, LinkRate, Loss, Places, Shape, Slot};
use txweir_core::text::params::{Group, Param, Shown};
use txweir_core::text::value::{
    Hex, HexBare, Json, Mask, Name, NanosBare, PrioMap, Triple, Value, Words, exact_of, text_of,
};
use txweir_core::{Bytes, Env, Nanos, Packets, Rate};

/// True with a probability of `n` in `of`.
pub fn chance(rng: &mut Rng, n: u64, of: u64) -> bool {
    rng.below(of) < n
}

/// Draws one of `items`.
pub fn pick<'a, T>(rng: &mut Rng, items: &'a [T]) -> &'a T {
    &items[rng.below(items.len() as u64) as usize]
}

/// Draws a number whose logarithm is uniform: small and large ones with equal frequency, rarely 0.
pub fn log_uniform(rng: &mut Rng, max: u64) -> u64 {
    let bits = rng.below(65 - u64::from(max.leading_zeros()));
    rng.below(1 << bits).min(max)
}

/// Draws words that set `param` to a value of its type, not necessarily in its range.
pub(crate) fn value_words(param: &Param, rng: &mut Rng) -> Vec<String> {
    if chance(rng, 1, 6) {
        // The ends of the range, as the declaration names them.
        let ends: Vec<&str> = param.range.split([' ', ',']).filter(|w| starts_with_digit(w)).collect();
        if !ends.is_empty() {
            return vec![(*pick(rng, &ends)).into()];
        }
    }
    let rough = chance(rng, 1, 3);
    let text = |exact: String, rounded: String| vec![if rough { rounded } else { exact }];
    match param.expected {
        e if e == Packets::EXPECTED => {
            let v = Packets(log_uniform(rng, 2000) as u32);
            text(exact_of(&v), v.0.to_string())
        }
        e if e == Bytes::EXPECTED => {
            let v = Bytes(log_uniform(rng, 4 << 20));
            text(exact_of(&v), text_of(&v))
        }
        e if e == Rate::EXPECTED => {
            let v = Rate(log_uniform(rng, 10_000_000_000));
            text(exact_of(&v), text_of(&v))
        }
        e if e == Nanos::EXPECTED => {
            let v = Nanos(log_uniform(rng, 2_000_000_000));
            text(exact_of(&v), text_of(&v))
        }
        e if e == PrioMap::EXPECTED => {
            let max = 1 + rng.below(16);
            (0..1 + rng.below(16)).map(|_| rng.below(max).to_string()).collect()
        }
        e if e == Quanta::EXPECTED => {
            (0..1 + rng.below(8)).map(|_| log_uniform(rng, 1 << 14).to_string()).collect()
        }
        e if e == LinkLayer::EXPECTED => vec![(*pick(rng, &["ethernet", "atm", "adsl"])).into()],
        e if e == Name::EXPECTED => {
            vec![(*pick(rng, &["up", "up-2", "all.queues_of-the-link.eth0.1234", "9"])).into()]
        }
        e if e == Probability::EXPECTED => {
            let v = Probability(log_uniform(rng, 1 << 32));
            text(exact_of(&v), text_of(&v))
        }
        e if e == Framing::EXPECTED => vec![(rng.below(321) as i64 - 64).to_string()],
        e if e == cake::Mask::EXPECTED => vec![format!("{:#x}", log_uniform(rng, 0xffff_ffff))],
        e if e == Hex::EXPECTED => vec![format!("{:x}", log_uniform(rng, 0xffff_ffff))],
        e if e == HexBare::EXPECTED => vec![format!("{:x}", log_uniform(rng, 0xffff))],
        e if e == Curve::EXPECTED => curve(rng),
        e if e == u16::EXPECTED => vec![log_uniform(rng, u64::from(u16::MAX)).to_string()],
        e if e == Percent::EXPECTED => percents(rng, 1),
        e if e == Gain::EXPECTED => vec![exact_of(&Gain(log_uniform(rng, 1 << 14) as u32))],
        e if e == Step::EXPECTED => match chance(rng, 1, 2) {
            true => vec![exact_of(&Step::Packets(rng.below(20) as u32))],
            false => vec![exact_of(&Step::Time(Nanos(log_uniform(rng, 100_000_000))))],
        },
        e if e == Share::EXPECTED => vec![exact_of(&Share(rng.below(101) as u32))],
        e if e == Profile::EXPECTED => vec![(*pick(rng, &["df2013", "df2017"])).into()],
        e if e == Places::EXPECTED => vec![log_uniform(rng, 2000).to_string()],
        e if e == Delay::EXPECTED => {
            let mut words = vec![exact_of(&Nanos(log_uniform(rng, 1_000_000_000)))];
            if chance(rng, 1, 2) {
                words.push(exact_of(&Nanos(log_uniform(rng, 100_000_000))));
                words.extend(chance(rng, 1, 3).then(|| "25%".to_string()));
            }
            words
        }
        e if e == Chance::EXPECTED => percents(rng, 2),
        e if e == Loss::EXPECTED => match rng.below(3) {
            0 => percents(rng, 2),
            1 => [vec!["state".into()], percents(rng, 5)].concat(),
            _ => [vec!["gemodel".into()], percents(rng, 4)].concat(),
        },
        e if e == LinkRate::EXPECTED => {
            let mut words = vec![exact_of(&Rate(log_uniform(rng, 1_000_000_000)))];
            let more = ["-14", "48", "5"].map(String::from);
            words.extend(more.into_iter().take(rng.below(4) as usize));
            words
        }
        e if e == Shape::EXPECTED => vec![(*pick(rng, &SHAPES)).into()],
        e if e == Slot::EXPECTED => {
            let mut words = match chance(rng, 1, 3) {
                true => vec!["distribution".into(), (*pick(rng, &SHAPES)).into(), "1ms".into()],
                false => vec!["500us".into()],
            };
            words.push(exact_of(&Nanos(500_000 + log_uniform(rng, 100_000_000))));
            words.extend(
                chance(rng, 1, 2)
                    .then(|| ["packets".into(), log_uniform(rng, 50).to_string()])
                    .into_iter()
                    .flatten(),
            );
            words
        }
        e if e == Ranges::EXPECTED => {
            let queues = rng.below(5);
            (0..1 + queues).map(|q| format!("{}@{}", rng.below(3), 2 * q)).collect()
        }
        e if e == Rates::EXPECTED => {
            (0..1 + rng.below(4)).map(|_| exact_of(&Rate(log_uniform(rng, 1_000_000_000)))).collect()
        }
        e if e == Sdus::EXPECTED => (0..1 + rng.below(4)).map(|_| rng.below(4000).to_string()).collect(),
        e if e == Preemption::EXPECTED => {
            (0..1 + rng.below(4)).map(|_| (*pick(rng, &["E", "P"])).into()).collect()
        }
        e if e == Mode::EXPECTED => vec![(*pick(rng, &["dcb", "channel"])).into()],
        e if e == Shaper::EXPECTED => vec![(*pick(rng, &["dcb", "bw_rlimit"])).into()],
        e if e == u64::EXPECTED => vec![rng.next_u64().to_string()],
        e if e == Seconds::EXPECTED => vec![(log_uniform(rng, 100) as i64 - 1).to_string()],
        e if e == u32::EXPECTED => vec![log_uniform(rng, 1 << 14).to_string()],
        e if e == i32::EXPECTED => {
            let n = log_uniform(rng, 1 << 20) as i64;
            vec![if chance(rng, 1, 4) { -n } else { n }.to_string()]
        }
        e if e == Entries::EXPECTED => vec![
            "S".into(),
            format!("{:x}", log_uniform(rng, 15)),
            (100_000 + log_uniform(rng, 1 << 20)).to_string(),
        ],
        e if e == Clock::EXPECTED => vec![(*pick(rng, &["CLOCK_TAI", "TAI", "tai"])).into()],
        e if e == gred::QUEUE_EXPECTED => {
            let number = log_uniform(rng, 15).to_string();
            let words = "limit 60000b min 3000b max 9000b avpkt 1000b";
            [vec![number], words.split(' ').map(String::from).collect()].concat()
        }
        e if e == sfb::Part::EXPECTED => vec![exact_of(&sfb::Part(log_uniform(rng, 65_535) as u16))],
        e if e == Selector::EXPECTED => {
            vec![format!("{}/{:#x}", log_uniform(rng, 255), log_uniform(rng, 255))]
        }
        e if e == Mask::EXPECTED => vec![log_uniform(rng, 1 << 14).to_string()],
        e if e == NanosBare::EXPECTED => {
            let v = NanosBare(log_uniform(rng, 2_000_000_000));
            text(exact_of(&v), text_of(&v))
        }
        e if e == Triple::EXPECTED => {
            (0..3).map(|_| ((1 << 14) + log_uniform(rng, 1 << 20)).to_string()).collect()
        }
        other => panic!("no generator for values that are \"{other}\": teach `value_words` this type"),
    }
}

/// Draws a service curve in either form.
fn curve(rng: &mut Rng) -> Vec<String> {
    let [m1, m2] = [(); 2].map(|()| exact_of(&Rate(log_uniform(rng, u64::from(u32::MAX)))));
    let [d, size] = [1_000_000, 10_000].map(|most| log_uniform(rng, most));
    let text = match rng.below(4) {
        0 => format!("m2 {m2}"),
        1 => format!("umax {size} dmax {d} rate {m2}"),
        _ => format!("m1 {m1} d {d}us m2 {m2}"),
    };
    text.split(' ').map(String::from).collect()
}

/// Shapes of distributions, in tc's words and as numbers.
const SHAPES: [&str; 5] = ["uniform", "normal", "pareto", "paretonormal", "-8192,0,4096,9000"];

/// Draws one to `n` percentages.
fn percents(rng: &mut Rng, n: u64) -> Vec<String> {
    (0..1 + rng.below(n)).map(|_| exact_of(&Percent(log_uniform(rng, u64::from(u32::MAX)) as u32))).collect()
}

fn starts_with_digit(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
}

/// Options of mqprio that fit together; the last ones are for a device that keeps rates.
const MQPRIO: [&str; 3] = [
    "num_tc 1 map 0 queues 2@0 hw 0",
    "num_tc 2 map 0 1 1 queues 1@0 1@1 hw 0",
    "num_tc 2 map 0 1 queues 1@0 1@1 hw 1 mode channel shaper bw_rlimit min_rate 1mbit 2mbit",
];

/// Options of taprio, whose independent random words hardly ever fit together.
const TAPRIO: [&str; 5] = [
    "num_tc 2 map 0 1 queues 1@0 1@1 clockid TAI sched-entry S 1 300000 sched-entry S 2 700000",
    "num_tc 2 map 0 1 1 queues 1@1 1@0 clockid TAI base-time 5000 sched-entry S 3 2000000 sched-entry S 2 1500000",
    "num_tc 3 map 0 1 2 queues 1@0 1@1 1@2 clockid MONOTONIC sched-entry S 7 4000000 sched-entry S 4 20000",
    "num_tc 2 map 0 1 queues 1@0 1@1 clockid TAI max-sdu 900 fp E E sched-entry S 1 300000 sched-entry S 3 700000",
    "num_tc 1 queues 2@0 clockid TAI cycle-time 900000 sched-entry S 1 300000 sched-entry S 0 700000",
];

/// Options of gred: a virtual queue needs several words, and the qdisc before it.
const GRED: [&str; 7] = [
    "setup vqs 16 default 15",
    "setup vqs 2 default 0 grio limit 30000b",
    "setup vqs 16 default 15 limit 20000b harddrop vq 1 limit 9000b min 1500b max 4500b avpkt 500b burst 6",
    concat!(
        "setup vqs 2 default 0 vq 0 limit 40000b min 4000b max 4001b avpkt 1000b burst 8 probability 0.2",
        " vq 1 limit 5000b min 2000b max 9000b avpkt 500b burst 9 ecn"
    ),
    concat!(
        "setup vqs 3 default 2 grio limit 90000b vq 0 limit 60000b min 3000b max 9000b avpkt 1000b burst 6",
        " prio 1 vq 1 limit 60000b min 3000b max 9000b avpkt 1000b burst 6 prio 2 ecn harddrop",
        " vq 2 limit 70000b min 3000b max 9000b avpkt 1000b burst 6 prio 9"
    ),
    concat!(
        "setup vqs 3 default 0 grio ecn vq 0 limit 60000b min 3000b max 9000b avpkt 1000b burst 6 prio 4",
        " vq 2 limit 60000b min 5000b max 15000b avpkt 1000b burst 9 prio 4"
    ),
    "vq 1 limit 8000b min 1000b max 3000b avpkt 250b burst 10 bandwidth 1mbit prio 3",
];

/// Draws random words, well-formed but perhaps refused.
pub fn random(spec: &Spec, rng: &mut Rng) -> Vec<String> {
    if spec.kind == "mqprio" && chance(rng, 1, 2) {
        // Independent random words hardly ever fit together.
        let words = pick(rng, &MQPRIO);
        return words.split(' ').map(String::from).collect();
    }
    if spec.kind == "taprio" && chance(rng, 7, 8) {
        return pick(rng, &TAPRIO).split(' ').map(String::from).collect();
    }
    if spec.kind == "gred" && chance(rng, 7, 8) {
        return pick(rng, &GRED).split(' ').map(String::from).collect();
    }
    random_of(spec.params, rng)
}

/// True if values of the parameter are drawn: a qevent is always refused.
pub(crate) fn is_drawn(param: &Param) -> bool {
    param.expected != Qevent::EXPECTED
}

/// Draws random words for some of these parameters.
pub fn random_of(params: &'static [Param], rng: &mut Rng) -> Vec<String> {
    let (n, of) = *pick(rng, &[(1, 8), (1, 2), (3, 4)]);
    let mut words = Vec::new();
    for param in params {
        if is_drawn(param) && chance(rng, n, of) {
            let only_alone = param.words.is_empty();
            let alone = only_alone || !param.alone.is_empty() && chance(rng, 1, 2);
            words.push((*pick(rng, if alone { param.alone } else { param.words })).to_string());
            if !param.flag && !alone {
                words.extend(value_words(param, rng));
            }
        }
    }
    words
}

/// Draws random words that the kind accepts.
pub fn legal(spec: &Spec, env: &Env, rng: &mut Rng) -> Vec<String> {
    for _ in 0..2000 {
        let words = random(spec, rng);
        if build(spec, &words, env).is_some() {
            return words;
        }
    }
    panic!("2000 random configurations of {} and none is legal: teach `value_words` its ranges", spec.kind)
}

/// Draws random words that a new class of the kind accepts, as far as that can be decided without
/// its qdisc. Required parameters are given.
pub fn legal_class(classes: &ClassSpec, env: &Env, rng: &mut Rng) -> Vec<String> {
    for _ in 0..2000 {
        let mut words = random_of(classes.params, rng);
        for param in classes.params.iter().filter(|p| p.about.ends_with("Must be given.")) {
            if !words.iter().any(|w| param.words.contains(&w.as_str())) {
                words.push(param.words[0].into());
                words.extend(value_words(param, rng));
            }
        }
        if with_words(&words, |w| classes.read(w, env).is_ok()) {
            return words;
        }
    }
    panic!("2000 random classes of {} and none is legal: teach `value_words` their ranges", classes.kind)
}

/// Returns the classes that commands have made, or may change: their places, and the words that
/// make them.
pub fn classes_of(qdisc: &dyn Qdisc) -> Vec<(ClassAt, Vec<String>)> {
    let mut all = Vec::new();
    if let Some(classes) = qdisc.user_classes() {
        classes.list(&mut |class| {
            // The qdisc itself, which no command has made as a class.
            if class.at.minor == 0 {
                return;
            }
            let mut words = Vec::new();
            classes.options(class.at.minor, &mut |s| push_words(&mut words, &s));
            all.push((class.at, words));
        });
    }
    all
}

/// Draws words that no kind accepts: an unknown key, a missing value, an invalid value, a value out
/// of range.
pub fn illegal(spec: &Spec, env: &Env, rng: &mut Rng) -> Vec<String> {
    let mut words = legal(spec, env, rng);
    let keyed: Vec<&Param> = spec.params.iter().filter(|p| !p.flag && !p.words.is_empty()).collect();
    let tail: &[&str] = match (rng.below(3), keyed.is_empty()) {
        (0, _) | (_, true) => &["no_such_key"],
        (1, _) => &[pick(rng, &keyed).words[0]],
        _ => {
            let param = pick(rng, &keyed);
            &[param.words[0], if param.expected == i32::EXPECTED { "-99999999999" } else { "-999" }]
        }
    };
    words.extend(tail.iter().map(|w| (*w).to_string()));
    words
}

/// Builds a qdisc from words, if the kind accepts them.
pub fn build(spec: &Spec, words: &[String], env: &Env) -> Option<Box<dyn Qdisc>> {
    with_words(words, |w| spec.build(w, env).ok())
}

/// Calls `f` with a cursor over owned words.
pub fn with_words<R>(words: &[String], f: impl FnOnce(&mut Words<'_>) -> R) -> R {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    f(&mut Words::new(&words))
}

/// Returns the options that a qdisc shows: key, exact text (empty if not set), JSON.
pub fn shown(qdisc: &dyn Qdisc) -> Vec<(&'static str, String, Json)> {
    let mut all = Vec::new();
    qdisc.options(&mut |s| {
        let exact = if s.value.is_set() { exact_of(s.value) } else { String::new() };
        all.push((s.param.key, exact, s.value.json()));
    });
    all
}

/// Returns the words that make an equal qdisc, in exact form.
pub fn printed(qdisc: &dyn Qdisc) -> Vec<String> {
    let mut words = Vec::new();
    qdisc.options(&mut |s| push_words(&mut words, &s));
    words
}

fn push_words(words: &mut Vec<String>, s: &Shown<'_>) {
    if !s.value.is_set() {
        return;
    }
    words.extend(s.word.map(str::to_string));
    if !s.param.flag {
        words.extend(exact_of(s.value).split(' ').map(str::to_string));
    }
}

/// True if a value's JSON and exact text agree: the number, in the unit that JSON has.
pub fn agree(declared: &str, exact: &str, json: &Json) -> bool {
    let digits: String = exact.chars().take_while(char::is_ascii_digit).collect();
    match json {
        Json::Bool(b) => exact == if *b { "on" } else { "off" } || (exact.is_empty() && !b),
        // Words are left out where they are the default, because tc refuses them beside others.
        Json::Text(t) if declared == Mode::EXPECTED || declared == Shaper::EXPECTED => {
            t == exact || exact.is_empty() && t == "dcb"
        }
        Json::Text(t) | Json::Number(t) => t == exact,
        Json::Null => false,
        Json::Int(n) => exact == format!("{n}"),
        // A service curve: two rates and a time, each with its name.
        Json::Members(parts) => {
            let part = |(key, value): &(&str, Json)| match value {
                Json::Uint(n) if *key == "d" => format!("{key} {n}us"),
                Json::Uint(n) => format!("{key} {n}bps"),
                _ => String::new(),
            };
            parts.iter().map(part).collect::<Vec<_>>().join(" ") == exact
        }
        Json::Rows(_) | Json::Objects(_) => false,
        Json::Texts(all) => all.join(" ") == exact,
        Json::List(l) if declared == Rates::EXPECTED => {
            l.iter().map(|n| format!("{n}bps")).collect::<Vec<_>>().join(" ") == exact
        }
        Json::List(l) => l.iter().map(u64::to_string).collect::<Vec<_>>().join(" ") == exact,
        Json::Uint(n) => digits.parse::<u64>().is_ok_and(|exact| {
            let unit = if declared == Nanos::EXPECTED { 1000 } else { 1 };
            exact / unit == *n
        }),
    }
}
