use std::collections::VecDeque;
use std::io::{Error, ErrorKind, IoSliceMut};

use quinn_udp::{BATCH_SIZE, RecvMeta};
use txweir_core::{Admitted, Instant, PathConfig, TxPath, Wake};

use super::*;

/// A train as a socket gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Train {
    port: u16,
    ecn: u8,
    size: Option<usize>,
    bytes: Vec<u8>,
}

/// A socket that keeps records, and answers as it is told.
#[derive(Default)]
struct Script {
    trains: Vec<Train>,
    answers: VecDeque<ErrorKind>,
    longest: usize,
    /// The longest train after an answer of `InvalidInput`.
    then: usize,
}

impl Trains for Script {
    fn send(&mut self, train: &Transmit<'_>) -> io::Result<()> {
        if let Some(kind) = self.answers.pop_front() {
            if kind == ErrorKind::InvalidInput {
                self.longest = self.then;
            }
            return Err(Error::from(kind));
        }
        self.trains.push(Train {
            port: train.destination.port(),
            ecn: train.ecn.map_or(0, |ecn| ecn as u8),
            size: train.segment_size,
            bytes: train.contents.to_vec(),
        });
        Ok(())
    }
    fn longest(&self) -> usize {
        self.longest
    }
}

fn socket(longest: usize) -> Script {
    Script { longest, ..Script::default() }
}

fn datagram(port: u16, len: usize, byte: u8) -> Datagram<Vec<u8>> {
    Datagram { to: SocketAddr::from(([127, 0, 0, 1], port)), from: None, bytes: vec![byte; len] }
}

/// A path with one FIFO, which lets each burst be seen as it is.
fn fifo() -> TxPath<Datagram<Vec<u8>>> {
    TxPath::new(PathConfig::for_socket()).unwrap().with_qdisc("pfifo", &["limit", "1000"]).unwrap()
}

/// Pushes datagrams with their ECN field, and rings the doorbell once.
fn push<T: Trains>(queue: &mut UdpQueue<Vec<u8>, T>, all: &[(u16, usize, Ecn)]) {
    assert_eq!(queue.reserve(all.len() as u32), all.len() as u32);
    for (n, (port, len, ecn)) in all.iter().enumerate() {
        queue.push(datagram(*port, *len, n as u8), &Meta::new(*len as u32).ecn(*ecn));
    }
    queue.commit().unwrap();
}

/// Returns port, ECN field, and number of datagrams of each train.
fn shapes<B>(queue: &UdpQueue<B, Script>) -> Vec<(u16, u8, usize)> {
    let count = |train: &Train| train.size.map_or(1, |size| train.bytes.len().div_ceil(size));
    queue.socket.trains.iter().map(|train| (train.port, train.ecn, count(train))).collect()
}

#[test]
fn a_train_is_of_one_peer_one_size_and_one_mark() {
    let mut queue = UdpQueue::over(socket(64));
    let (not, ect, ce) = (Ecn::NotEct, Ecn::Ect0, Ecn::Ce);
    push(
        &mut queue,
        &[
            (1, 100, not),
            (1, 100, not),
            (1, 40, not),
            (1, 100, not),
            (2, 100, not),
            (2, 100, ect),
            (2, 100, ce),
        ],
    );
    // The shorter one is the last of its train.
    assert_eq!(shapes(&queue), [(1, 0, 3), (1, 0, 1), (2, 0, 1), (2, 2, 1), (2, 3, 1)]);
    assert_eq!(queue.socket.trains[0].size, Some(100));
    assert_eq!(queue.socket.trains[0].bytes, [vec![0; 100], vec![1; 100], vec![2; 40]].concat());
    assert_eq!(queue.counts(), Counts { sent: 7, lost: 0, trains: 5, full: 0 });
}

#[test]
fn a_train_is_as_long_as_the_system_cuts() {
    let mut queue = UdpQueue::over(socket(3));
    push(&mut queue, &[(1, 100, Ecn::NotEct); 7]);
    assert_eq!(shapes(&queue), [(1, 0, 3), (1, 0, 3), (1, 0, 1)]);
    // 43 datagrams of 1500 bytes are 64 500.
    let mut queue = UdpQueue::over(socket(64));
    push(&mut queue, &[(1, 1500, Ecn::NotEct); 50]);
    assert_eq!(shapes(&queue), [(1, 0, 43), (1, 0, 7)]);
    // A longer datagram begins a train, and an empty one travels alone.
    let mut queue = UdpQueue::over(socket(64));
    push(&mut queue, &[(1, 10, Ecn::NotEct), (1, 11, Ecn::NotEct), (1, 0, Ecn::NotEct), (1, 0, Ecn::NotEct)]);
    assert_eq!(shapes(&queue), [(1, 0, 1), (1, 0, 1), (1, 0, 1), (1, 0, 1)]);
}

/// A probe of the path's MTU is refused where it is too long; the datagrams around it are not.
#[test]
fn a_longer_datagram_leaves_alone() {
    let mut queue = UdpQueue::over(socket(64));
    let sizes = [1200, 1200, 1452, 1200, 1200, 300];
    push(&mut queue, &sizes.map(|size| (1, size, Ecn::NotEct)));
    assert_eq!(shapes(&queue), [(1, 0, 2), (1, 0, 1), (1, 0, 3)]);
}

#[test]
fn a_full_socket_keeps_datagrams_in_the_qdisc() {
    let (mut path, mut queue, now) = (fifo(), UdpQueue::over(socket(10)), Instant::ZERO);
    queue.socket.answers.push_back(ErrorKind::WouldBlock);
    for n in 0..5 {
        let _ = path.submit(now, datagram(1, 100, n), Meta::new(128), &mut queue);
    }
    assert_eq!(path.drain(now, 64, &mut queue), Wake::Idle);
    assert!(queue.is_full() && queue.socket.trains.is_empty());
    // The next one waits where it can still be marked, dropped and passed.
    assert_eq!(path.submit(now, datagram(1, 100, 5), Meta::new(128), &mut queue), Admitted::Queued);
    assert_eq!(path.drain(now, 64, &mut queue), Wake::Device);
    path.reap(now, &mut queue, |_| {});
    assert!(!queue.is_full());
    assert_eq!(path.drain(now, 64, &mut queue), Wake::Idle);
    assert_eq!(shapes(&queue), [(1, 0, 5), (1, 0, 1)]);
    let firsts = queue.socket.trains.iter().flat_map(|train| train.bytes.iter().step_by(100));
    assert!(firsts.copied().eq(0..6));
    assert_eq!(queue.counts(), Counts { sent: 6, lost: 0, trains: 2, full: 1 });
}

/// The places are no reason to answer `Wake::Device`: no socket would tell that they are free.
#[test]
fn a_burst_beyond_the_places_leaves_in_one_call() {
    let (mut path, mut queue, now) = (fifo(), UdpQueue::over(socket(64)), Instant::ZERO);
    queue.is_full = true;
    for n in 0..200 {
        let _ = path.submit(now, datagram(1, 100, n), Meta::new(128), &mut queue);
    }
    queue.is_full = false;
    assert_eq!(path.drain(now, 300, &mut queue), Wake::Idle);
    assert_eq!(queue.counts().sent, 200);
    // Nor are those of packets that go directly, without a doorbell.
    for n in 0..200 {
        assert_eq!(path.submit(now, datagram(1, 100, n), Meta::new(128), &mut queue), Admitted::Sent);
    }
    assert_eq!((path.drain(now, 64, &mut queue), queue.counts().sent), (Wake::Idle, 400));
}

#[test]
fn a_system_that_cannot_cut_gets_datagrams_one_by_one() {
    let mut queue = UdpQueue::over(Script { then: 1, ..socket(64) });
    queue.socket.answers.push_back(ErrorKind::InvalidInput);
    push(&mut queue, &[(1, 100, Ecn::NotEct); 3]);
    assert_eq!(shapes(&queue), [(1, 0, 1); 3]);
    assert_eq!(queue.counts(), Counts { sent: 3, lost: 0, trains: 3, full: 0 });
}

#[test]
fn a_refused_train_is_lost_and_counted() {
    let mut queue = UdpQueue::over(Script { then: 64, ..socket(64) });
    // One of them leaves trains as long as they were.
    queue.socket.answers.extend([ErrorKind::PermissionDenied, ErrorKind::InvalidInput]);
    push(
        &mut queue,
        &[(1, 100, Ecn::NotEct), (1, 100, Ecn::NotEct), (2, 100, Ecn::NotEct), (3, 10, Ecn::NotEct)],
    );
    assert_eq!(shapes(&queue), [(3, 0, 1)]);
    assert_eq!(queue.counts(), Counts { sent: 1, lost: 3, trains: 1, full: 0 });
}

#[test]
fn buffers_come_back_sent_or_dropped_as_many_as_are_kept() {
    let config = PathConfig::for_socket().forwarder();
    let mut path = TxPath::new(config).unwrap().with_qdisc("pfifo", &["limit", "2"]).unwrap();
    let (mut queue, now) = (UdpQueue::over(socket(64)).keeping(4), Instant::ZERO);
    queue.is_full = true;
    for n in 0..4 {
        let _ = path.submit(now, datagram(1, 100, n), Meta::new(128), &mut queue);
    }
    queue.is_full = false;
    let _ = path.drain(now, 64, &mut queue);
    let back = |path: &mut TxPath<_>, queue: &mut UdpQueue<Vec<u8>, Script>| {
        let mut back = Vec::new();
        path.reap(now, queue, |datagram: Datagram<Vec<u8>>| back.push(datagram.bytes[0]));
        back
    };
    assert_eq!(back(&mut path, &mut queue), [2, 3, 0, 1]);
    push(&mut queue, &[(1, 100, Ecn::NotEct); 6]);
    assert_eq!(back(&mut path, &mut queue), [0, 1, 2, 3]);
}

/// Returns a socket of the system, its address, and what reads its ECN fields.
fn receiver() -> (UdpSocket, SocketAddr, UdpSocketState) {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = receiver.local_addr().unwrap();
    let state = UdpSocketState::new((&receiver).into()).unwrap();
    (receiver, to, state)
}

/// Returns the first byte and the ECN field of so many datagrams of a socket.
fn arrived(receiver: &UdpSocket, state: &UdpSocketState, count: usize) -> Vec<(u8, Ecn)> {
    let (mut got, mut tries) = (Vec::new(), 0);
    let mut room = vec![0; 65_536 * BATCH_SIZE];
    while got.len() < count {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let mut rooms: Vec<_> = room.chunks_mut(65_536).map(IoSliceMut::new).collect();
        let count = match state.recv(receiver.into(), &mut rooms, &mut metas) {
            Ok(count) => count,
            // The kernel may hand them over a little later.
            Err(e) if e.kind() == ErrorKind::WouldBlock && tries < 10_000 => {
                tries += 1;
                std::thread::sleep(std::time::Duration::from_millis(1));
                continue;
            }
            Err(e) => panic!("{e}: {got:?}"),
        };
        for (meta, bytes) in metas[..count].iter().zip(&rooms) {
            let ecn = meta.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_ds(ecn as u8));
            got.extend(bytes[..meta.len].chunks(meta.stride).map(|datagram| (datagram[0], ecn)));
        }
    }
    got
}

/// A datagram with a mark, or a train of them.
#[cfg(target_os = "linux")]
fn marked(to: SocketAddr, contents: &[u8], segment_size: Option<usize>) -> Transmit<'_> {
    Transmit { destination: to, ecn: Some(EcnCodepoint::Ce), contents, segment_size, src_ip: None }
}

/// Linux cuts at most 128 datagrams from a train, and refuses a longer one by the error with which
/// an old system refuses ECN fields.
#[cfg(target_os = "linux")]
#[test]
fn marks_arrive_behind_a_refused_train() {
    let (receiver, to, state) = receiver();
    let mut plain = Plain::new(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
    if plain.longest() == 1 {
        println!("marks behind a train: skipped, because the system does not cut them");
        return;
    }
    // A datagram of its own that is refused says nothing of trains.
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
    assert_eq!(plain.send(&marked(nowhere, &[0], None)).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(plain.longest() > 1);
    assert_eq!(plain.send(&marked(to, &[0; 200], Some(1))).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(plain.longest(), 1);
    plain.send(&marked(to, &[7], None)).unwrap();
    assert_eq!(arrived(&receiver, &state, 1), [(7, Ecn::Ce)]);
}

/// A socket with several addresses answers from the one that was asked, and no train has two.
#[cfg(target_os = "linux")]
#[test]
fn a_datagram_leaves_from_its_address() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = receiver.local_addr().unwrap();
    let mut queue = UdpQueue::new(UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
    // The system's own choice is 127.0.0.1.
    let sources = [2, 2, 3, 1].map(|last| IpAddr::from([127, 0, 0, last]));
    for from in sources {
        queue.push(Datagram { to, from: Some(from), bytes: vec![7; 100] }, &Meta::new(128));
    }
    queue.commit().unwrap();
    receiver.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    for from in sources {
        assert_eq!(receiver.recv_from(&mut [0; 200]).unwrap().1.ip(), from);
    }
    assert_eq!(queue.counts().sent, 4);
}

/// A socket of the system, both ways.
#[test]
fn trains_and_marks_arrive() {
    let (receiver, to, state) = receiver();
    let mut queue = UdpQueue::new(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
    let all: Vec<_> = (0..20).map(|n| (n, if n < 10 { Ecn::Ect0 } else { Ecn::Ce })).collect();
    for (n, ecn) in &all {
        queue.push(Datagram { to, from: None, bytes: vec![*n; 500] }, &Meta::new(528).ecn(*ecn));
    }
    queue.commit().unwrap();
    assert_eq!((queue.counts().sent, queue.counts().lost), (20, 0));
    if queue.socket().longest() >= 10 {
        assert_eq!(queue.counts().trains, 2);
    } else {
        println!("trains: skipped, because the system does not cut them");
    }
    assert_eq!(arrived(&receiver, &state, all.len()), all);
}

#[test]
fn a_datagram_is_its_peers_and_counts_its_headers() {
    let hasher = FlowHasher::new(1);
    let meta =
        |to: &str, len| Datagram { to: to.parse().unwrap(), from: None, bytes: vec![0; len] }.meta(&hasher);
    let four = meta("192.0.2.1:1", 100);
    assert_eq!((four.len, four.protocol, four.ecn, four.marked), (128, 0x0800, Ecn::NotEct, false));
    let six = meta("[2001:db8::1]:1", 100);
    assert_eq!((six.len, six.protocol), (148, 0x86dd));
    assert_eq!(meta("192.0.2.1:1", 9).hash, four.hash);
    for other in ["192.0.2.1:2", "192.0.2.2:1", "[2001:db8::1]:1"] {
        assert_ne!(meta(other, 100).hash, four.hash, "{other}");
    }
    let detail =
        |to: &str| Datagram { to: to.parse().unwrap(), from: None, bytes: [0; 1] }.detail(&hasher).dst_host;
    assert_eq!(detail("192.0.2.1:1"), detail("192.0.2.1:2"));
    assert_ne!(detail("192.0.2.1:1"), detail("192.0.2.2:1"));
}

/// The buffers go round: after the first burst nothing is allocated.
#[test]
fn a_datagram_allocates_nothing() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = receiver.local_addr().unwrap();
    let mut queue = UdpQueue::new(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap().keeping(64);
    let (mut path, hasher, now) = (fifo(), FlowHasher::new(1), Instant::ZERO);
    let mut spare: Vec<Vec<u8>> = (0..64).map(|_| Vec::with_capacity(1200)).collect();
    let made = txweir_counted::calls(|| {
        for round in 0..50 {
            for _ in 0..64 {
                let mut bytes = spare.pop().expect("all are back");
                bytes.resize(1200, round);
                let datagram = Datagram { to, from: None, bytes };
                let meta = datagram.meta(&hasher);
                let _ = path.submit(now, datagram, meta, &mut queue);
            }
            let _ = path.drain(now, 64, &mut queue);
            path.reap(now, &mut queue, |datagram| spare.push(datagram.bytes));
            queue.is_full = false;
        }
    });
    assert_eq!(made, 0);
    let Counts { sent, lost, .. } = queue.counts();
    assert_eq!((sent, lost), (3200, 0));
}

/// Many threads may send by it: `handoff::Queue` takes it.
#[test]
fn a_queue_goes_to_another_thread() {
    const fn sent<T: Send>() {}
    const { sent::<UdpQueue<Vec<u8>>>() };
    let mut queue = UdpQueue::over(socket(4));
    std::thread::spawn(move || {
        push(&mut queue, &[(1, 10, Ecn::NotEct); 2]);
        assert_eq!(shapes(&queue), [(1, 0, 2)]);
    })
    .join()
    .unwrap();
}
