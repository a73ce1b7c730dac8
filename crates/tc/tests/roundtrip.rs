//! Any configuration of any kind reads back as itself, and no text panics.

use proptest::prelude::*;
use txweir_core::cx::Cx;
use txweir_core::qdisc::KINDS;
use txweir_core::rng::Rng;
use txweir_core::spec::Spec;
use txweir_core::value::Words;
use txweir_core::{Env, ErrorKind, Handle, Tree};
use txweir_tc::{Policy, show};

/// A value such as somebody may give, of any type.
fn value(rng: &mut Rng) -> Vec<String> {
    const UNITS: [&str; 14] =
        ["", "", "", "bit", "kbit", "mbit", "bps", "kb", "b", "s", "ms", "us", "ns", "p"];
    if rng.below(8) == 0 {
        let n = 1 + rng.below(16);
        return (0..n).map(|_| rng.below(4).to_string()).collect();
    }
    let shift = rng.below(64);
    let n = rng.next_u64() >> shift;
    let part = if rng.below(4) == 0 { format!(".{}", rng.below(1000)) } else { String::new() };
    vec![format!("{n}{part}{}", UNITS[rng.below(UNITS.len() as u64) as usize])]
}

fn accepted(spec: &Spec, options: &[String]) -> Result<(), (ErrorKind, Option<String>)> {
    let words: Vec<&str> = options.iter().map(String::as_str).collect();
    spec.build(&mut Words::new(&words), &Env::default()).map(|_| ()).map_err(|e| (e.kind, e.key))
}

/// Options that the kind accepts: each is tried, with several values, and kept if what is there is still
/// readable; at the end the kind must be content, or there are none.
fn options(spec: &Spec, rng: &mut Rng) -> Option<Vec<String>> {
    let mut options = Vec::new();
    for param in spec.params {
        if rng.below(3) == 0 {
            continue;
        }
        for _ in 0..40 {
            let mut tried = options.clone();
            tried.push(param.words[rng.below(param.words.len() as u64) as usize].to_string());
            if !param.flag {
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

/// A tree with that kind at the root or below a class.
fn tree(spec: &Spec, options: &[String], below: bool) -> Tree {
    let (mut tree, mut cx) = (Tree::new(Env::default()), Cx::new(1, 0));
    let mut parent = Handle::ROOT;
    if below {
        tree.add(parent, Some(Handle::new(1, 0)), "prio", &mut Words::new(&[]), &mut cx).expect("prio");
        parent = Handle::new(1, 2);
    }
    let words: Vec<&str> = options.iter().map(String::as_str).collect();
    tree.add(parent, None, spec.kind, &mut Words::new(&words), &mut cx).expect("accepted before");
    tree
}

fn again(tree: &Tree) -> Tree {
    let mut again = Tree::new(*tree.env());
    let text = show::commands(tree, Some("eth0"));
    let policy = Policy::parse(&text, "p").unwrap_or_else(|e| panic!("{e}"));
    policy.apply(&mut again, &mut Cx::new(1, 0)).unwrap_or_else(|e| panic!("{e}"));
    again
}

#[test]
fn random_configurations_read_back_as_themselves() {
    let mut seen = vec![0; KINDS.len()];
    for seed in 0..2000u64 {
        let mut rng = Rng::new(seed);
        let at = (seed % KINDS.len() as u64) as usize;
        let Some(options) = options(KINDS[at], &mut rng) else { continue };
        seen[at] += 1;
        let tree = tree(KINDS[at], &options, rng.below(2) == 1);
        let back = again(&tree);
        assert_eq!(show::commands(&back, None), show::commands(&tree, None), "seed {seed}: {options:?}");
        assert_eq!(show::text(&back, None, true), show::text(&tree, None, true), "seed {seed}: {options:?}");
        assert_eq!(show::json(&back, None, true), show::json(&tree, None, true), "seed {seed}: {options:?}");
        // The values themselves, beyond what is printed rounded.
        let (mut a, mut b) = (Vec::new(), Vec::new());
        tree.visit(&mut |_, n| n.qdisc().options(&mut |o| a.push((o.param.key, o.word, o.value.json()))));
        back.visit(&mut |_, n| n.qdisc().options(&mut |o| b.push((o.param.key, o.word, o.value.json()))));
        assert_eq!(a, b, "seed {seed}: {options:?}");
    }
    for (kind, n) in KINDS.iter().zip(seen) {
        assert!(n >= 20, "only {n} configurations of {}", kind.kind);
    }
}

/// Lines that are good, to start mistakes from.
const GOOD: [&str; 6] = [
    "qdisc add dev eth0 root handle 1: prio bands 4 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 3",
    "tc qdisc replace dev eth0 parent 1:1 handle 10: tbf rate 1mbit burst 5kb latency 50ms peakrate 2mbit mtu 1540",
    "qdisc change root fq_codel limit 1000 flows 64 target 5ms interval 100ms ecn drop_batch 3",
    "q d parent 1:2",
    "qdisc add root codel limit 100 target 1.5ms \\\n noecn # tail",
    "qdisc add root 'bfifo' limit \"10kb\"",
];

/// Whatever came of it, it can be printed, and its spans lie in the text.
fn print(text: &str) {
    match Policy::parse(text, "p") {
        Ok(policy) => {
            let mut tree = Tree::new(Env::default());
            let applied = policy.apply(&mut tree, &mut Cx::new(1, 0));
            assert!(policy.warnings().iter().all(|d| text.get(d.span.clone()).is_some()));
            match applied {
                Err(d) => assert!(text.get(d.span.clone()).is_some(), "{d}"),
                // What was applied can be said again.
                Ok(()) => assert_eq!(show::commands(&again(&tree), None), show::commands(&tree, None)),
            }
        }
        Err(all) => {
            serde_json::from_str::<serde_json::Value>(&all.json()).expect("JSON");
            let _ = all.to_string();
            assert!(all.iter().all(|d| text.get(d.span.clone()).is_some() && !d.brief().is_empty()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn any_text(text in ".{0,200}") {
        print(&text);
    }

    #[test]
    fn any_words(words in prop::collection::vec(prop::sample::select(vec![
        "tc", "qdisc", "add", "replace", "change", "del", "dev", "root", "parent", "handle", "1:", "1:1", "ffff:",
        "prio", "tbf", "fq_codel", "pfifo", "limit", "rate", "10", "5", "ms", "1mbit", "burst", "5kb", "bands",
        "ecn", "\n", "#", "'", "\"", "\\", "class", "0", "99999999999999999999", "latency",
    ]), 0..24)) {
        print(&words.join(" "));
    }

    #[test]
    fn mutated_lines(at in 0..GOOD.len(), cut in any::<prop::sample::Index>(), len in 0..6usize, put in "\\PC{0,4}") {
        let mut line: Vec<char> = GOOD[at].chars().collect();
        let cut = cut.index(line.len());
        let end = (cut + len).min(line.len());
        line.splice(cut..end, put.chars());
        print(&line.into_iter().collect::<String>());
    }
}
