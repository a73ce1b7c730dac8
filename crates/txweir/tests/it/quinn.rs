//! quinn over a socket with a path before it, on loopback.

use std::sync::Arc;
use std::time::Duration;

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, Endpoint, EndpointConfig, Runtime, ServerConfig, TokioRuntime};
use txweir::quinn::PathSocket;
use txweir::tc::{Policy, show::measured::counter};
use txweir::udp::{Plain, Trains};
use txweir::{Handle, PathConfig, TxPath};

/// The results of a transfer.
struct Outcome {
    time: Duration,
    /// Datagrams and trains that the socket took.
    sent: u64,
    trains: u64,
    /// Drops and marks below the root.
    drops: u64,
    marks: u64,
    /// Datagrams that quinn has found lost, and reductions of its window.
    lost: u64,
    reductions: u64,
}

/// Sends this many bytes through these qdiscs.
fn transfer(bytes: usize, policy: &str, config: PathConfig) -> Outcome {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("one");
    runtime.block_on(async {
        let cert = CertificateDer::from(&include_bytes!("../../examples/localhost/cert.der")[..]);
        let key = PrivatePkcs8KeyDer::from(&include_bytes!("../../examples/localhost/key.der")[..]);
        let server = ServerConfig::with_single_cert(vec![cert.clone()], key.into()).expect("a pair");
        let server = Endpoint::server(server, "127.0.0.1:0".parse().expect("one")).expect("a socket");
        let to = server.local_addr().expect("it has one");
        let reads = tokio::spawn(async move {
            let connection = server.accept().await.expect("one comes").await.expect("a handshake");
            let mut stream = connection.accept_uni().await.expect("a stream");
            let got = stream.read_to_end(usize::MAX).await.expect("all");
            connection.close(0u8.into(), b"");
            server.wait_idle().await;
            got
        });

        let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime);
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let inner = runtime.wrap_udp_socket(socket).expect("set up");
        let path = TxPath::new(config).expect("a path");
        let socket = PathSocket::new(inner, Arc::clone(&runtime), path, 1);
        let policy = Policy::parse(policy, "quinn.tc").expect("a policy");
        socket.with(|now, path, queue| {
            path.configure(now, queue, |tree, cx| policy.apply(tree, cx)).expect("applies")
        });
        let client = Endpoint::new_with_abstract_socket(
            EndpointConfig::default(),
            None,
            Arc::clone(&socket) as _,
            runtime,
        );
        let client = client.expect("an endpoint");
        let mut roots = RootCertStore::empty();
        roots.add(cert).expect("a certificate");
        let config = ClientConfig::with_root_certificates(Arc::new(roots)).expect("a configuration");
        let connection =
            client.connect_with(config, to, "localhost").expect("it begins").await.expect("a handshake");
        let begin = tokio::time::Instant::now();
        let mut stream = connection.open_uni().await.expect("a stream");
        stream.write_all(&vec![7; bytes]).await.expect("it writes");
        stream.finish().expect("it ends");
        let got = reads.await.expect("no panic");
        assert!(got.len() == bytes && got.iter().all(|byte| *byte == 7));
        let path = connection.stats().path;
        socket.with(|_, own, queue| {
            assert_eq!(queue.counts().lost, 0);
            let of = |key| counter(own.tree(), Handle::new(2, 0), key).map_or(0, |n| n as u64);
            Outcome {
                time: begin.elapsed(),
                sent: queue.counts().sent,
                trains: queue.counts().trains,
                drops: own.tree().root().books().dropped.packets,
                marks: of("ecn_mark"),
                lost: path.lost_packets,
                reductions: path.congestion_events,
            }
        })
    })
}

/// A server at all addresses of its machine, with a path before its socket.
#[cfg(target_os = "linux")]
#[test]
fn a_server_answers_from_the_address_that_a_client_knows() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("one");
    runtime.block_on(async {
        let cert = CertificateDer::from(&include_bytes!("../../examples/localhost/cert.der")[..]);
        let key = PrivatePkcs8KeyDer::from(&include_bytes!("../../examples/localhost/key.der")[..]);
        let config = ServerConfig::with_single_cert(vec![cert.clone()], key.into()).expect("a pair");
        let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime);
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").expect("a socket");
        let port = socket.local_addr().expect("it has one").port();
        let inner = runtime.wrap_udp_socket(socket).expect("set up");
        let path = TxPath::new(PathConfig::for_socket()).expect("a path");
        let socket = PathSocket::new(inner, Arc::clone(&runtime), path, 1);
        let server =
            Endpoint::new_with_abstract_socket(EndpointConfig::default(), Some(config), socket as _, runtime);
        let server = server.expect("an endpoint");
        tokio::spawn(async move { server.accept().await.expect("one comes").await });

        let client = Endpoint::client("127.0.0.1:0".parse().expect("one")).expect("a socket");
        let mut roots = RootCertStore::empty();
        roots.add(cert).expect("a certificate");
        let config = ClientConfig::with_root_certificates(Arc::new(roots)).expect("a configuration");
        // The system would answer from 127.0.0.1.
        let to = std::net::SocketAddr::from(([127, 0, 0, 2], port));
        let connecting = client.connect_with(config, to, "localhost").expect("it begins");
        let connected = tokio::time::timeout(Duration::from_secs(20), connecting).await;
        connected.expect("an answer in time").expect("a handshake");
    });
}

#[test]
fn a_shaper_paces_quinn_and_loses_nothing() {
    let policy = "qdisc add root handle 1: tbf rate 16mbit burst 10kb limit 30kb\n";
    let o = transfer(200_000, policy, PathConfig::for_socket());
    // 100 ms of payload, less the bucket's 5. A full queue makes quinn wait.
    assert!(o.time > Duration::from_millis(90), "{:?}", o.time);
    // On a busy machine the buffer of the receiver may lose a datagram; the path has none.
    assert!(o.sent >= 140 && o.drops == 0, "{}, {}", o.sent, o.drops);
}

#[test]
fn a_mark_reaches_quinn_and_slows_it_down() {
    let policy = "qdisc add root handle 1: tbf rate 16mbit burst 3kb limit 4m\n\
                  qdisc add parent 1: handle 2: codel target 1ms interval 10ms ecn\n";
    let o = transfer(500_000, policy, PathConfig::for_socket());
    assert!(
        o.marks > 0 && o.reductions > 0 && o.drops == 0,
        "{}, {}, {}, {}",
        o.marks,
        o.reductions,
        o.drops,
        o.lost
    );
}

#[test]
fn bursts_of_quinn_leave_as_trains() {
    let o = transfer(1_000_000, "qdisc add root handle 2: fq_codel\n", PathConfig::for_socket());
    assert!(o.sent >= 690 && o.drops == 0, "{}, {}", o.sent, o.drops);
    let probe = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    if Plain::new(probe).expect("set up").longest() > 1 {
        // Bursts of quinn's are of ten datagrams and more; the queue is empty between them.
        assert!(2 * o.trains < o.sent, "{} datagrams in {} trains", o.sent, o.trains);
    } else {
        println!("trains: skipped, because the system does not cut them");
    }
}

#[test]
fn a_forwarders_full_queue_is_a_network_that_loses() {
    let policy = "qdisc add root handle 1: tbf rate 16mbit burst 10kb limit 15kb\n";
    let o = transfer(300_000, policy, PathConfig::for_socket().forwarder());
    assert!(o.drops > 0 && o.lost > 0, "{}, {}", o.drops, o.lost);
}
