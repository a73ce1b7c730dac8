//! Filters and actions on a direction's frames.

use txweir_core::classify::packet::{NoOutlet, PortId};
use txweir_core::packet::checksum::Sum;
use txweir_core::path::entry::{Entry, Hooked};
use txweir_core::text::value::Words;
use txweir_core::turns::Quota;
use txweir_core::{Env, Handle, Instant};
use txweir_device::segment::complete_checksum;
use txweir_device::{FRAME_MEMORY, Gso, Source as _, VnetHdr};
use txweir_runtime::{Copies, Direction, DirectionConfig, Notes, One, Outlets, Received};
use txweir_tc::Source;
use txweir_tc::memory::Memory;
use txweir_tc::tool::{Devices as _, Hook, Request, run};

use crate::list::{List, Out, To as _};

/// Returns the frame that leaves a device with these filters on its egress hook, when `frame` is
/// sent by it.
fn through(lines: &str, frame: (VnetHdr, Vec<u8>)) -> (VnetHdr, Vec<u8>) {
    let mut devices = Memory::new(&["a"]);
    let batch = Some(Source::new("b", format!("qdisc add dev a clsact\n{lines}")));
    let outcome = run(&Request { args: vec!["-b".into()], batch, ..Request::default() }, &mut devices);
    assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""));
    let block = devices.get("a").and_then(|a| a.block(Hook::EGRESS));
    let (filters, state) = devices.classify();
    let config = DirectionConfig { wire: None, bql: None, env: Env::default(), ..DirectionConfig::default() };
    let mut way = Direction::new(config, Out::new(FRAME_MEMORY)).unwrap();
    let mut port = List { incoming: [frame].into(), ..List::default() };
    let Ok(Received::Frame(arrival)) = way.receive(&mut port) else { panic!("nothing received") };
    let mut outlet = NoOutlet;
    let mut entry = Entry::new(filters, state, &mut outlet, Instant(1));
    entry.to = Some(Hooked { port: PortId(1), block });
    let arrival = way.classify(arrival, 0, &mut entry).expect("an admitted frame");
    way.admit_to(Instant(1), arrival, &mut port).unwrap();
    way.advance_to(Instant(2), &mut port).unwrap();
    port.sent.pop().expect("a sent frame")
}

/// Returns a TCP frame from 10.0.0.1 to `dst` as a stack hands it to a device that computes
/// checksums: the field contains the sum of the pseudo-header.
fn left_to_the_device(dst: [u8; 4], payload: &[u8]) -> (VnetHdr, Vec<u8>) {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend((40 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1]);
    frame.extend(dst);
    frame.extend([3, 232, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 0x20, 0, 0, 0, 0, 0]);
    frame.extend(payload);
    let header = Sum::default().bytes(&frame[14..34]).checksum();
    frame[24..26].copy_from_slice(&header.to_be_bytes());
    let pseudo = Sum::default().bytes(&frame[26..34]).word(6).word(20 + payload.len() as u16).partial();
    frame[50..52].copy_from_slice(&pseudo.to_be_bytes());
    (VnetHdr { needs_csum: true, csum_start: 34, csum_offset: 16, ..VnetHdr::default() }, frame)
}

/// Does the device's part and returns the sums of the IPv4 header and of the segment, which are all
/// ones if the checksums are right (RFC 1071).
fn completed((mut hdr, mut frame): (VnetHdr, Vec<u8>), ip: usize) -> (u16, u16) {
    complete_checksum(&mut hdr, &mut frame).unwrap();
    let segment = &frame[ip + 20..];
    let pseudo = Sum::default().bytes(&frame[ip + 12..ip + 20]).word(6).word(segment.len() as u16);
    (Sum::default().bytes(&frame[ip..ip + 20]).partial(), pseudo.bytes(segment).partial())
}

#[test]
fn a_checksum_that_is_left_to_the_device_is_not_completed_twice() {
    let frame = left_to_the_device([10, 0, 0, 2], b"odd payload");
    let sent = through("filter add dev a egress matchall action csum ip4h and tcp", frame.clone());
    assert_eq!(sent, frame, "the device's part is still the device's");
    assert_eq!(completed(sent, 14), (0xffff, 0xffff));
}

#[test]
fn what_pedit_changed_is_in_the_sum_that_the_device_completes() {
    let frame = left_to_the_device([10, 0, 0, 2], b"payload");
    let pedit = "filter add dev a egress matchall action pedit ex munge ip dst set 192.168.77.3 pipe";
    let stale = through(pedit, frame.clone());
    assert_ne!(completed(stale, 14).1, 0xffff, "without csum it is wrong");
    let lines = format!("{pedit} action csum ip4h and tcp");
    let sent = through(&lines, frame.clone());
    assert_eq!(sent.1[30..34], [192, 168, 77, 3]);
    assert_eq!((sent.0, completed(sent, 14)), (frame.0, (0xffff, 0xffff)));
    // The result equals a frame that was sent to that address in the first place, after the device
    // has done its part.
    let direct = left_to_the_device([192, 168, 77, 3], b"payload");
    assert_eq!(through(&lines, frame), direct);
}

#[test]
fn a_tag_in_front_moves_where_the_device_begins() {
    let lines = "filter add dev a egress matchall action vlan push id 5 pipe action csum ip4h and tcp";
    let sent = through(lines, left_to_the_device([10, 0, 0, 2], b"payload"));
    assert_eq!(sent.0.csum_start, 38);
    assert_eq!(completed(sent, 18), (0xffff, 0xffff));
}

/// Inside a tunnel the device sums the inner segment: the outer checksum is not changed.
#[test]
fn where_the_device_begins_elsewhere_the_transport_stays() {
    let (mut hdr, frame) = left_to_the_device([10, 0, 0, 2], &[0; 40]);
    (hdr.csum_start, hdr.csum_offset) = (60, 6);
    let lines = "filter add dev a egress matchall action csum ip4h and tcp";
    assert_eq!(through(lines, (hdr, frame.clone())), (hdr, frame));
}

/// Returns the copy of a frame for another device, behind these actions.
fn copy_behind(actions: &str, frame: (VnetHdr, Vec<u8>)) -> (VnetHdr, Vec<u8>) {
    let mut devices = Memory::new(&["a", "b"]);
    let lines = format!(
        "qdisc add dev a clsact\nfilter add dev a egress matchall {actions} action mirred egress mirror dev b"
    );
    let request =
        Request { args: vec!["-b".into()], batch: Some(Source::new("b", lines)), ..Request::default() };
    assert_eq!(run(&request, &mut devices).status, 0);
    let block = devices.get("a").and_then(|a| a.block(Hook::EGRESS));
    let to = devices.port("b").expect("a port");
    let (filters, state) = devices.classify();
    let config = DirectionConfig { wire: None, bql: None, env: Env::default(), ..DirectionConfig::default() };
    let mut way = Direction::new(config, Out::new(FRAME_MEMORY)).unwrap();
    let mut port = List { incoming: [frame].into(), ..List::default() };
    let Ok(Received::Frame(arrival)) = way.receive(&mut port) else { panic!("nothing received") };
    let (mut copies, mut notes) = (Copies::default(), Notes::default());
    let mut outlet = Outlets { up: &[to], copies: &mut copies, notes: &mut notes, now: Instant(1) };
    let mut entry = Entry::new(filters, state, &mut outlet, Instant(1));
    entry.to = Some(Hooked { port: PortId(9), block });
    assert!(way.classify(arrival, 0, &mut entry).is_some());
    let copy = copies.pop().expect("a copy");
    assert!(copies.pop().is_none());
    let mut again = vec![0; 4000];
    let (hdr, len) = One(Some(&copy)).recv(&mut again).unwrap().expect("a frame");
    again.truncate(len);
    (hdr, again)
}

/// A copy leaves the same work undone as its original: a checksum, and segmentation.
#[test]
fn a_copy_takes_along_what_is_left_to_the_device() {
    let (mut hdr, frame) = left_to_the_device([10, 0, 0, 2], &[5; 3000]);
    (hdr.gso, hdr.gso_size) = (Gso::TcpV4, 1000);
    assert_eq!(copy_behind("", (hdr, frame.clone())), (hdr, frame));
}

/// Parity: in Linux a copy keeps the protocol that its original has beside the bytes, which pedit
/// and skbmod do not change.
#[test]
fn another_device_reads_the_protocol_of_a_copy() {
    for (actions, protocol) in [
        ("", 0x0800),
        ("action mpls push label 5 pipe", 0x8847),
        ("action pedit ex munge eth type set 0x88b5 pipe", 0x88b5),
        ("action skbmod set etype 0x88b5 pipe", 0x88b5),
    ] {
        let copy = copy_behind(actions, left_to_the_device([10, 0, 0, 2], b"payload"));
        let mut way = Direction::new(DirectionConfig::default(), Out::new(FRAME_MEMORY)).unwrap();
        let mut port = List { incoming: [copy].into(), ..List::default() };
        let Ok(Received::Frame(arrival)) = way.receive(&mut port) else { panic!("nothing received") };
        assert_eq!(arrival.meta().protocol, protocol, "{actions}");
    }
}

/// The headers of a frame are read once and its queue is chosen once, even with filters at a hook
/// and at a qdisc, flows that take turns, and a kind that needs more than the metadata.
#[test]
fn headers_are_read_once_and_a_queue_is_chosen_once() {
    let mut devices = Memory::new(&["a"]);
    let lines = "qdisc add dev a root handle 1: cake\nqdisc add dev a clsact\n\
                 filter add dev a egress matchall action skbedit mark 7\n\
                 filter add dev a parent 1: protocol ip prio 1 matchall classid 1:1";
    let batch = Some(Source::new("b", lines));
    let outcome = run(&Request { args: vec!["-b".into()], batch, ..Request::default() }, &mut devices);
    assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""));
    let block = devices.get("a").and_then(|a| a.block(Hook::EGRESS));
    let (filters, state) = devices.classify();
    let env = Env { queues: 4, ..Env::default() };
    let config = DirectionConfig { wire: None, bql: None, env, ..DirectionConfig::default() };
    let mut way = Direction::new(config, Out::new(FRAME_MEMORY)).unwrap();
    way.control(Instant(1)).change(|qdiscs| {
        qdiscs.add(Handle::ROOT, Some(Handle::new(1, 0)), "cake", &mut Words::new(&[])).expect("a root");
    });
    way.control(Instant(1)).set_fairsend(Quota::segs(2));
    let frames = 200;
    let incoming = (0..frames).map(|i| left_to_the_device([10, 0, 0, i as u8], b"payload")).collect();
    let mut port = List { incoming, ..List::default() };
    for _ in 0..frames {
        let Ok(Received::Frame(arrival)) = way.receive(&mut port) else { panic!("nothing received") };
        let mut outlet = NoOutlet;
        let mut entry = Entry::new(filters, state, &mut outlet, Instant(1));
        entry.to = Some(Hooked { port: PortId(1), block });
        let arrival = way.classify(arrival, 0, &mut entry).expect("an admitted frame");
        way.admit_to(Instant(1), arrival, &mut port).unwrap();
    }
    way.advance_to(Instant(2), &mut port).unwrap();
    assert_eq!(port.sent.len(), frames);
    assert_eq!(
        (way.classifier().headers_read(), way.port().chooser().stats().chosen),
        (frames as u64, frames as u64)
    );
}

/// The count above is of all readings: nothing else of the live loop reads headers.
#[test]
fn one_file_of_the_live_loop_reads_headers() {
    let src = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let words = ["read_ethernet", "parse_ethernet", "parse_ip"];
    let reads = |text: &str| words.iter().any(|word| text.contains(word));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(src).expect("the sources").flatten() {
        if reads(&std::fs::read_to_string(entry.path()).unwrap_or_default()) {
            found.push(entry.file_name());
        }
    }
    assert_eq!(found, ["classify.rs"]);
}
