//! Any configuration of any kind reads back as itself, and no text causes a panic.

use txweir_core::base::rng::Rng;
use txweir_core::law::curve::Curve;
use txweir_core::qdisc::KINDS;
use txweir_core::sched::classful::ClassSpec;
use txweir_core::sched::cx::Cx;
use txweir_core::sched::spec::Spec;
use txweir_core::text::value::{Value, Words};
use txweir_core::{Env, ErrorKind, Handle, Tree};
use txweir_tc::{Policy, show};

/// Draws a value of any type, as a user may write it.
fn value(rng: &mut Rng) -> Vec<String> {
    const UNITS: [&str; 14] =
        ["", "", "", "bit", "kbit", "mbit", "bps", "kb", "b", "s", "ms", "us", "ns", "p"];
    if rng.below(8) == 0 {
        let n = 1 + rng.below(16);
        return (0..n).map(|_| rng.below(4).to_string()).collect();
    }
    if rng.below(8) == 0 {
        const WORDS: [&str; 5] = ["ethernet", "atm", "adsl", "10%", "CLOCK_TAI"];
        return vec![WORDS[rng.below(5) as usize].into()];
    }
    let shift = rng.below(64);
    let n = rng.next_u64() >> shift;
    let part = if rng.below(4) == 0 { format!(".{}", rng.below(1000)) } else { String::new() };
    vec![format!("{n}{part}{}", UNITS[rng.below(UNITS.len() as u64) as usize])]
}

fn accepted(spec: &Spec, options: &[String]) -> Result<(), (ErrorKind, Option<String>)> {
    let words: Vec<&str> = options.iter().map(String::as_str).collect();
    spec.build(&mut Words::new(&words), &env()).map(|_| ()).map_err(|e| (e.kind, e.key))
}

/// Draws options that the kind accepts, or none. Each option is tried with several values, and kept
/// if the words can be read so far; at the end the kind must accept them all.
fn options(spec: &Spec, rng: &mut Rng) -> Option<Vec<String>> {
    if spec.kind == "mqprio" {
        // The words of mqprio are valid only together.
        let classes = 1 + rng.below(4);
        let list = |one: &dyn Fn(u64) -> String| (0..classes).map(one).collect::<Vec<_>>().join(" ");
        let map: Vec<String> = (0..1 + rng.below(16)).map(|_| rng.below(classes).to_string()).collect();
        let queues = list(&|tc| format!("1@{tc}"));
        let words = format!("num_tc {classes} map {} queues {queues} hw 0", map.join(" "));
        return Some(words.split(' ').map(String::from).collect());
    }
    if spec.kind == "gred" {
        // A virtual queue needs several words.
        let vqs = 1 + rng.below(16);
        let mut words = format!("setup vqs {vqs} default {}", rng.below(vqs));
        words += ["", " grio", " grio ecn", " harddrop"][rng.below(4) as usize];
        words += &format!(" limit {}", rng.below(1 << 20));
        for number in (0..vqs).filter(|_| rng.below(3) == 0).collect::<Vec<_>>() {
            let min = 1 + rng.below(100_000);
            let (max, avpkt) = (min + rng.below(100_000), 1 + rng.below(2000));
            words +=
                &format!(" vq {number} limit {} min {min} max {max} avpkt {avpkt}", 1 + rng.below(1 << 20));
            words += &format!(" burst {} prio {}", min / avpkt + 1 + rng.below(9), rng.below(256));
        }
        let options: Vec<String> = words.split(' ').map(String::from).collect();
        return accepted(spec, &options).ok().map(|()| options);
    }
    if spec.kind == "taprio" {
        // As those of taprio.
        let classes = 1 + rng.below(4);
        let list = |one: &dyn Fn(u64) -> String| (0..classes).map(one).collect::<Vec<_>>().join(" ");
        let queues = list(&|tc| format!("1@{tc}"));
        let entry = |rng: &mut Rng| {
            format!("sched-entry S {:x} {}", rng.below(1 << classes), 100_000 + rng.below(1 << 20))
        };
        let entries: Vec<String> = (0..1 + rng.below(4)).map(|_| entry(rng)).collect();
        let base = rng.below(1 << 40);
        let map = list(&|tc| tc.to_string());
        let words = format!(
            "num_tc {classes} map {map} queues {queues} clockid TAI base-time {base} {}",
            entries.join(" ")
        );
        return Some(words.split(' ').map(String::from).collect());
    }
    let mut options = Vec::new();
    for param in spec.params {
        if rng.below(3) == 0 {
            continue;
        }
        for _ in 0..40 {
            let mut tried = options.clone();
            let alone = param.words.is_empty() || !param.alone.is_empty() && rng.below(2) == 0;
            let words = if alone { param.alone } else { param.words };
            tried.push(words[rng.below(words.len() as u64) as usize].to_string());
            if !param.flag && !alone {
                tried.extend(value(rng));
            }
            if matches!(accepted(spec, &tried), Ok(()) | Err((ErrorKind::Missing, _))) {
                options = tried;
                break;
            }
        }
    }
    accepted(spec, &options).ok().map(|()| options)
}

/// Returns a device of several queues, on which every kind can be.
fn env() -> Env {
    Env { queues: 4, ..Env::default() }
}

/// Draws options for a class of the kind; each is tried, and kept if it can be read.
fn class_options(classes: &ClassSpec, rng: &mut Rng) -> Vec<String> {
    let mut options = Vec::new();
    for param in classes.params {
        let must = param.about.ends_with("Must be given.");
        if !must && rng.below(2) == 0 {
            continue;
        }
        for _ in 0..200 {
            let mut tried: Vec<String> = options.clone();
            tried.push(param.words[0].to_string());
            if param.expected == Curve::EXPECTED {
                for part in if rng.below(3) == 0 { &["m1", "d", "m2"][..] } else { &["m2"] } {
                    tried.push((*part).into());
                    tried.extend(value(rng));
                }
            } else if !param.flag {
                tried.extend(value(rng));
            }
            let words: Vec<&str> = tried.iter().map(String::as_str).collect();
            if classes.read(&mut Words::new(&words), &env()).is_ok() {
                options = tried;
                break;
            }
        }
    }
    options
}

/// Makes or changes classes with random options, one below another, with a qdisc in each. Returns
/// the number of commands that succeeded.
fn with_classes(tree: &mut Tree, handle: Handle, spec: &Spec, rng: &mut Rng) -> u64 {
    let Some(classes) = spec.classes else { return 0 };
    let mut taken = 0;
    for _ in 0..8 {
        let words = class_options(classes, rng);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let minor = 1 + rng.below(6) as u16;
        let (class, above) =
            (Handle::new(handle.major(), minor), Handle::new(handle.major(), rng.below(6) as u16));
        let (words, cx) = (&mut Words::new(&words), &mut Cx::new(1, 0));
        let done = match classes.made {
            true => tree.edit(cx).add_class(above, class, None, words),
            false => tree.edit(cx).change_class(None, class, None, words),
        };
        taken += u64::from(done.is_ok());
        let _ = tree.edit(cx).add(class, None, "pfifo", &mut Words::new(&["limit", "7"]));
    }
    taken
}

/// Makes a tree with that kind at the root or below a class, and returns it with the handle of the
/// qdisc.
fn tree(spec: &Spec, options: &[String], below: bool) -> (Tree, Handle) {
    let (mut tree, mut cx) = (Tree::new(env()), Cx::new(1, 0));
    let mut parent = Handle::ROOT;
    if below && !spec.root_only {
        tree.edit(&mut cx).add(parent, Some(Handle::new(1, 0)), "prio", &mut Words::new(&[])).expect("prio");
        parent = Handle::new(1, 2);
    }
    let words: Vec<&str> = options.iter().map(String::as_str).collect();
    let handle =
        tree.edit(&mut cx).add(parent, None, spec.kind, &mut Words::new(&words)).expect("accepted before");
    (tree, handle)
}

fn again(tree: &Tree) -> Tree {
    let mut again = Tree::new(*tree.env());
    let text = show::commands(tree, Some("eth0"));
    let policy = Policy::parse(&text, "p").unwrap_or_else(|e| panic!("{e}"));
    policy.apply(&mut again, &mut Cx::new(1, 0)).unwrap_or_else(|e| panic!("{e}"));
    again
}

/// Makes 300 random configurations of each kind, of which this call takes every `of`th from `share`
/// on, and reads them back. Returns the numbers of configurations and of class commands by kind.
fn read_back(share: u64, of: u64) -> (Vec<u64>, Vec<u64>) {
    let (mut seen, mut classes) = (vec![0; KINDS.len()], vec![0; KINDS.len()]);
    for seed in (0..300).filter(|round| round % of == share).flat_map(|round| {
        let kinds = KINDS.len() as u64;
        round * kinds..(round + 1) * kinds
    }) {
        let mut rng = Rng::new(seed);
        let at = (seed % KINDS.len() as u64) as usize;
        let Some(options) = options(KINDS[at], &mut rng) else { continue };
        seen[at] += 1;
        let (mut tree, handle) = tree(KINDS[at], &options, rng.below(2) == 1);
        classes[at] += with_classes(&mut tree, handle, KINDS[at], &mut rng);
        let back = again(&tree);
        assert_eq!(show::commands(&back, None), show::commands(&tree, None), "seed {seed}: {options:?}");
        assert_eq!(show::text(&back, None, true), show::text(&tree, None, true), "seed {seed}: {options:?}");
        assert_eq!(show::json(&back, None, true), show::json(&tree, None, true), "seed {seed}: {options:?}");
        // The values themselves must be equal too, because the output rounds.
        let (mut a, mut b) = (Vec::new(), Vec::new());
        tree.visit(&mut |_, n| n.qdisc().options(&mut |o| a.push((o.param.key, o.word, o.value.json()))));
        back.visit(&mut |_, n| n.qdisc().options(&mut |o| b.push((o.param.key, o.word, o.value.json()))));
        assert_eq!(a, b, "seed {seed}: {options:?}");
    }
    (seen, classes)
}

#[test]
fn random_configurations_read_back_as_themselves() {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let parts: Vec<_> = std::thread::scope(|s| {
        let parts: Vec<_> = (0..threads).map(|share| s.spawn(move || read_back(share, threads))).collect();
        parts.into_iter().map(|p| p.join().expect("the configurations of a thread")).collect()
    });
    let sum = |of: &dyn Fn(usize) -> u64| (0..parts.len()).map(of).sum::<u64>();
    for (i, kind) in KINDS.iter().enumerate() {
        let (seen, classes) = (sum(&|p| parts[p].0[i]), sum(&|p| parts[p].1[i]));
        // Few bursts of choke fit its least and largest average.
        let least = if kind.kind == "choke" { 5 } else { 20 };
        assert!(seen >= least, "only {seen} configurations of {}", kind.kind);
        assert!(kind.classes.is_none() || classes >= 20, "only {classes} classes of {}", kind.kind);
    }
}
