//! Large policies on a running daemon: the stops of packets while they change, and the cost of a
//! change. Work is counted in calls of the allocator, which is the clock of these daemons.

use txweir_core::Instant;
use txweir_counted::{calls, made};
use txweir_daemon::protocol::{Ask, Batch, Reply};

use crate::common::{World, circuits};

/// Nanoseconds that one call of the allocator lasts: 500 between two turns of the links.
const CALL: u64 = 1000;

/// Returns a daemon with a link of four queues and so many circuits.
fn world(number: u32) -> World {
    let mut world = World::with(&["add lan --type wire --rate 10gbit --queues 4"]);
    world.daemon.links_mut().set_tables(10 << 30);
    let begun = made();
    world.daemon.links_mut().set_clock(Box::new(move || Instant((made() - begun) * CALL)));
    assert_eq!(tried(&mut world, "", &circuits(number, "5mbit")), Reply::default());
    world
}

fn tried(world: &mut World, flags: &str, text: &str) -> Reply {
    let args = format!("{flags} -b b").split_whitespace().map(String::from).collect();
    let batch = Some(Batch { name: "b".into(), text: text.into(), lines_before: 0, more: false });
    world.daemon.answer(world.now, &Ask::Tc { args, batch, class_names: None })
}

/// Returns the most calls of the allocator between two turns of the links while `f` runs.
fn longest(world: &mut World, f: impl FnOnce(&mut World)) -> u64 {
    let _ = world.daemon.links_mut().take_longest();
    f(world);
    world.daemon.links_mut().take_longest().0 / CALL
}

/// Returns the text with a root that is made anew.
fn anew(text: &str) -> String {
    format!("qdisc del dev lan root\n{text}")
}

/// A change of a large policy makes way for packets between steps whose size does not grow with the
/// policy.
#[test]
fn packets_pass_between_the_steps_of_a_reload() {
    let stops = [64, 1024, 10_000].map(|number| {
        let (all, others) = (circuits(number, "5mbit"), circuits(number, "6mbit"));
        let mut world = world(number);
        let mut good = |flags: &str, text: &str| {
            longest(&mut world, |world| assert_eq!(tried(world, flags, text), Reply::default()))
        };
        let one = all.replacen("5mbit", "7mbit", 1);
        let more = "class replace dev lan parent 2:1 classid 2:fff0 htb rate 1mbit\n\
                    qdisc replace dev lan parent 2:fff0 cake diffserv4\n";
        let stops = [
            ("line by line", good("", &all)),
            ("the same", good("--atomic", &all)),
            ("one other rate", good("--atomic", &one)),
            ("all rates", good("--atomic", &others)),
            ("a new root", good("--atomic", &anew(&all))),
            ("one circuit more", good("--atomic", &format!("{all}{more}"))),
            ("one line", good("--atomic", "class change dev lan classid 2:2 htb rate 9mbit\n")),
        ];
        let wrong = format!("{others}qdisc add dev lan root nothing\n");
        let before = world.save();
        let refused = longest(&mut world, |world| assert_eq!(tried(world, "--atomic", &wrong).status, 1));
        assert!(world.save() == before, "a refused batch has changed something");
        let now = world.now;
        let reloaded = longest(&mut world, |world| {
            assert_eq!(world.daemon.reload(now, "c", &anew(&all)), Reply::default());
        });
        let saved = longest(&mut world, |world| assert!(world.save().len() > 100 * number as usize));
        (stops, refused, reloaded, saved)
    });
    println!("{stops:#?}");
    for (each, refused, reloaded, saved) in stops {
        for (name, calls) in
            each.into_iter().chain([("refused", refused), ("reload", reloaded), ("save", saved)])
        {
            // 500 calls, the step that has begun by then, and the swap of four queues.
            assert!(calls <= 2000, "{name}: {calls}");
        }
    }
}

/// One changed rate costs as much among ten thousand circuits as among a few.
#[test]
fn one_changed_rate_costs_the_same_among_many() {
    let costs = [64, 10_000].map(|number| {
        let mut world = world(number);
        ["", "--atomic"].map(|flags| {
            let mut rate = 5;
            let mut cost = || {
                rate += 1;
                let line = format!("class change dev lan classid 2:2 htb rate {rate}mbit ceil 50mbit\n");
                calls(|| assert_eq!(tried(&mut world, flags, &line), Reply::default()))
            };
            // The first may be the first of its sort.
            let _ = cost();
            cost()
        })
    });
    println!("{costs:?}");
    assert_eq!(costs[0], costs[1]);
    assert!(costs[0].iter().all(|calls| *calls < 500), "{costs:?}");
}

/// A reload that changes some rates leaves the state of all other objects, and the packets that
/// wait stay where they are.
#[test]
fn a_reload_changes_what_differs_and_nothing_else() {
    let mut world = World::with(&["add lan --type wire --rate 1mbit --queues 4"]);
    world.daemon.links_mut().set_tables(10 << 30);
    let text = circuits(400, "5mbit");
    assert_eq!(tried(&mut world, "", &text), Reply::default());
    world.link("send lan --packets 300");
    let counted = |world: &mut World| {
        let shown = world.tc("-s class show dev lan");
        let lines = shown.lines().filter(|line| line.contains("Sent") || line.contains("backlog"));
        lines.map(String::from).collect::<Vec<_>>()
    };
    let (before, waiting) = (counted(&mut world), world.count("lan", "backlog_packets"));
    assert!(waiting > 200, "{waiting}");
    let other = text.replacen("rate 5mbit", "rate 7mbit", 3);
    assert_eq!(tried(&mut world, "--atomic", &other), Reply::default());
    assert_eq!((counted(&mut world), world.count("lan", "backlog_packets")), (before, waiting));
    assert_eq!(world.tc("class show dev lan").matches("rate 7Mbit").count(), 3);
    // A new root keeps the packets, and none of the counters.
    assert_eq!(tried(&mut world, "--atomic", &anew(&text)), Reply::default());
    assert_eq!(world.count("lan", "backlog_packets"), waiting);
    assert_eq!(world.tc("class show dev lan").matches("rate 7Mbit").count(), 0);
    // Lines about one object twice, and lines that make and delete, are done in their order.
    let twice = "class change dev lan classid 2:2 htb rate 8mbit\n\
                 class change dev lan classid 2:2 htb rate 9mbit\n\
                 qdisc change dev lan parent 2:3 cake bandwidth 3mbit\n\
                 qdisc del dev lan parent 2:3\n\
                 qdisc add dev lan parent 2:3 handle 77: pfifo limit 7\n\
                 class del dev lan classid 2:4\n";
    assert_eq!(tried(&mut world, "--atomic", twice), Reply::default());
    let saved = world.save();
    assert!(saved.contains("classid 2:2 htb rate 1125000bps") && !saved.contains("classid 2:4 "), "{saved}");
    assert!(saved.contains("parent 2:3 handle 77: pfifo limit 7p"), "{saved}");
}

/// A saved configuration makes the same ten thousand circuits again, at a start and in a running
/// daemon.
#[test]
fn ten_thousand_circuits_are_saved_and_read_again() {
    let mut first = world(10_000);
    let saved = first.save();
    let mut again = World::default();
    again.daemon.links_mut().set_tables(10 << 30);
    let now = again.now;
    assert_eq!(again.daemon.configure(now, "c", &saved), Reply::default());
    assert!(again.save() == saved);
    assert_eq!(again.daemon.reload(now, "c", &saved), Reply::default());
    assert!(again.save() == saved);
}
