//! Captures as the traffic of a trial.

use txweir_lab::run::{Options, run as play};
use txweir_lab::trial::Traffic;

use super::{MS, replay, trial, uplink};
use crate::common;
/// Returns a pcap of nanoseconds: (time, TOS, bytes of the frame) of UDP packets of one flow.
pub(super) fn pcap(packets: impl IntoIterator<Item = (u64, u8, u32)>) -> Vec<u8> {
    let mut file = 0xa1b2_3c4d_u32.to_be_bytes().to_vec();
    file.extend([0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 1]);
    for (at, tos, len) in packets {
        let mut data = [0; 42];
        (data[12], data[14], data[15], data[22], data[23]) = (8, 0x45, tos, 64, 17);
        data[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
        data[38..40].copy_from_slice(&((len - 34) as u16).to_be_bytes());
        for word in [(at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32, 42, len] {
            file.extend(word.to_be_bytes());
        }
        file.extend(data);
    }
    file
}

/// Every packet of a replay is counted, and its one-way time is the sum of its stages and the
/// link's delay.
#[test]
fn a_replay_is_conserved_and_its_stages_add_up() {
    // 1000 packets of 1000 bytes each 200 us are 40 Mbit/s: twice the line.
    let file = pcap((0..1000).map(|i| (5_000_000_000 + i * 200_000, 0, 1000)));
    let setup = uplink();
    let t =
        trial(&setup, &replay(&file, &setup), &[("small", "qdisc add root pfifo limit 50"), ("large", "")]);
    assert_eq!((t.warmup_ns, t.time_ns), (0, 999 * 200_000 + 20 * MS + 1000 * MS));
    for (p, lossless) in t.policies.iter().zip([false, true]) {
        let [g] = &p.groups[..] else { panic!("one group") };
        let dropped: u64 = p.drops.values().sum();
        assert_eq!((g.kind, g.offered_packets, g.lost), ("replay", Some(1000), Some(dropped)));
        assert_eq!(g.received_packets, Some(1000 - dropped));
        assert_eq!((p.device.offered_packets, p.device.sent_packets), (1000, 1000 - dropped));
        assert_eq!(p.classes[0].sent_bytes, (1000 - dropped) * 1000);
        assert_eq!(dropped == 0, lossless);
        let stages: u64 = p.stages.iter().map(|s| s.mean_ns).sum();
        let one_way = g.latency.expect("latency").mean_ns;
        assert!(one_way.abs_diff(stages + 10 * MS) <= 3, "{one_way} against {stages} and 10 ms");
        assert_eq!((p.stages[0].stage, p.stages[0].max_ns), ("classifier", 0));
    }
    // 1024 bytes on the line at 20 Mbit/s are 409.6 us for each of 1000 packets, which arrive 200
    // us apart; the last waits longest. While the byte limit learns, the line idles until
    // completions come, each 250 us.
    let longest = t.policies[1].groups[0].latency.expect("latency").max_ns;
    let busy = 409_600 * 1000 - 999 * 200_000 + 10 * MS;
    assert!((busy..busy + 2 * 250_000).contains(&longest), "{longest} against {busy}");
}

#[test]
fn captured_marks_and_priorities_count_where_they_happen() {
    // Priority 6 (TOS 0x10) below the line's rate; ECT(0) at twice its rate, in the band below.
    let urgent = (0..500).map(|i| (i * 2 * MS, 0x10, 200));
    let bulk = (0..4000).map(|i| (i * MS / 4, 2, 1250));
    let mut all: Vec<(u64, u8, u32)> = urgent.chain(bulk).collect();
    all.sort();
    let tree = "qdisc add root handle 1: prio\nqdisc add parent 1:2 handle 20: fq_codel";
    let setup = uplink();
    let t = trial(&setup, &replay(&pcap(all), &setup), &[("marks", tree)]);
    let p = &t.policies[0];
    let marks: u64 = p.marks.values().sum();
    assert!(marks > 10, "{marks}");
    let by_class: Vec<u64> = p.classes.iter().map(|c| c.marks.values().sum()).collect();
    assert_eq!(by_class, [0, 0, marks, 0]);
    assert_eq!((p.classes[1].sent_packets, p.classes[2].qdisc.as_str()), (500, "20:"));
}

/// The lab reads its own captures as traffic: every packet with its length and time.
#[test]
fn a_capture_of_the_lab_replays_as_it_was() {
    let traffic = "[[traffic]]\nname = 'c'\nfrom = 'a'\nto = 'b'\nkind = 'cbr'\nsize = '300'\nrate = '1mbit'\ncount = 3";
    let text = common::two_hosts("duration = '2s'", "", "rate = '100mbit'\none_way = true", traffic);
    let dir = std::env::temp_dir().join(format!("txweir-trial-{}", std::process::id()));
    let options = Options { pcap_dir: Some(dir.clone()), ..Options::default() };
    let report = play(&common::scenario(&text), options, |_| {}).unwrap_or_else(|e| panic!("{e}"));
    let file = std::fs::read(dir.join("0-a-b.pcapng")).expect("a capture");
    std::fs::remove_dir_all(&dir).expect("its directory");
    let setup = uplink();
    let t = trial(&setup, &replay(&file, &setup), &[("default", "")]);
    let [g] = &t.policies[0].groups[..] else { panic!("one group") };
    // The last packets may still be on their wire when the scenario ends.
    let carried = report.links[0].tx_packets;
    assert!((carried - 3..=carried).contains(&g.received_packets.expect("packets")), "{carried}");
    assert_eq!(g.offered_packets, g.received_packets);
    assert_eq!(t.policies[0].device.sent_bytes, g.received_packets.expect("packets") * 300);
    // A file with inverted bytes is read, or refused in words.
    for at in (0..file.len().min(1200)).step_by(3) {
        let mut wrong = file.clone();
        wrong[at] ^= 0xff;
        let _ = Traffic::file(&wrong, "wrong", setup.time, 1);
    }
}
