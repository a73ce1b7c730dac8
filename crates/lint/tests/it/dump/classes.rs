//! Classes in dumps: text of tc 6.1, JSON of newer versions, and JSON of txweir's own.

use txweir_tc::memory::Memory;

use super::{folder, made, read, tc};

/// The form of classes of newer iproute2, from its sources: JSON, with the options beside the
/// names, and counters in an object.
#[test]
fn classes_may_be_json_of_newer_versions() {
    let text = include_str!("../../../../../spec/from/classes.json");
    let dump = read(text).expect("a dump");
    let lines = "qdisc replace dev eth0 root handle 1: htb r2q 10 direct_qlen 1000 default 10\n\
                 class replace dev eth0 parent 1: classid 1:1 htb rate 1250000bps burst 15339b\n\
                 class replace dev eth0 parent 1:1 classid 1:10 htb rate 375000bps ceil 1250000bps prio 1\n";
    assert_eq!(dump.lines, lines);
    let text = text.split("\"class\"").next().unwrap_or("").to_string()
        + "\"class\":\"class htb 1:1 root rate 10Mbit ceil 10Mbit burst 1600b cburst 1600b\\n Sent 9 bytes\\n\"}";
    let dump = read(&text).expect("a dump");
    assert!(
        dump.lines.ends_with("class replace dev eth0 parent 1: classid 1:1 htb rate 1250000bps\n"),
        "{}",
        dump.lines
    );
}

/// Classes as tc 6.15 prints them on Linux: each list that it prints is carried over to the classes
/// of the commands, as far as it has their details.
#[test]
fn recorded_json_of_classes_is_carried_over() {
    let text = std::fs::read_to_string(folder("from/class-json.txt")).expect("a recording");
    let mut carried = 0;
    for block in text.lines().skip_while(|l| l.starts_with('#')).collect::<Vec<_>>().split(|l| l.is_empty()) {
        let queues = if block[0].ends_with(" mq") { 4 } else { 1 };
        let mut devices = made(&["lan"], queues, "");
        for (n, line) in block.iter().enumerate() {
            let Some(command) = line.strip_prefix("$ tc ") else { continue };
            if !command.contains(" show ") {
                let done = tc(&mut devices, command);
                assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{command}");
                continue;
            }
            // A list of some of the classes is no dump.
            if !command.ends_with("class show dev lan") {
                continue;
            }
            let qdiscs = tc(&mut devices, "-d -j qdisc show dev lan").stdout;
            let dump = read(&format!("{{\"dev\":\"lan\"}}{qdiscs}{}", block[n + 1])).expect("a dump");
            let mut again = made(&["lan"], queues, &dump.lines);
            let details = if command.contains("-d ") { "-d " } else { "" };
            let shown = |all: &mut Memory| tc(all, &format!("{details}class show dev lan")).stdout;
            let mut expected = shown(&mut devices);
            if block[0].contains(" drr") {
                // The JSON of these has no quantum, which a note says of each.
                let no_quantum = |note: &&String| note.contains("tc prints no quantum in JSON");
                assert_eq!(dump.notes.iter().filter(no_quantum).count(), 2, "{:?}", dump.notes);
                expected = expected.replace("quantum 3000b", "quantum 1514b");
            }
            assert_eq!(shown(&mut again), expected, "{command}");
            carried += 1;
        }
    }
    assert_eq!(carried, 24);
}

/// Classes of hfsc as tc 6.15 prints them are no JSON; the refusal says what to give instead.
#[test]
fn recorded_classes_of_hfsc_are_refused_with_advice() {
    let text = std::fs::read_to_string(folder("from/class-json-hfsc.txt")).expect("a recording");
    let lists: Vec<&str> = text.split("$ tc ").filter(|part| part.contains("class show")).collect();
    assert_eq!(lists.len(), 4);
    for list in lists {
        let (_, json) = list.split_once('\n').expect("a list");
        let said = read(json).expect_err("no JSON").to_string();
        assert!(
            said.ends_with(
                "(tc 6.15 prints classes of hfsc not as JSON: tc class show, without -j, prints them)"
            ),
            "{said}"
        );
    }
}

/// Service curves as text of tc 6.1, and as the objects that txweir prints; the qdisc itself is in
/// the list of classes.
#[test]
fn service_curves_are_read_in_both_forms() {
    let qdisc = r#"[{"kind":"hfsc","handle":"1:","dev":"eth0","root":true,"options":{"default":"10"}}]"#;
    let text = "class hfsc 1: root \n Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) \n period 0 level 1 \n\n\
                class hfsc 1:10 parent 1: rt m1 1Mbit d 5ms m2 500Kbit ls m1 0bit d 0us m2 2Mbit \n\
                class hfsc 1:20 parent 1: sc m1 0bit d 0us m2 1Mbit \n period 3 work 99 bytes level 0 \n";
    let head = "qdisc replace dev eth0 root handle 1: hfsc default 10\n";
    let ten = "class replace dev eth0 parent 1: classid 1:10 hfsc rt m1 1Mbit d 5ms m2 500Kbit ls m1 0bit d 0us m2 2Mbit\n";
    let twenty = "class replace dev eth0 parent 1: classid 1:20 hfsc sc m1 0bit d 0us m2 1Mbit\n";
    let dump = read(&format!("{qdisc}\n{text}")).expect("a dump");
    assert_eq!(dump.lines, format!("{head}{ten}{twenty}"));
    let json = r#"[{"class":"hfsc","handle":"1:","dev":"eth0","root":true,"options":{}},
        {"class":"hfsc","handle":"1:20","dev":"eth0","parent":"1:","options":{"sc":{"m1":1000,"d":5000,"m2":125}}}]"#;
    let dump = read(&format!("{qdisc}\n{json}")).expect("a dump");
    let line = "class replace dev eth0 parent 1: classid 1:20 hfsc sc m1 1000bps d 5000us m2 125bps\n";
    assert_eq!(dump.lines, format!("{head}{line}"));
}
