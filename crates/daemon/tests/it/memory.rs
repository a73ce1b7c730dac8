//! The memory budget of a link: text that asks for more is refused before anything is made.

use txweir_daemon::protocol::{Ask, Batch};

use crate::common::World;

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
        let batch = Some(Batch { name: "b".into(), text: text.clone(), lines_before: 0 });
        let reply = world.daemon.answer(world.now, &Ask::Tc { args, batch, class_names: None });
        assert_ne!(reply.status, 0);
        // 4.7 MB each: the 57th does not fit into 256 MiB.
        let told = format!("{flags}: {}", reply.stderr);
        assert!(told.contains("b:115:") || told.contains("b:115"), "{told}");
        assert!(told.contains("268435456 bytes of tables"), "{told}");
        if !flags.is_empty() {
            assert_eq!(world.save(), before, "{flags}");
        }
        world.tc("qdisc replace dev lan root fq_codel");
    }
}
