//! The trains of random bursts, compared with the datagrams of their frames one by one.

use proptest::prelude::*;
use txweir_core::packet::headers::{Headers, set_ecn};

use super::*;
use crate::segment::tests::Plan;
use crate::vnet::VnetHdr;

fn vni() -> Vni {
    Vni::new(0x0a_0b0c).unwrap()
}

/// A frame of a burst.
#[derive(Clone, Debug)]
struct Sent {
    hdr: VnetHdr,
    bytes: Vec<u8>,
}

/// A TCP frame of this payload, whole or a super-frame, with a code point.
fn tcp(payload: usize, gso_size: u16, ecn: Ecn) -> Sent {
    let (mut hdr, mut bytes) = Plan::tcp4(payload, gso_size).build();
    if payload <= usize::from(gso_size) {
        hdr = VnetHdr { gso: Default::default(), gso_size: 0, ..hdr };
    }
    let network = Headers::parse_ethernet(&bytes).network_header();
    set_ecn(&mut bytes, network, ecn);
    Sent { hdr, bytes }
}

/// The datagrams of a frame, each alone; none for a frame that can never leave.
fn alone(sent: &Sent) -> Option<Vec<Vec<u8>>> {
    let behind = |frame: &[u8]| [&vni().header(), frame].concat();
    if !sent.hdr.is_gso() {
        let mut bytes = sent.bytes.clone();
        complete_checksum(&mut sent.hdr.clone(), &mut bytes).ok()?;
        return (bytes.len() <= TRAIN_MAX - HEADER_LEN).then(|| vec![behind(&bytes)]);
    }
    let mut cut = Segmenter::new(&sent.hdr, &sent.bytes).ok()?;
    let mut segment = vec![0; cut.longest()];
    let mut all = Vec::new();
    while let Some(len) = cut.next_into(&sent.bytes, &mut segment).unwrap() {
        all.push(behind(&segment[..len]));
    }
    Some(all)
}

/// A train that has left: its datagrams, and their code point.
type Left = (Vec<Vec<u8>>, Ecn);

/// Sends a burst in trains of at most `most` datagrams by a path that takes `path` bytes, and
/// returns the trains, each as its datagrams and its code point, and the number of frames refused.
fn trains(burst: &[Sent], most: usize, path: usize) -> (Vec<Left>, usize) {
    let refs: Vec<_> = burst.iter().map(|s| FrameRef { hdr: s.hdr, bytes: &s.bytes }).collect();
    let (mut train, mut all, mut gone, mut refused) = (Train::new(path), Vec::new(), 0, 0);
    while gone < refs.len() {
        match train.fill(&refs[gone..], vni(), most) {
            Ok(()) => {
                let size = train.size().unwrap_or(train.bytes().len());
                all.push((train.bytes().chunks(size).map(<[u8]>::to_vec).collect(), train.ecn()));
                gone += train.frames();
                train.has_left();
            }
            Err(Refused) => {
                train.forget();
                (gone, refused) = (gone + 1, refused + 1);
            }
        }
    }
    assert!(train.left.is_none());
    (all, refused)
}

fn any_sent() -> impl Strategy<Value = Sent> {
    let ecn = prop_oneof![3 => Just(Ecn::NotEct), 1 => Just(Ecn::Ect0), 1 => Just(Ecn::Ce)];
    let payload = prop_oneof![Just(0), Just(100), 0_usize..3000, 20_000_usize..64_000];
    let frame = (payload, prop_oneof![Just(1448_u16), 500_u16..2000], ecn);
    let not_ip = (14_usize..66_000).prop_map(|len| Sent { hdr: VnetHdr::default(), bytes: vec![0xff; len] });
    // A header that does not describe its frame.
    let wrong = Just(()).prop_map(|()| {
        let Sent { hdr, bytes } = tcp(3000, 1448, Ecn::NotEct);
        Sent { hdr: VnetHdr { csum_start: 1, ..hdr }, bytes }
    });
    prop_oneof![
        8 => frame.prop_map(|(payload, size, ecn)| tcp(payload, size, ecn)),
        1 => not_ip,
        1 => wrong
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// All datagrams leave in order, and each equals that of its frame alone; a train has one size
    /// and one mark, and several datagrams only if the path takes each.
    #[test]
    fn trains_carry_the_datagrams_of_their_frames(
        burst in prop::collection::vec(any_sent(), 0..20),
        most in prop_oneof![Just(1_usize), 2..5_usize, Just(64)],
        path in prop_oneof![Just(TRAIN_MAX), 500..3000_usize],
    ) {
        let expected: Vec<_> = burst.iter().map(alone).collect();
        let (trains, refused) = trains(&burst, most, path);
        prop_assert_eq!(refused, expected.iter().filter(|e| e.is_none()).count());
        for (train, ecn) in &trains {
            prop_assert!((1..=most).contains(&train.len()));
            prop_assert!(train.iter().map(Vec::len).sum::<usize>() <= TRAIN_MAX);
            let (last, before) = train.split_last().unwrap();
            prop_assert!(before.iter().all(|d| d.len() == train[0].len()) && last.len() <= train[0].len());
            prop_assert!(train.iter().all(|d| ecn::outer(&d[HEADER_LEN..]) == *ecn));
            prop_assert!(train.len() == 1 || train[0].len() <= path);
        }
        let sent: Vec<_> = trains.into_iter().flat_map(|(train, _)| train).collect();
        prop_assert_eq!(sent, expected.into_iter().flatten().flatten().collect::<Vec<_>>());
    }
}

/// A burst of equal frames, and a super-frame, take one train each.
#[test]
fn a_burst_is_one_train() {
    let burst: Vec<_> = (0..40).map(|_| tcp(1000, 1448, Ecn::NotEct)).collect();
    assert_eq!(trains(&burst, 64, TRAIN_MAX).0.len(), 1);
    let (all, _) = trains(&[tcp(30 * 1448, 1448, Ecn::Ect0)], 64, TRAIN_MAX);
    assert_eq!(all.iter().map(|(train, _)| train.len()).collect::<Vec<_>>(), [30]);
    // A mark stands in the header of each datagram: another one ends the train.
    let (all, _) = trains(&[tcp(9, 1448, Ecn::Ect0), tcp(9, 1448, Ecn::Ce)], 64, TRAIN_MAX);
    assert_eq!(all.iter().map(|(_, ecn)| *ecn).collect::<Vec<_>>(), [Ecn::Ect0, Ecn::Ce]);
}

/// A datagram that is too long for the path is alone, so that no other frame is lost with it; so is
/// a segment of a super-frame.
#[test]
fn a_datagram_that_is_too_long_for_the_path_is_alone() {
    let of = |frames: &[&Sent], path: usize| {
        let refs: Vec<_> = frames.iter().map(|s| FrameRef { hdr: s.hdr, bytes: &s.bytes }).collect();
        let mut train = Train::new(path);
        train.fill(&refs, vni(), 64).unwrap();
        (train.touched(), train.size())
    };
    let [long, short] = [1400, 100].map(|payload| tcp(payload, 1448, Ecn::NotEct));
    let needs = HEADER_LEN + long.bytes.len();
    assert_eq!(of(&[&long, &short], needs), (2, Some(needs)));
    assert_eq!(of(&[&long, &short], needs - 1), (1, None));
    assert_eq!(of(&[&short, &long, &short], needs - 1), (1, None), "a longer one begins a train");
    let cut = tcp(3 * 1448, 1448, Ecn::NotEct);
    let needs = HEADER_LEN + cut.bytes.len() - 2 * 1448;
    assert_eq!(of(&[&cut, &short], needs), (2, Some(needs)));
    assert_eq!(of(&[&cut, &short], needs - 1), (1, None));
}

/// A part of a super-frame that has left is not sent again, unless the frame is forgotten.
#[test]
fn the_rest_of_a_frame_follows() {
    let sent = tcp(10 * 1448, 1448, Ecn::NotEct);
    let refs = [FrameRef { hdr: sent.hdr, bytes: &sent.bytes }];
    let mut train = Train::new(TRAIN_MAX);
    let leave = |train: &mut Train, has_left: bool| {
        train.fill(&refs, vni(), 4).unwrap();
        let sent = (train.bytes().to_vec(), train.frames(), train.touched());
        if has_left {
            train.has_left();
        }
        sent
    };
    let first = leave(&mut train, true);
    assert_eq!((first.1, first.2), (0, 1));
    let second = leave(&mut train, false);
    assert_ne!(first.0, second.0);
    assert_eq!(leave(&mut train, true), second, "it found no room, and is offered again");
    let third = leave(&mut train, true);
    assert_eq!((third.1, third.2), (1, 1));
    assert_eq!(leave(&mut train, true), first);
    train.forget();
    assert_eq!(leave(&mut train, true), first);
}
