//! Actions leave frames as those of Linux do: `spec/actions/*.txt`, recorded by `oracle/changes`.

use std::path::Path;

use txweir_core::classify::action::Run;
use txweir_core::classify::filter::Verdict;
use txweir_core::classify::packet::{FrameBytes, NoOutlet, Outlet, Packet, PortId, Way};
use txweir_core::packet::checksum::Sum;
use txweir_core::packet::headers::Headers;
use txweir_core::{Instant, Meta};
use txweir_tc::Source;
use txweir_tc::memory::Memory;
use txweir_tc::tool::{Devices, Hook, Request, run};

/// The result of Linux where the engine differs from it on purpose, by a row of PARITY.md: the
/// frame that leaves here instead; `None` for other frames. It is given the frame and that of
/// Linux.
struct Meant {
    row: &'static str,
    here: fn(&[u8], &[u8]) -> Option<Vec<u8>>,
}

fn unhex(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(byte).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a device whose egress hook has a filter with the actions.
fn with(actions: &str) -> Memory {
    let mut devices = Memory::new(&["a"]);
    let lines =
        format!("qdisc add dev a clsact\nfilter add dev a egress protocol all matchall action {actions}\n");
    let batch = Some(Source::new("b", lines));
    let done =
        run(&Request { args: vec!["-b".into(), "b".into()], batch, ..Request::default() }, &mut devices);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{actions}");
    devices
}

/// Returns the frame that leaves; `drop` if none does.
fn left(devices: &mut Memory, frame: &[u8]) -> String {
    let block = devices.get("a").expect("there").block(Hook::EGRESS).expect("filters");
    let (filters, state) = devices.classify();
    let mut bytes = frame.to_vec();
    let mut meta = Meta::new(u32::try_from(bytes.len()).expect("short"));
    let headers = Headers::parse_ethernet(&bytes);
    let mut packet = Packet::new(&mut bytes, &mut meta, headers).at(PortId(1), Way::Egress);
    let (actions, outlet) = (&filters.actions, &mut NoOutlet);
    let mut run = Run { actions, state, outlet, now: Instant::ZERO, queues: 1 };
    let verdict = filters.classify(block, &mut packet, &mut run);
    if verdict == Verdict::Drop {
        return "drop".into();
    }
    assert_eq!(meta.len as usize, bytes.len());
    hex(&bytes)
}

fn compare(name: &str, meant: &[Meant]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/actions").join(name);
    let text = std::fs::read_to_string(file).expect("a recording");
    let (mut wrong, mut frames, mut excused) = (Vec::new(), 0, vec![0; meant.len()]);
    let (mut actions, mut devices) = ("", Memory::new(&["a"]));
    for line in text.lines() {
        if let Some(words) = line.strip_prefix("> ") {
            (actions, devices) = (words, with(words));
            continue;
        }
        let (frame, linux) = line.strip_prefix("= ").and_then(|rest| rest.split_once(' ')).expect("a frame");
        let frame = unhex(frame);
        let ours = left(&mut devices, &frame);
        frames += 1;
        if ours == linux {
            continue;
        }
        let bytes = if linux == "drop" { Vec::new() } else { unhex(linux) };
        let here = |m: &Meant| (m.here)(&frame, &bytes).is_some_and(|here| hex(&here) == ours);
        match meant.iter().position(here) {
            Some(at) => excused[at] += 1,
            None => wrong.push(format!("{actions}\n  {}\n  Linux {linux}\n  ours  {ours}", hex(&frame))),
        }
    }
    assert!(frames > 0 && wrong.is_empty(), "{} of {frames} frames\n{}", wrong.len(), wrong.join("\n"));
    for (meant, count) in meant.iter().zip(excused) {
        assert!(count > 0, "no frame shows the row {}", meant.row);
    }
}

/// Bytes of the Ethernet header of all frames here.
const ETHERNET: usize = 14;

/// Returns the frame of Linux without the index that ends its metadata, in front of which none was
/// written.
fn without_index(_: &[u8], linux: &[u8]) -> Option<Vec<u8>> {
    let len = usize::from(u16::from_be_bytes(*linux.get(ETHERNET..)?.first_chunk()?));
    let last = (ETHERNET + len).checked_sub(8)?;
    if linux.get(12..14)? != [0xed, 0x3e] || linux.get(last..last + 4)? != [0, 5, 0, 6] {
        return None;
    }
    let mut here = linux.to_vec();
    match len {
        // It was the only part.
        10 => drop(here.drain(..ETHERNET + len)),
        _ => {
            drop(here.drain(last..last + 8));
            here[ETHERNET + 1] -= 8;
        }
    }
    Some(here)
}

/// Returns the frame of Linux with the right checksum of a quoted IPv4 header, and with the
/// checksum that the ICMP message had before.
fn quoted(frame: &[u8], linux: &[u8]) -> Option<Vec<u8>> {
    let ip = linux.get(ETHERNET..)?;
    let icmp = ETHERNET + usize::from(ip.first()? & 15) * 4;
    let quoted = icmp + 8;
    if ip.get(9) != Some(&1) || linux.get(quoted..quoted + 20)? == frame.get(quoted..quoted + 20)? {
        return None;
    }
    let mut here = linux.to_vec();
    here[quoted + 10..quoted + 12].fill(0);
    let sum = Sum::default().bytes(&here[quoted..quoted + 20]).checksum();
    here[quoted + 10..quoted + 12].copy_from_slice(&sum.to_be_bytes());
    here[icmp + 2..icmp + 4].copy_from_slice(&frame[icmp + 2..icmp + 4]);
    Some(here)
}

/// Rows nat-quoted-checksum and nat-not-ipv4.
#[test]
fn nat_leaves_what_linux_leaves() {
    let other = |frame: &[u8], _: &[u8]| (frame[12..14] != [8, 0]).then(|| frame.to_vec());
    compare(
        "nat.txt",
        &[Meant { row: "nat-quoted-checksum", here: quoted }, Meant { row: "nat-not-ipv4", here: other }],
    );
}

#[test]
fn mpls_leaves_what_linux_leaves() {
    compare("mpls.txt", &[]);
}

#[test]
fn ife_leaves_what_linux_leaves() {
    compare("ife.txt", &[Meant { row: "ife-index", here: without_index }]);
}

#[test]
fn bpf_leaves_what_linux_leaves() {
    compare("bpf.txt", &[]);
}

/// The devices of a recording with several: an action runs at the egress hook of the first.
const DEVICES: [&str; 3] = ["lan", "wan", "dmz"];

/// Runs a command of a recording: of tc, or `ip link set DEV up` or `down`.
fn command(devices: &mut Memory, down: &mut Vec<PortId>, line: &str) {
    let words: Vec<String> = line.split(' ').map(String::from).collect();
    if words[0] == "ip" {
        let port = devices.port(&words[3]).expect("a device");
        down.retain(|other| *other != port);
        down.extend((words[4] == "down").then_some(port));
        return;
    }
    let done = run(&Request { args: words[1..].to_vec(), ..Request::default() }, devices);
    assert_eq!((done.status, done.stderr.as_str()), (0, ""), "{line}");
}

/// Returns the frames that leave by every device: from `lan`, at whose egress hook the frame is,
/// that one or `drop`; of the others each behind the name.
fn leaving(devices: &mut Memory, down: &[PortId], frame: &[u8]) -> String {
    let ports = DEVICES.map(|name| devices.port(name).expect("a device"));
    let [egress, ingress] = [Hook::EGRESS, Hook::INGRESS]
        .map(|hook| DEVICES.map(|name| devices.get(name).and_then(|device| device.block(hook))));
    let (filters, state) = devices.classify();
    let mut outlet = Copies { down, sent: vec![(ports[0], Way::Egress, frame.to_vec(), 0)] };
    let mut left = DEVICES.map(|_| Vec::new());
    while let Some((port, way, mut bytes, depth)) = outlet.sent.pop() {
        let at = ports.iter().position(|there| *there == port).expect("a device");
        let Some(block) = (if way == Way::Egress { egress[at] } else { ingress[at] }) else {
            left[at].extend((way == Way::Egress).then(|| hex(&bytes)));
            continue;
        };
        let mut meta = Meta::new(u32::try_from(bytes.len()).expect("short"));
        let headers = Headers::parse_ethernet(&bytes);
        let mut packet = Packet::new(&mut bytes, &mut meta, headers).at(port, way);
        packet.depth = depth;
        let (actions, now) = (&filters.actions, Instant::ZERO);
        let mut run = Run { actions, state, outlet: &mut outlet, now, queues: 1 };
        let passes =
            !matches!(filters.classify(block, &mut packet, &mut run), Verdict::Drop | Verdict::Stolen);
        left[at].extend((passes && way == Way::Egress).then(|| hex(&bytes)));
    }
    let mut all = left[0].pop().unwrap_or_else(|| "drop".into());
    assert!(left[0].is_empty());
    for (name, left) in DEVICES.iter().zip(&left).skip(1) {
        left.iter().for_each(|frame| all.push_str(&format!(" {name}:{frame}")));
    }
    all
}

/// Frames on their way, and the ports that are down.
struct Copies<'a> {
    down: &'a [PortId],
    sent: Vec<(PortId, Way, Vec<u8>, u8)>,
}

impl Outlet for Copies<'_> {
    fn send(&mut self, to: PortId, way: Way, frame: &dyn FrameBytes, _: &Meta, depth: u8) -> bool {
        let up = !self.down.contains(&to);
        self.sent.extend(up.then(|| (to, way, frame.bytes().to_vec(), depth)));
        up
    }
}

/// Row mirred-loop: Linux counts redirections anew at the receiver.
#[test]
fn mirred_sends_to_the_ports_of_a_block_what_linux_sends() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/actions-7.2/mirred-block.txt");
    let text = std::fs::read_to_string(file).expect("a recording");
    let (mut devices, mut down) = (Memory::new(&DEVICES), Vec::new());
    command(&mut devices, &mut down, "tc qdisc add dev lan clsact");
    let (mut frames, mut excused, mut actions) = (0, 0, "");
    for line in text.lines() {
        let rest = line.get(2..).expect("a line");
        if line.starts_with("$ ") {
            command(&mut devices, &mut down, rest);
        } else if line.starts_with("> ") {
            let filter = "filter replace dev lan egress protocol all pref 1 handle 1 matchall action";
            command(&mut devices, &mut down, &format!("tc {filter} {rest}"));
            actions = rest;
        } else {
            let (frame, linux) = rest.split_once(' ').expect("a frame");
            let ours = leaving(&mut devices, &down, &unhex(frame));
            frames += 1;
            let received = actions.contains("ingress") && linux.len() - ours.len() > frame.len();
            excused += usize::from(received);
            assert!(received || ours == linux, "{actions}\n  Linux {linux}\n  ours  {ours}");
        }
    }
    assert_eq!((frames, excused), (39, 2));
}
