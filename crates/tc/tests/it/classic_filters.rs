//! u32, fw and bpf through the tool: differences from Linux, counters, saved lines, and refusals
//! with their messages.

use txweir_core::classify::action::Run;
use txweir_core::classify::packet::{NoOutlet, Packet, PortId, Way};
use txweir_core::packet::headers::Headers;
use txweir_core::{Env, Handle, Instant, Meta};
use txweir_tc::Source;
use txweir_tc::memory::{Memory, MemoryDevice};
use txweir_tc::tool::{Outcome, Request, run, save};

/// Runs lines as a batch.
fn batch(devices: &mut Memory, flags: &str, lines: &str) -> Outcome {
    let args = flags.split_whitespace().chain(["-b", "b"]).map(String::from).collect();
    run(&Request { args, batch: Some(Source::new("b", lines)), ..Request::default() }, devices)
}

fn set_up(lines: &str) -> Memory {
    let device = |name| MemoryDevice::new(name, 1, Env::default());
    let mut devices = Memory::default().with(device("lan")).with(device("wan"));
    let done = batch(&mut devices, "", &format!("qdisc add dev lan root handle 1: prio\n{lines}"));
    assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{lines}");
    devices
}

fn show(devices: &mut Memory, flags: &str) -> String {
    batch(devices, flags, "filter show dev lan\n").stdout
}

/// Returns the printed matches and actions of a filter.
fn shown(filter: &str) -> String {
    let mut devices = set_up(&format!("filter add dev lan protocol ip prio 1 {filter}\n"));
    let text = show(&mut devices, "");
    text.rsplit_once("not_in_hw ").map(|(_, rest)| rest.trim().to_string()).unwrap_or_default()
}

/// Returns the status and the message of a refusal.
fn refused(filter: &str) -> (u8, String) {
    let mut devices = set_up("");
    let line = format!("filter add dev lan protocol ip prio 1 {filter}");
    let parts = line.split('\'').enumerate();
    let words = |(part, text): (usize, &str)| match part % 2 {
        0 => text.split_whitespace().map(String::from).collect(),
        _ => vec![text.to_string()],
    };
    let args = parts.flat_map(words).collect();
    let done = run(&Request { args, ..Request::default() }, &mut devices);
    assert_eq!(show(&mut devices, ""), "");
    let message = done
        .stderr
        .lines()
        .find(|l| l.starts_with("error["))
        .unwrap_or("")
        .split_once("]: ")
        .map_or("", |(_, m)| m);
    (done.status, message.to_string())
}

#[test]
fn flags_of_fragments_are_matched() {
    assert_eq!(shown("u32 match ip nofrag flowid 1:1"), "match 00000000/00003fff at 4");
    assert_eq!(shown("u32 match ip firstfrag flowid 1:1"), "match 00002000/00003fff at 4");
    assert_eq!(shown("u32 match ip df flowid 1:1"), "match 00004000/00004000 at 4");
    assert_eq!(shown("u32 match ip mf flowid 1:1"), "match 00002000/00002000 at 4");
}

#[test]
fn masks_of_addresses_may_be_any() {
    assert_eq!(shown("u32 match ip dst 1.2.3.4/0.0.0.255 flowid 1:1"), "match 00000004/000000ff at 16");
    assert_eq!(shown("u32 match ip6 src 2001:db8::1/ffff:: flowid 1:1"), "match 20010000/ffff0000 at 8");
}

#[test]
fn offsets_are_json() {
    let lines = "filter add dev lan protocol ip prio 1 handle 5: u32 divisor 1\nfilter add dev lan protocol ip prio 1 u32 match \
                 u8 6 0xff at 9 link 5: offset plus 4 at 0 mask 0f00 shift 6 eat hashkey mask 0xff at 12\n";
    let mut devices = set_up(lines);
    let json: serde_json::Value = serde_json::from_str(&show(&mut devices, "-j")).expect("JSON");
    let options = serde_json::json!({
        "fh": "800::800", "order": 2048, "key_ht": "800", "bkt": "0", "link": "5:", "not_in_hw": true,
        "match": {"value": "60000", "mask": "ff0000", "offmask": "", "off": 8},
        "offset_mask": "f00", "offset_shift": 6, "offset_off": 0, "plus": 4, "eat": true,
        "hash_mask": "ff", "hash_off": 12,
    });
    assert_eq!(json[3]["options"], options);
    let text = "filter parent 1: protocol ip pref 1 u32 chain 0 fh 800::800 order 2048 key ht 800 bkt 0 link 5: not_in_hw \n  \
                match 00060000/00ff0000 at 8\n    offset 0f00>>6 at 0 plus 4  eat \n    hash mask 000000ff at 12 ";
    assert!(show(&mut devices, "").contains(text));
}

#[test]
fn fw_is_json_and_says_where_it_comes_in() {
    let lines = "filter add dev lan prio 1 handle 5/0xff fw indev wan action drop\n\
                 filter add dev lan prio 1 handle 6/0xff fw indev wan\n";
    let mut devices = set_up(lines);
    let json: serde_json::Value = serde_json::from_str(&show(&mut devices, "-j")).expect("JSON");
    let options = &json[1]["options"];
    assert_eq!((options["handle"].as_str(), options["mask"].as_str()), (Some("0x5"), Some("0xff")));
    assert_eq!(options["input_dev"].as_str(), Some("wan"));
    assert_eq!(options["actions"][0]["kind"].as_str(), Some("gact"));
    let text = show(&mut devices, "");
    assert!(text.ends_with("fw chain 0 handle 0x6/0xff input dev wan \n"), "{text}");
}

#[test]
fn police_is_an_action_among_others() {
    let text = shown("u32 match ip src 1.2.3.4 police rate 1mbit burst 10k drop");
    assert_eq!(
        text.lines().nth(1),
        Some("\taction order 1:  police 0x1 rate 1Mbit burst 10Kb mtu 2Kb action drop overhead 0b ")
    );
}

#[test]
fn a_filter_of_no_words_is_none() {
    assert_eq!(refused("u32"), (2, "filter u32 match: expected what to match, given nothing".into()));
    assert_eq!(refused("fw"), (2, "filter fw handle: expected a mark, given nothing".into()));
}

#[test]
fn what_is_not_there_says_why() {
    for (filter, status, said) in [
        (
            "bpf object-file x.o section y flowid 1:1",
            2,
            "a program of eBPF needs the kernel that it is loaded into: its helpers, its maps, its verifier",
        ),
        ("bpf bytecode-file x flowid 1:1", 2, "files are not read here"),
        ("bpf flowid 1:1", 2, "bpf has no program"),
        ("bpf bytecode '1,6 0 300 1' flowid 1:1", 1, "bytecode: \"6 0 300 1\" is no instruction"),
        ("bpf bytecode '1,65542 0 0 1' flowid 1:1", 1, "bytecode: \"65542 0 0 1\" is no instruction"),
        (
            "bpf bytecode '1,6 0 0 4294967296' flowid 1:1",
            1,
            "bytecode: \"6 0 0 4294967296\" is no instruction",
        ),
        ("bpf bytecode '2,6 0 0 1' flowid 1:1", 1, "bytecode: it says 2 instructions and has 1"),
        ("bpf bytecode '0,' flowid 1:1", 1, "bytecode: it begins with the number of instructions, 1 to 4096"),
        (
            "bpf bytecode '2,32 0 0 4294963204,22 0 0 0' flowid 1:1",
            2,
            "filter bpf bytecode: expected an offset in the packet, or protocol, mark or queue (SKF_AD_OFF + 0, 20, 24), \
             given \"32 0 0 4294963204, instruction 0\"",
        ),
        (
            "u32 match ip protocol 6 0xff match ip protocol 17 0xff flowid 1:1",
            1,
            "this contradicts another match of the line: no packet can have both",
        ),
        ("u32 match ip src 1.2.3.4 at 3 flowid 1:1", 1, "an address is at a number of bytes that 4 divides"),
        ("u32 match mark 0x1ff 0xff flowid 1:1", 1, "match mark: the value has bits that the mask has not"),
        (
            "u32 match ether src 1:2:3:4:5 flowid 1:1",
            1,
            "an address of six bytes is expected: 02:00:00:00:00:01",
        ),
        ("u32 match u32 0 0 link 5: offset at 70000", 1, "\"70000\" is out of range"),
        ("u32 match u32 0 0 link 5: offset at 3", 1, "offset at: an even number of bytes is expected"),
        ("u32 match u32 0 0 indev nope flowid 1:1", 2, "there is no device nope"),
        ("u32 ht 5: sample ip6 src 2001:db8::1 match u32 0 0", 1, "a sample is one word of a packet"),
        ("handle 1 u32 match u32 0 0", 1, "\"1\" is not the handle of a u32 filter"),
        ("handle ::1 u32 match u32 0 0 order 5", 1, "a filter has a handle or an order: they are one"),
    ] {
        assert_eq!(refused(filter), (status, said.into()), "{filter}");
    }
}

#[test]
fn u32_shows_what_it_has_counted() {
    let lines = "filter add dev lan protocol ip prio 1 u32 match mark 0x5 0xff match ip protocol 6 ff match ip dport 118 0xffff \
                 flowid 1:2\n";
    let mut devices = set_up(lines);
    let block = devices.get("lan").expect("there").block(Handle(0x1_0000)).expect("filters");
    let (filters, state) = devices.classify();
    filters.fit(state);
    for (mark, dport) in [(5, 118), (5, 119), (6, 118)] {
        let mut frame = vec![0u8; 54];
        (frame[12], frame[14], frame[23], frame[37]) = (8, 0x45, 6, dport);
        let mut meta = Meta::new(54);
        meta.mark = mark;
        let headers = Headers::parse_ethernet(&frame);
        let mut packet = Packet::new(&mut frame, &mut meta, headers).at(PortId(1), Way::Egress);
        let (actions, now) = (&filters.actions, Instant::from_secs(1));
        let mut run = Run { actions, state, outlet: &mut NoOutlet, now, queues: 1 };
        filters.classify(block, &mut packet, &mut run);
    }
    // This is the output of a Linux with CONFIG_CLS_U32_PERF and CONFIG_CLS_U32_MARK.
    let text = "fh 800::800 order 2048 key ht 800 bkt 0 *flowid 1:2 not_in_hw (rule hit 3 success 1)\n  mark 0x0005 0x00ff \
                (success 2)\n  match 00060000/00ff0000 at 8 (success 2 ) \n  match 00000076/0000ffff at 20 (success 1 ) \n";
    assert!(show(&mut devices, "-s").ends_with(text), "{}", show(&mut devices, "-s"));
    let json = r#""rule_hit":3,"success":1,"fwmark_value":"0x5","fwmark_mask":"0xff","fwmark_success":2,"#;
    let matches = r#""match":{"value":"60000","mask":"ff0000","offmask":"","off":8},"success":2,"match":{"value":"76","#;
    let end = r#""mask":"ffff","offmask":"","off":20},"success":1}}]"#;
    let ours = show(&mut devices, "-s -j");
    assert!(ours.trim_end().ends_with(&format!("{json}{matches}{end}")), "{ours}");
}

#[test]
fn what_is_saved_makes_the_same_filters() {
    let lines = "filter add dev lan protocol ip prio 9 handle 5: u32 divisor 256\n\
                 filter add dev lan protocol ip prio 9 u32 divisor 4\n\
                 filter add dev lan protocol ip prio 9 u32 ht 5:8: match ip src 10.0.8.0/24 flowid 1:1\n\
                 filter add dev lan protocol ip prio 1 u32 match ip src 10.0.0.0/16 match mark 5 0xff link 5: \
                 hashkey mask 0xff00 at 12 offset plus 20 at 0 mask 0f00 shift 6 eat indev wan skip_hw\n\
                 filter add dev lan protocol ip prio 1 handle ::7 u32 match tcp dst 80 0xffff flowid 1:2 action drop\n\
                 filter add dev lan protocol ip prio 1 u32 match ip6 src any link 801: flowid 1:3\n\
                 filter add dev lan protocol all prio 3 handle 5/0xff fw flowid 1:2 indev wan\n\
                 filter add dev lan protocol all prio 4 handle 5 fw flowid 1:2\n\
                 filter add dev lan protocol all prio 5 bpf bytecode '2,32 0 0 -4096,22 0 0 0' flowid 1:1\n\
                 filter add dev lan protocol all prio 5 bpf bytecode '1,6 0 0 2' direct-action skip_hw\n";
    let mut devices = set_up(lines);
    let saved = save(&mut devices);
    let device = |name| MemoryDevice::new(name, 1, Env::default());
    let mut again = Memory::default().with(device("lan")).with(device("wan"));
    let done = batch(&mut again, "", &saved);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{saved}");
    assert_eq!(save(&mut again), saved);
    // The output is equal, including the numbers of the root tables, which depend on the order in
    // which the priorities came.
    assert_eq!(show(&mut again, ""), show(&mut devices, ""), "{saved}");
}

#[test]
fn flags_change_nothing_of_u32() {
    let mut devices =
        set_up("filter add dev lan protocol ip prio 1 u32 match ip dport 118 0xffff flowid 1:1\n");
    let text = show(&mut devices, "");
    assert!(text.ends_with(
        "fh 800::800 order 2048 key ht 800 bkt 0 *flowid 1:1 not_in_hw \n  match 00000076/0000ffff at 20\n"
    ));
    assert_eq!(show(&mut devices, "-r"), text);
    assert_eq!(show(&mut devices, "-p"), text);
}
