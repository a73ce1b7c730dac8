//! The memory budget of a link: text that asks for more is refused before anything is made.

use txweir_counted::held;
use txweir_daemon::protocol::{Ask, Batch};

use crate::common::{World, circuits};

#[test]
fn a_text_that_asks_for_too_much_memory_is_refused_with_its_line() {
    let mut text = String::from("qdisc replace dev lan root handle 1: drr\n");
    for i in 1..=1000 {
        text.push_str(&format!("class replace dev lan parent 1: classid 1:{i:x} drr\n"));
        let parent = format!("parent 1:{i:x} handle {:x}:", i + 1);
        text.push_str(&format!("qdisc replace dev lan {parent} fq_codel flows 65536\n"));
    }
    for flags in ["--atomic --dry-run", "--atomic", ""] {
        let mut world = World::with(&["add lan"]);
        let before = world.save();
        let args = format!("{flags} -b b").split_whitespace().map(String::from).collect();
        let batch = Some(Batch { name: "b".into(), text: text.clone(), lines_before: 0, more: false });
        let reply = world.daemon.answer(world.now, &Ask::Tc { args, batch, class_names: None });
        assert_ne!(reply.status, 0);
        // 5.2 MB each: the 205th does not fit into 1 GiB.
        let told = format!("{flags}: {}", reply.stderr);
        assert!(told.contains("b:411:"), "{told}");
        assert!(told.contains("1073741824 bytes of tables"), "{told}");
        if !flags.is_empty() {
            assert_eq!(world.save(), before, "{flags}");
        }
        world.tc("qdisc replace dev lan root fq_codel");
    }
}

/// Returns lines that give a link a root of classes, each with tables of 5.2 MB.
fn large(link: &str, classes: u32) -> String {
    let mut text = format!("qdisc replace dev {link} root handle 1: drr\n");
    for i in 1..=classes {
        text.push_str(&format!("class replace dev {link} parent 1: classid 1:{i:x} drr\n"));
        let place = format!("parent 1:{i:x} handle {:x}:", i + 1);
        text.push_str(&format!("qdisc replace dev {link} {place} fq_codel flows 65536\n"));
    }
    text
}

const MIB: u64 = 1 << 20;

/// Performs a batch, and returns its status and what it said.
fn tried(world: &mut World, flags: &str, text: &str) -> (u8, String) {
    let args = format!("{flags} -b b").split_whitespace().map(String::from).collect();
    let batch = Some(Batch { name: "b".into(), text: text.into(), lines_before: 0, more: false });
    let reply = world.daemon.answer(world.now, &Ask::Tc { args, batch, class_names: None });
    (reply.status, reply.stderr)
}

#[test]
fn all_links_together_have_a_budget() {
    for flags in ["", "--atomic", "--atomic --dry-run"] {
        let mut world = World::with(&["add a", "add b", "add c"]);
        world.daemon.links_mut().set_tables(22 * MIB);
        let before = world.save();
        let text = large("a", 2) + &large("b", 1) + &large("c", 2);
        let (status, told) = tried(&mut world, flags, &text);
        // The fifth of 5.2 MB does not fit beside the four.
        assert_ne!(status, 0, "{flags}");
        assert!(told.contains("b:13") && told.contains("of a budget for all"), "{flags}: {told}");
        if !flags.is_empty() {
            assert_eq!(world.save(), before, "{flags}");
        }
    }
}

/// Another link can have the bytes that a link gives back, in one step too: whatever the order of
/// the links in the text.
#[test]
fn what_a_link_gives_back_is_free_for_others() {
    let mut world = World::with(&["add a", "add b"]);
    world.daemon.links_mut().set_tables(22 * MIB);
    let full = large("b", 3);
    for _ in 0..20 {
        world.batch("", &full);
        assert_ne!(tried(&mut world, "", &large("a", 3)).0, 0);
        world.tc("qdisc replace dev a root pfifo");
        let moved =
            format!("qdisc replace dev a root prio\nqdisc replace dev b root pfifo\n{}", large("a", 3));
        world.batch("--atomic", &moved);
        assert_ne!(tried(&mut world, "--atomic", &full).0, 0);
        world.batch("", "qdisc replace dev a root pfifo\n");
    }
    // A link that is gone has nothing.
    world.batch("", &full);
    world.link("del b");
    world.batch("--atomic", &large("a", 3));
}

/// A restart takes the configuration that was saved: lines that fitted one after the other fit as a
/// whole.
#[test]
fn what_was_saved_fits_again() {
    let mut world = World::with(&["add a", "add b"]);
    world.daemon.links_mut().set_tables(22 * MIB);
    world.batch("", &(large("a", 2) + &large("b", 2)));
    let saved = world.save();
    let mut again = World::default();
    again.daemon.links_mut().set_tables(22 * MIB);
    let reply = again.daemon.configure(again.now, "c", &saved);
    assert_eq!((reply.status, reply.stderr.as_str()), (0, ""));
    assert_eq!(again.save(), saved);
}

/// A circuit without traffic takes no table, and a reload in one step leaves as much as there was.
/// `-- --show-output` prints the figures of docs/daemon.md.
#[test]
fn thousands_of_idle_circuits_are_small() {
    for number in [1024, 10_000] {
        let mut world = World::with(&["add lan --type wire --rate 10gbit --queues 4"]);
        world.daemon.links_mut().set_tables(10 << 30);
        let before = held();
        let level = |since| u64::try_from(held() - since).unwrap_or(0);
        let text = circuits(number, "5mbit");
        assert_eq!(tried(&mut world, "", &text), (0, String::new()));
        let made = level(before);
        let mut levels = Vec::new();
        for text in [&text, &circuits(number, "6mbit"), &format!("qdisc del dev lan root\n{text}")] {
            assert_eq!(tried(&mut world, "--atomic", text), (0, String::new()));
            levels.push(level(before));
        }
        let each = |bytes: u64| bytes / u64::from(number);
        let after: Vec<u64> = levels.iter().map(|bytes| each(*bytes)).collect();
        println!("{number} idle circuits: {} bytes each, {after:?} after reloads", each(made));
        assert!(each(made) < 20 << 10, "{made} bytes");
        assert!(levels.iter().all(|reloaded| *reloaded < made + made / 10), "{made}, {levels:?} bytes");
    }
}
