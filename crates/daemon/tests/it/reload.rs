//! A configuration that is read again while a link carries packets, in virtual time.

use txweir_daemon::protocol::Reply;

use crate::common::World;

fn reload(world: &mut World, text: &str) -> Reply {
    let now = world.now;
    world.daemon.reload(now, "c.tc", text)
}

#[test]
fn a_configuration_is_read_again_and_keeps_the_packets_that_wait() {
    let mut world = World::with(&["add up --type wire --rate 1mbit", "add other"]);
    world.tc("qdisc add dev up root handle 1: pfifo limit 500");
    world.link("send up --packets 300");
    let waiting = world.count("up", "backlog_packets");
    assert!(waiting > 250, "{waiting}");
    // A new link, another rate, and other qdiscs.
    let text = "link replace up --type wire --rate 2mbit --txqueuelen 70\n\
                link replace lan --mtu 9000\n\
                qdisc replace dev up root handle 2: fq_codel limit 400\n\
                qdisc replace dev lan root handle 3: prio\n";
    assert_eq!(reload(&mut world, text), Reply::default());
    assert_eq!(world.count("up", "backlog_packets"), waiting);
    let saved = world.save();
    assert!(saved.contains("link replace up --type wire --mtu 1500 --txqueuelen 70 --wire rate=2Mbit"));
    assert!(
        saved.contains("link replace lan --type null --mtu 9000") && saved.contains("dev lan root handle 3:")
    );
    assert!(saved.contains("link replace other "), "what the configuration does not name stays");
    // A second time it changes nothing, and what `tc save` writes is a configuration.
    assert_eq!((reload(&mut world, text), world.save()), (Reply::default(), saved.clone()));
    assert_eq!((reload(&mut world, &saved), world.save()), (Reply::default(), saved));
    assert_eq!(world.count("up", "backlog_packets"), waiting);
}

#[test]
fn a_configuration_with_a_wrong_line_changes_nothing() {
    let mut world = World::with(&["add up --type wire --rate 1mbit"]);
    let before = world.save();
    for (text, said) in [
        ("link replace up --txqueuelen 7\nqdisc replace dev up root fq_codel limt 1\n", "c.tc:2:36"),
        ("link replace up --txqueuelen 7\nqdisc replace dev up parent 9:1 pfifo\n", "c.tc:2"),
        ("link replace up --txqueuelen 7\nlink replace up --type null\n", "c.tc:2"),
        ("link replace up --txqueuelen 7\nlink replace new --type tap --if no-such-if\n", "does not exist"),
        ("qdisc replace dev up root handle 1: pfifo\nqdisc add dev nowhere root pfifo\n", "nowhere"),
    ] {
        let reply = reload(&mut world, text);
        assert!(reply.status > 0 && reply.stderr.contains(said), "{text}: {}", reply.stderr);
        assert_eq!(world.save(), before, "{text}");
    }
}
