//! quinn over a socket with a path before it, on loopback.

use std::sync::Arc;
use std::time::Duration;

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, Endpoint, EndpointConfig, Runtime, ServerConfig, TokioRuntime};
use txweir::quinn::PathSocket;
use txweir::tc::show::measured::counter;
use txweir::{PathConfig, TxPath};

/// Sends this many bytes through this root qdisc. Returns the time, and three counters of the path:
/// datagrams sent, drops, marks.
fn transfer(bytes: usize, qdisc: &str, options: &[&str], config: PathConfig) -> (Duration, [u64; 3], u64) {
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
        let path = TxPath::new(config).expect("a path").with_qdisc(qdisc, options).expect("a kind");
        let socket = PathSocket::new(inner, Arc::clone(&runtime), path, 1);
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
        let counts = socket.with(|_, path, queue| {
            let counts = queue.counts();
            assert_eq!(counts.lost, 0);
            let root = path.tree().root().handle();
            let of = |key| counter(path.tree(), root, key).map_or(0, |n| n as u64);
            let ([sent, drops, marks], trains) = ([counts.sent, of("drops"), of("ecn_mark")], counts.trains);
            ([sent, drops, marks], trains)
        });
        (begin.elapsed(), counts.0, counts.1)
    })
}

#[test]
fn a_shaper_paces_quinn_and_loses_nothing() {
    let options = ["rate", "16mbit", "burst", "10kb", "limit", "30kb"];
    let (time, [sent, drops, _], _) = transfer(200_000, "tbf", &options, PathConfig::for_socket());
    // 100 ms of payload, less the bucket's 5. A full queue makes quinn wait.
    assert!(time > Duration::from_millis(90), "{time:?}");
    assert!(sent >= 140 && drops == 0, "{sent}, {drops}");
}

#[test]
fn bursts_of_quinn_leave_as_trains() {
    let (_, [sent, drops, _], trains) = transfer(1_000_000, "fq_codel", &[], PathConfig::for_socket());
    assert!(sent >= 690 && drops == 0, "{sent}, {drops}");
    println!("{sent} datagrams in {trains} trains");
    assert!(trains <= sent);
}

#[test]
fn a_forwarders_full_queue_is_a_network_that_loses() {
    let options = ["rate", "16mbit", "burst", "10kb", "limit", "15kb"];
    let config = PathConfig::for_socket().forwarder();
    let (_, [_, drops, _], _) = transfer(300_000, "tbf", &options, config);
    assert!(drops > 0);
}
