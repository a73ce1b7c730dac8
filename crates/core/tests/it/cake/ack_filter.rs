//! The filter of acknowledgements.

use super::T0;
use crate::common::lane::Lane;
use proptest::prelude::*;
use txweir_core::base::rng::Rng;
use txweir_core::packet::detail::{Detail, SACK_BLOCKS, TcpDetail};
use txweir_core::packet::headers::tcp_flag::{ACK, ECE, PSH, SYN};
use txweir_core::{Admitted, DropReason, Meta};

fn ack(ack: u32) -> TcpDetail {
    TcpDetail {
        addresses: [[1; 16], [2; 16]],
        ports: [10, 20],
        ack,
        stamps: None,
        sack: [[0; 2]; SACK_BLOCKS],
        sacks: 0,
        flags: ACK,
        reserved: false,
        data: false,
        plain: true,
    }
}

fn with_sack(number: u32, blocks: &[[u32; 2]]) -> TcpDetail {
    let mut tcp = ack(number);
    tcp.sack[..blocks.len()].copy_from_slice(blocks);
    tcp.sacks = blocks.len() as u8;
    tcp
}

/// Queues these segments in one flow, and returns those that were filtered out.
fn filtered(options: &str, segments: &[TcpDetail]) -> Vec<u32> {
    let mut lane = Lane::new("cake", &format!("bandwidth 1mbit besteffort flowblind {options}"));
    for (i, tcp) in (0..).zip(segments) {
        let detail = Detail { tcp: Some(*tcp), ..Detail::default() };
        assert_eq!(lane.put_with(T0, i, Meta::new(66), &detail), Admitted::Queued);
    }
    let drops = lane.drops();
    assert!(drops.iter().all(|(_, reason)| *reason == DropReason::AckFilter));
    assert_eq!(lane.part("Tin 0", "ack_drops"), drops.len() as u64);
    drops.into_iter().map(|(id, _)| id).collect()
}

#[test]
fn which_acknowledgements_are_needless() {
    let other = TcpDetail { ports: [11, 20], ..ack(300) };
    let echo = |n| TcpDetail { flags: ACK | ECE, ..ack(n) };
    let data = |n| TcpDetail { data: true, ..ack(n) };
    let push = TcpDetail { flags: ACK | PSH, ..ack(200) };
    let syn = TcpDetail { flags: ACK | SYN, ..ack(400) };
    let odd = TcpDetail { plain: false, ..ack(200) };
    let reserved = TcpDetail { reserved: true, ..ack(200) };
    let stamped = |n, at| TcpDetail { stamps: Some([at, 5]), ..ack(n) };
    let none: &[u32] = &[];
    for (segments, on, aggressive) in [
        (vec![ack(100), ack(200)], none, &[0][..]),
        (vec![ack(100), ack(200), ack(300)], &[0], &[0, 1]),
        (vec![ack(100), ack(200), ack(300), ack(400)], &[0, 1], &[0, 1, 2]),
        // The same number again is a duplicate, and a signal of loss.
        (vec![ack(100), ack(100), ack(100)], none, none),
        (vec![ack(300), ack(200), ack(100)], none, none),
        (vec![ack(u32::MAX - 50), ack(20), ack(100)], &[0], &[0, 1]),
        (vec![ack(100), other, ack(300), ack(400)], &[0], &[0]),
        // A segment that follows directly may remove the last one, but not one of another
        // connection.
        (vec![ack(100), other, ack(200)], none, none),
        (vec![data(100), data(200), ack(300), ack(400)], none, &[2]),
        // Data acknowledges too.
        (vec![ack(100), ack(200), data(300)], &[0], &[0, 1]),
        (vec![ack(100), push, odd, reserved, ack(300)], none, &[0]),
        (vec![ack(100), ack(200), syn], none, &[0]),
        // A change of congestion notification is not lost.
        (vec![ack(100), echo(200), ack(300)], none, none),
        (vec![ack(100), echo(200), echo(300), echo(400)], &[1], &[1, 2]),
        (vec![stamped(100, 10), stamped(200, 11), stamped(300, 12)], &[0], &[0, 1]),
        (vec![stamped(100, 10), stamped(200, 11), stamped(300, 9)], none, &[0]),
    ] {
        assert_eq!(filtered("ack-filter", &segments), on, "{segments:?}");
        assert_eq!(filtered("ack-filter-aggressive", &segments), aggressive, "{segments:?}");
        assert_eq!(filtered("no-ack-filter", &segments), none);
    }
}

#[test]
fn selective_acknowledgements_stay_until_later_ones_cover_them() {
    let plain = ack(100);
    let one = with_sack(100, &[[200, 300]]);
    let more = with_sack(100, &[[200, 400]]);
    let two = with_sack(100, &[[500, 600], [200, 400]]);
    let duplicate = with_sack(100, &[[50, 80]]);
    for (segments, dropped) in [
        (vec![one, one], &[][..]),
        (vec![one, more], &[0]),
        (vec![more, one], &[]),
        (vec![plain, one, two], &[0, 1]),
        (vec![one, plain], &[]),
        (vec![one, ack(250)], &[]),
        (vec![two, with_sack(150, &[[500, 600], [200, 400]])], &[0]),
        (vec![duplicate, with_sack(150, &[[50, 80]])], &[]),
    ] {
        assert_eq!(filtered("ack-filter-aggressive", &segments), dropped, "{segments:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// For any segments: the newest stays, and a removed segment carries nothing that the segments
    /// kept behind it do not repeat.
    #[test]
    fn nothing_is_lost_with_an_acknowledgement(seed in any::<u64>(), aggressive in any::<bool>()) {
        let mut rng = Rng::new(seed);
        let mut low = |n: u64| rng.below(n) as u32;
        let segments: Vec<TcpDetail> = (0..30).map(|_| {
            let mut tcp = ack(low(8) * 10);
            tcp.ports[0] = low(2) as u16;
            tcp.data = low(6) == 0;
            tcp.plain = low(8) > 0;
            tcp.flags = [ACK, ACK, ACK, ACK | ECE, ACK | SYN, ACK | PSH, 0][low(7) as usize];
            tcp.stamps = (low(3) == 0).then(|| [low(4), low(4)]);
            tcp.sacks = low(3) as u8;
            for block in &mut tcp.sack[..usize::from(tcp.sacks)] {
                let left = low(10) * 10;
                *block = [left, left + 10 + low(3) * 10];
            }
            tcp
        }).collect();
        let mode = if aggressive { "ack-filter-aggressive" } else { "ack-filter" };
        let dropped = filtered(mode, &segments);
        let same = |a: &TcpDetail, b: &TcpDetail| a.ports == b.ports;
        for id in &dropped {
            let (gone, behind) = (segments[*id as usize], &segments[*id as usize + 1..]);
            prop_assert!(!gone.data && gone.plain && gone.flags & !ECE == ACK, "{:?}", gone);
            let mut later = (*id + 1..).zip(behind).filter(|(i, s)| !dropped.contains(i) && same(s, &gone));
            let covers = |s: &TcpDetail| {
                let blocks = |b: &[u32; 2]| s.blocks().iter().any(|c| c[0] <= b[0] && b[1] <= c[1]);
                s.ack >= gone.ack && gone.blocks().iter().all(blocks) && s.flags & ACK != 0
            };
            prop_assert!(later.any(|(_, s)| covers(s)), "{} of {:#?}", id, segments);
        }
    }
}
