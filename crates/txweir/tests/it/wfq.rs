//! A kind that a test registers in two source edits, its file and a line: the grammar, `show`,
//! `check` and the laws take it from its declarations.

#[path = "../../examples/wfq.rs"]
#[allow(dead_code)]
mod example;

use std::sync::Arc;

use example::{WFQ, kinds, run};
use txweir::core::qdisc::Registry;
use txweir::core::sched::spec::Spec;
use txweir::tc::{Policy, Source};
use txweir::{Env, ErrorKind};
use txweir_laws::Part;
use txweir_lint::check::{self, CheckOptions};
use txweir_lint::script;

/// A text whose commands may name wfq.
fn source(text: &str) -> Source {
    Source::new("t", text).with_kinds(kinds().expect("wfq is no built-in kind"))
}

fn refused(text: &str) -> String {
    Policy::of(source(text), 0..text.len()).expect_err("a bad line").to_string()
}

#[test]
fn bands_share_the_line_by_weight() {
    let (sent, _) = run("qdisc add root handle 1: wfq limit 300 ratio 3\n", 80).expect("runs");
    let of = |band: u32| sent.iter().filter(|p| **p == band).count();
    // 27, 9, 3 and 1 parts of 40.
    assert_eq!([of(0), of(1), of(2), of(3)], [54, 18, 6, 2]);
}

mod the_laws {
    txweir_laws::laws!(super::example::kind::Wfq);
}

#[test]
fn the_laws_can_fail() {
    static LAZY: Spec = Spec::of::<lazy::Lazy<0>>();
    let broken = txweir_laws::check(&LAZY, 4, 200).expect_err("a qdisc that keeps its packets");
    assert!(broken.starts_with("lazy: law "), "{broken}");
    assert!(Part::Swarm.check(&LAZY, 4, 200).is_err());
}

#[test]
fn the_language_reads_and_prints_it() {
    let (_, shown) = run("qdisc add root handle 1: wfq limit 300 ratio 3\n", 0).expect("runs");
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "qdisc wfq 1: dev eth0 root refcnt 2 limit 300p ratio 3");
    assert_eq!(lines[3], "  begun 4");
    assert!(refused("qdisc add root wfq ratoi 3").contains("wfq has no parameter \"ratoi\""));
    assert!(refused("qdisc add root wfq ratio 17").contains("wfq ratio: 17 is out of range"));
    assert!(refused("qdisc add root wqf").contains("did you mean \"wfq\"?"));
    let text = "qdisc add root handle 1: wfq limit 10\n";
    let policy = Policy::of(source(text), 0..text.len()).expect("a good line");
    policy.check(&Env::default()).expect("it can be applied");
    // Without the registry the kind is not there.
    assert!(Policy::parse(text, "t").is_err());
}

#[test]
fn a_check_knows_its_facts() {
    let source = Arc::new(source("qdisc add dev eth0 root handle 1: wfq limit 200\n"));
    let report = check::check(&source, script::read(&source), &CheckOptions::default());
    let [fact] = report.facts.as_slice() else { panic!("{:?}", report.facts) };
    assert_eq!((fact.kind.as_str(), fact.holds.as_str()), ("wfq", "200 packets of 1514 bytes"));
    let said: Vec<String> = report.diagnostics.iter().map(|d| d.brief()).collect();
    assert_eq!(said, ["t:1:35: qdisc wfq is txweir's own: Linux has none"]);
}

#[test]
fn a_name_is_taken_once() {
    static FIFO: Spec = Spec::of::<lazy::Lazy<1>>();
    static ODD: Spec = Spec::of::<lazy::Lazy<2>>();
    static TAKEN: &[&Spec] = &[&FIFO];
    static TWICE: &[&Spec] = &[&WFQ, &WFQ];
    static NO_WORD: &[&Spec] = &[&ODD];
    let kind_of = |specs| Registry::with(specs).map(|_| ()).map_err(|e| e.kind);
    assert_eq!(kind_of(TAKEN), Err(ErrorKind::Exists));
    assert_eq!(kind_of(TWICE), Err(ErrorKind::Exists));
    assert_eq!(kind_of(NO_WORD), Err(ErrorKind::BadValue));
}

/// A kind with a bug: it keeps every packet.
mod lazy {
    use txweir::core::packet::pool::{List, Pkt, Pool, Queue, Waiting};
    use txweir::core::packet::route::Candidate;
    use txweir::core::qdisc::fifo::NoStats;
    use txweir::core::qdisc::pfifo_fast::NoParams;
    use txweir::core::sched::answer::{Next, Verdict};
    use txweir::core::sched::cx::Cx;
    use txweir::core::sched::discipline::Discipline;
    use txweir::core::sched::spec::Flags;
    use txweir::{ClassId, ConfigError, Env};

    #[derive(Debug)]
    pub struct Lazy<const NAME: usize>(Queue);

    impl<const NAME: usize> Discipline for Lazy<NAME> {
        const KIND: &'static str = ["lazy", "pfifo", "w fq"][NAME];
        const ABOUT: &'static str = "Keeps every packet.";
        const FLAGS: Flags = Flags { shapes: false, reorders: false };
        type Config = NoParams;
        type Rules = ();
        type Stats = NoStats;

        fn resolve(_: &mut NoParams, _: Option<&NoParams>, _: &Env) -> Result<(), ConfigError> {
            Ok(())
        }
        fn new(_: &NoParams, (): (), _: &Env) -> Self {
            Self(Queue::new())
        }
        fn change(&mut self, _: &NoParams, (): (), _: &Env, _: &mut Cx) {}
        fn would_accept(&self, _: &Candidate<'_>, _: Option<ClassId>) -> Verdict {
            Verdict::Accept
        }
        fn enqueue(&mut self, p: Pkt, _: Option<ClassId>, cx: &mut Cx) {
            self.0.push_back(&mut cx.pool, p);
        }
        fn dequeue(&mut self, _: &mut Cx) -> Next {
            Next::Empty
        }
        fn evict_all(&mut self, out: &mut List, pool: &mut Pool) {
            self.0.evict_all(out, pool);
        }
        fn queued(&self, pool: &Pool, f: &mut dyn FnMut(Waiting<'_>)) {
            self.0.waiting(pool).for_each(f);
        }
        fn reset(&mut self, _: &mut Cx) {}
        fn stats(&self) -> NoStats {
            NoStats {}
        }
    }
}
