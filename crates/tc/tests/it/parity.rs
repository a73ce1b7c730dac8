//! Tests of the rows of PARITY.md about language and output that no other test shows, against
//! literal text. Each comment names the row and the behaviour of tc (iproute2 6.1 on Linux 6).

use txweir_core::sched::cx::Cx;
use txweir_core::{Env, Tree};
use txweir_tc::{Policy, show};

/// Returns the output after a policy, or its first error.
fn shown(policy: &str) -> Result<String, String> {
    let mut tree = Tree::new(Env::default());
    let policy = Policy::parse(policy, "p").map_err(|all| all.first().brief())?;
    policy.apply(&mut tree, &mut Cx::new(1, 0)).map_err(|d| d.brief())?;
    Ok(show::text(&tree, None, false))
}

/// Row tbf-ticks. tc prints `burst 1250b lat 7us` too, and `burst 52b lat 1.36e+03s`.
#[test]
fn a_long_burst_is_shown_as_it_is() {
    for (options, expected) in [
        ("rate 10gbit burst 1500 limit 10000", "rate 10Gbit burst 1250b lat 7us "),
        ("rate 10bit burst 5000 limit 10000", "rate 8bit burst 5000b lat 5e+03s "),
    ] {
        let line = shown(&format!("qdisc add root handle 1: tbf {options}"));
        assert_eq!(line, Ok(format!("qdisc tbf 1: root refcnt 2 {expected}\n")), "{options}");
    }
}

/// Row packet-unit. tc answers `Illegal value for "limit": "10p"`.
#[test]
fn a_number_of_packets_may_have_its_unit() {
    for kind in ["pfifo", "codel"] {
        let [bare, unit] = ["10", "10p"].map(|limit| shown(&format!("qdisc add root {kind} limit {limit}")));
        assert!(bare.as_ref().is_ok_and(|line| line.contains(" limit 10p")), "{bare:?}");
        assert_eq!(bare, unit);
    }
}

/// Row zero-options. tc does not send these zeros, and the defaults stay.
#[test]
fn a_zero_is_taken_or_refused_and_not_passed_over() {
    assert_eq!(
        shown("qdisc add root handle 1: codel limit 0 target 0"),
        Ok("qdisc codel 1: root refcnt 2 limit 0p target 0us interval 100ms \n".into())
    );
    for (options, refused) in [
        ("codel interval 0", "p:1:31: codel interval: 0 is out of range (expected 1024ns to 137s)"),
        ("fq_codel limit 0", "p:1:31: fq_codel limit: 0 is out of range (expected at least 1 packet)"),
        ("fq_codel flows 0", "p:1:31: fq_codel flows: 0 is out of range (expected 1 to 65536)"),
        ("fq_codel quantum 0", "p:1:33: fq_codel quantum: 0 is out of range (expected 256 to 1048576 bytes)"),
        ("fq_codel drop_batch 0", "p:1:36: fq_codel drop_batch: 0 is out of range (expected at least 1)"),
    ] {
        assert_eq!(shown(&format!("qdisc add root {options}")), Err(refused.into()), "{options}");
    }
}

/// Row handle-is-enough. tc answers `Classid cannot be zero`.
#[test]
fn a_handle_says_what_to_delete() {
    let tree = "qdisc add root handle 1: prio\nqdisc add parent 1:2 handle 30: pfifo limit 7\n";
    let prio = "qdisc prio 1: root refcnt 2 bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1\n";
    assert_eq!(shown(tree), Ok(format!("{prio}qdisc pfifo 30: parent 1:2 limit 7p\n")));
    assert_eq!(shown(&format!("{tree}qdisc del handle 30:")), Ok(prio.into()));
}

/// Row comment-start. `tc -b` reads `limit 12`, because a # anywhere in a line begins a comment.
#[test]
fn a_hash_within_a_word_begins_no_comment() {
    assert_eq!(
        shown("qdisc add root bfifo limit 12#3"),
        Err("p:1:28: bfifo limit: \"12#3\" is not a size (expected a size (1600, 32kb, 4mb; bare: bytes), at \
             most 4294967295 bytes)"
            .into())
    );
    assert_eq!(
        shown("qdisc add root handle 4: bfifo limit 12 #3"),
        Ok("qdisc bfifo 4: root refcnt 2 limit 12b\n".into())
    );
}

/// Row delete-options. tc reads the options and deletes the qdisc.
#[test]
fn options_of_a_delete_are_refused() {
    assert_eq!(
        shown("qdisc add root pfifo\nqdisc del root pfifo limit 1000"),
        Err("p:2:22: del takes no options".into())
    );
}

/// The objects of the section "Missing" are refused.
#[test]
fn what_is_not_there_is_refused() {
    for line in [
        "filter add matchall",
        "chain add",
        "actions add action drop",
        "qdisc add root teql0",
        "qdisc add root mq",
        "qdisc add root mqprio",
        "qdisc add root noqueue",
        "qdisc add ingress",
        "qdisc add clsact",
        "qdisc add parent 1:1 stab overhead 4 pfifo",
        "qdisc add ingress_block 1 ingress",
        "qdisc add root egress_block 1 pfifo",
    ] {
        assert!(shown(line).is_err_and(|said| said.starts_with("p:1:")), "{line}");
    }
}

/// Row estimator-silent. tc estimates rates and shows them.
#[test]
fn an_estimator_changes_nothing_and_says_so() {
    let line = "qdisc add root estimator 1s 8s pfifo limit 7";
    let policy = Policy::parse(line, "p").expect("read");
    let said: Vec<String> = policy.warnings().iter().map(|w| w.brief()).collect();
    assert_eq!(
        said,
        [
            "p:1:16: no rates are estimated here: this changes nothing (leave it out, and divide the counts of -s by the \
          time between)"
        ]
    );
    assert_eq!(shown(line), shown("qdisc add root pfifo limit 7"));
}

/// prio's `multiqueue` has had no effect in Linux since 2.6.27.
#[test]
fn multiqueue_of_prio_changes_nothing_and_says_so() {
    let line = "qdisc add root prio bands 2 multiqueue priomap 0 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1";
    let policy = Policy::parse(line, "p").expect("read");
    let said: Vec<String> = policy.warnings().iter().map(|w| w.brief()).collect();
    assert_eq!(
        said,
        ["p:1:29: multiqueue changes nothing (leave it out; multiq has a band for each queue of the device)"]
    );
    assert_eq!(shown(line), shown(&line.replace(" multiqueue", "")));
}

/// Row stab-once. As in Linux, only the first qdisc that packets meet can have a size
/// table.
#[test]
fn a_size_table_is_the_roots_and_goes_with_the_line_that_leaves_it_out() {
    let details = |policy: &str| {
        let mut tree = Tree::new(Env::default());
        let policy = Policy::parse(policy, "p").map_err(|all| all.first().brief())?;
        policy.apply(&mut tree, &mut Cx::new(1, 0)).map_err(|d| d.brief())?;
        let form = show::Form { details: true, ..show::Form::default() };
        Ok::<_, String>((show::qdiscs(&tree, &form, &|_, _| true), show::commands(&tree, None)))
    };
    let sized = "qdisc add root handle 1: stab linklayer adsl overhead 10 mpu 64 prio bands 4";
    let (text, commands) = details(sized).expect("good");
    assert!(text.contains("\n linklayer atm overhead 10 mpu 64 mtu 2047 tsize 512 \n"), "{text}");
    assert_eq!(details(&commands).expect("good"), (text, commands));
    let (text, _) = details(&format!("{sized}\nqdisc change root prio bands 5")).expect("good");
    assert!(!text.contains("linklayer"), "{text}");
    assert_eq!(
        details(&format!("{sized}\nqdisc add parent 1:1 stab overhead 4 pfifo")),
        Err("p:2:18: qdisc takes a size table at the root, or at the qdisc of a queue of mq or mqprio, given at \
             1:1 (it counts for all that is below)"
            .into())
    );
    // A class of mq or mqprio is a root to the packets of its queue.
    for root in ["mq", "mqprio num_tc 2 map 0 1 queues 1@0 1@1 hw 0"] {
        let env = Env { queues: 2, ..Env::default() };
        let (mut tree, mut cx) = (Tree::of_port(env), Cx::new(1, 0));
        let mut apply = |lines: &str| {
            let policy = Policy::parse(lines, "p").map_err(|all| all.first().brief())?;
            policy.apply(&mut tree, &mut cx).map_err(|d| d.brief())?;
            Ok::<_, String>(show::commands(&tree, None))
        };
        let both = format!("qdisc add root handle 1: {root}\nqdisc add parent 1:1 stab overhead 4 prio");
        let shown = apply(&both).expect("good");
        assert!(shown.contains("overhead 4"), "{shown}");
        let refused = apply("qdisc add parent 8001:1 stab overhead 4 pfifo").expect_err("below it");
        assert!(refused.contains("a size table at the root"), "{refused}");
        let changed = apply("qdisc change parent 1:1 prio bands 5").expect("good");
        assert!(!changed.contains("overhead"), "{changed}");
    }
}

/// Rows c-numbers and packets-as-size. tc reads numbers as in C, and `limit 5kb` as 5120 packets.
#[test]
fn numbers_are_decimal() {
    for (line, said) in [
        ("tbf rate 1e3kbit burst 6000 limit 9000", "p:1:25: tbf rate: \"1e3kbit\" is not a rate"),
        ("pfifo limit 0x10", "p:1:28: pfifo limit: \"0x10\" is not a number"),
        ("pfifo limit 5kb", "p:1:28: pfifo limit: \"5kb\" is not a number"),
    ] {
        let refused = shown(&format!("qdisc add root {line}")).expect_err("refused");
        assert!(refused.starts_with(said), "{refused}");
    }
}

/// Row replace-kind. Linux refuses another kind under an existing handle.
#[test]
fn replace_puts_another_kind_under_the_same_handle() {
    let there = "qdisc add root handle 1: prio";
    let after = shown(&format!("{there}\nqdisc replace root handle 1: pfifo limit 7"));
    assert_eq!(after, shown("qdisc add root handle 1: pfifo limit 7"));
}

/// Row dualpi2-range. tc answers `Illegal "memlimit"`.
#[test]
fn a_memlimit_may_have_its_unit() {
    let [bare, unit] =
        ["1048576", "1mb"].map(|limit| shown(&format!("qdisc add root dualpi2 memlimit {limit}")));
    assert!(bare.as_ref().is_ok_and(|line| line.contains(" memlimit 1048576B ")), "{bare:?}");
    assert_eq!(bare, unit);
}
