//! The law of saving: the lines of a configuration make it again, and are then saved as the same
//! text. Policies by chance, of chains, hash tables, links between them, and other filters, that
//! are made and removed in any order.

use txweir_core::base::rng::Rng;
use txweir_tc::Source;
use txweir_tc::memory::Memory;
use txweir_tc::tool::{Outcome, Request, run, save};

fn tc(devices: &mut Memory, line: &str) -> Outcome {
    let args = line.split_whitespace().map(String::from).collect();
    run(&Request { args, ..Request::default() }, devices)
}

/// Returns a daemon's devices after these lines, all of which succeed.
fn made(text: &str) -> Memory {
    let mut devices = Memory::new(&["a", "b"]);
    let request = Request {
        args: vec!["-b".into(), "b".into()],
        batch: Some(Source::new("b", text)),
        ..Request::default()
    };
    let done = run(&request, &mut devices);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{text}");
    devices
}

/// Checks that the saved lines make a configuration that is saved as the same text.
fn holds(devices: &mut Memory, told: &str) {
    let saved = save(devices);
    let mut again = made(&saved);
    assert_eq!(save(&mut again), saved, "{told}");
}

/// Returns a line that may be refused. With `deletes` priorities, chains, tables and filters are
/// deleted: as in Linux, hash tables outlive their priority, and no line shows them.
fn line(rng: &mut Rng, deletes: bool) -> String {
    let mut n = |of: u64| rng.below(of);
    let place =
        ["dev a egress", "dev a ingress", "dev b parent 1:", "dev b parent 2:", "block 22"][n(5) as usize];
    let (chain, prio) = (n(4), 1 + n(5));
    let at = format!("{place} chain {chain} protocol ip prio {prio}");
    let (table, id, host) = (1 + n(4), 1 + n(6), n(200));
    match n(16) {
        0 if n(3) == 0 => format!("filter add {at} handle {:x}: u32 divisor 2", 0x800 + n(4)),
        1 if deletes && n(2) == 0 => format!("filter del {at} handle {table}: u32"),
        0 | 1 => format!("filter add {at} handle {table}: u32 divisor {}", 1 << n(5)),
        2 => format!("filter add {at} u32 divisor {}", 1 << n(5)),
        3 | 4 => format!("filter add {at} handle {id:x} u32 match ip dst 10.0.0.{host}/32 action pass"),
        5 => format!("filter add {at} u32 match ip src 10.0.0.{host}/32 action drop"),
        6 | 7 => {
            format!("filter add {at} u32 ht {table}:{}: match ip dst 10.0.0.{host}/32 action pass", n(2))
        }
        8 | 9 => {
            format!("filter add {at} u32 match ip dst 10.0.0.0/8 link {table}: hashkey mask 0xff at 16")
        }
        10 => format!("filter add {at} flower dst_ip 10.0.0.{host} action gact goto chain {}", n(4)),
        11 => format!("filter add {at} handle {id} fw action drop"),
        12 => format!("chain add {place} chain {chain}"),
        13 if deletes => format!("chain del {place} chain {chain}"),
        14 if deletes => format!("filter del {at}"),
        _ => format!("filter add {at} matchall action gact pass index {id}"),
    }
}

const DEVICES: &str = "qdisc add dev a egress_block 23 clsact
qdisc add dev a root handle 1: prio
qdisc add dev b ingress_block 22 ingress
qdisc add dev b root handle 1: prio
qdisc add dev b parent 1:1 handle 2: drr
";

#[test]
fn what_is_saved_is_saved_as_the_same_text_again() {
    let given = std::env::var("TXWEIR_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = given.map_or(1..201, |seed: u64| seed..seed + 1);
    let mut lines = 0;
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let mut devices = made(DEVICES);
        for _ in 0..rng.below(60) {
            lines += usize::from(tc(&mut devices, &line(&mut rng, seed % 2 == 0)).status == 0);
        }
        holds(&mut devices, &format!("TXWEIR_SEED={seed}"));
    }
    assert!(given.is_some() || lines > 2000, "{lines}");
}

/// A table outlives its priority while another one is there, and filters may link to it: the saved
/// lines make it, with its filters, and no priority for it.
#[test]
fn a_table_without_a_priority_is_saved() {
    let mut devices = made(
        "qdisc add dev a clsact
filter add dev a egress protocol ip prio 1 handle 7: u32 divisor 2
filter add dev a egress protocol ip prio 1 u32 ht 7:1: match ip dst 10.0.0.7/32 action drop
filter add dev a egress protocol ip prio 2 u32 match ip src 10.0.0.0/8 link 7: hashkey mask 0xff at 16
filter del dev a egress protocol ip prio 1
",
    );
    let saved = save(&mut devices);
    assert!(saved.contains("handle 7: u32 divisor 2") && saved.contains("link 7:"), "{saved}");
    assert!(saved.contains("handle 7:1:800 u32 ht 7:1:"), "{saved}");
    holds(&mut devices, "a table without a priority");
    let mut again = made(&saved);
    let prios = |devices: &mut Memory| tc(devices, "filter show dev a egress prio 2").stdout;
    assert_eq!(prios(&mut again).replace("801", "800"), prios(&mut devices).replace("801", "800"));
    assert_eq!(tc(&mut again, "filter show dev a egress prio 1").stdout, "");
    assert_eq!(tc(&mut again, "filter show dev a egress prio 65534").stdout, "");
}

/// A table may have a default number that a root had before: the root that takes it at a restart
/// gives way.
#[test]
fn a_table_with_the_number_of_a_root_is_saved() {
    let mut devices = made(
        "qdisc add dev a clsact
filter add dev a egress protocol ip prio 1 u32 match ip dst 10.0.0.7/32 action drop
filter add dev a egress protocol ip prio 2 u32 match ip dst 10.0.0.8/32 action drop
filter del dev a egress protocol ip prio 1
filter add dev a egress protocol ip prio 2 handle 800: u32 divisor 4
filter add dev a egress protocol ip prio 2 u32 match ip src 10.0.0.0/8 link 800: hashkey mask 0x3 at 16
",
    );
    holds(&mut devices, "a number of a root");
}

/// A chain that stays comes before one that has hash tables, and the others after both: this is the
/// order in which the lines make them.
#[test]
fn chains_beside_hash_tables_are_saved_in_the_order_in_which_their_lines_make_them() {
    let mut devices = made(
        "qdisc add dev a clsact
filter add dev a egress chain 5 protocol ip prio 1 matchall action drop
filter add dev a egress chain 3 protocol ip prio 1 handle 1: u32 divisor 4
filter add dev a egress chain 3 protocol ip prio 2 matchall action drop
chain add dev a egress chain 9
filter add dev a egress chain 9 protocol ip prio 1 matchall action drop
",
    );
    let saved = save(&mut devices);
    let chains: Vec<&str> = saved.lines().filter_map(|line| line.split(" chain ").nth(1)?.get(..1)).collect();
    assert_eq!(chains, ["9", "3", "9", "3", "5"], "{saved}");
    holds(&mut devices, "chains");
}
