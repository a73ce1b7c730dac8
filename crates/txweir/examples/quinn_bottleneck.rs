//! quinn through a marked bottleneck, in virtual time: a transport of other authors is a host of
//! the lab by one trait. It has a real session and real datagrams; the qdiscs of the bottleneck
//! mark their ECN field.

use std::cell::RefCell;
use std::error::Error;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant as Clock};

use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig};
use quinn_proto::rustls::RootCertStore;
use quinn_proto::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn_proto::{ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint};
use quinn_proto::{EndpointConfig, ServerConfig, Side, StreamId, TransportConfig};
use txweir::core::base::time::Nanos;
use txweir::core::model::wire::WireConfig;
use txweir::lab::foreign::{Envelope, Foreign, Transport, address};
use txweir::lab::{link::LinkConfig, net::Net, nic::NicConfig};
use txweir::tc::{Policy, show::measured::counter};
use txweir::{Ecn, Handle, Instant, PathConfig, Rate};

/// quinn counts in instants of the machine's clock, which the lab only adds to.
static ZERO: LazyLock<Clock> = LazyLock::new(Clock::now);

fn clock(now: Instant) -> Clock {
    *ZERO + Duration::from_nanos(now.0)
}

/// One end of a connection with a bulk stream.
pub struct Quic {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    /// Peer and configuration of the client, until it has opened the connection.
    opens: Option<(SocketAddr, ClientConfig)>,
    stream: Option<StreamId>,
    read: u64,
}

impl Quic {
    fn new(server: Option<ServerConfig>, opens: Option<(SocketAddr, ClientConfig)>) -> Rc<RefCell<Self>> {
        let mut config = EndpointConfig::default();
        config.rng_seed(Some([7; 32]));
        let endpoint = Endpoint::new(Arc::new(config), server.map(Arc::new), true, Some([7; 32]));
        Rc::new(RefCell::new(Self { endpoint, connection: None, opens, stream: None, read: 0 }))
    }

    /// Runs the application: the client writes as much as the stream takes, the server reads.
    fn work(&mut self) {
        let Some((handle, c)) = &mut self.connection else { return };
        while c.poll().is_some() {}
        if c.side().is_client() && !c.is_handshaking() {
            self.stream = self.stream.or_else(|| c.streams().open(Dir::Uni));
            while self.stream.is_some_and(|id| c.send_stream(id).write(&[7; 16_384]).is_ok_and(|n| n > 0)) {}
        } else if c.side().is_server() {
            let _ = c.streams().accept(Dir::Uni);
            if let Ok(mut chunks) = c.recv_stream(StreamId::new(Side::Client, Dir::Uni, 0)).read(true) {
                while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                    self.read += chunk.bytes.len() as u64;
                }
                let _ = chunks.finalize();
            }
        }
        while let Some(event) = c.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                c.handle_event(event);
            }
        }
    }
}

impl Transport for Quic {
    fn receive(&mut self, now: Instant, from: Envelope, datagram: &[u8]) {
        let ecn = EcnCodepoint::from_bits(from.ecn as u8);
        let mut reply = Vec::new();
        match self.endpoint.handle(clock(now), from.into(), None, ecn, datagram.into(), &mut reply) {
            Some(DatagramEvent::ConnectionEvent(to, event)) => {
                if let Some((_, c)) = self.connection.as_mut().filter(|(handle, _)| *handle == to) {
                    c.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.connection = self.endpoint.accept(incoming, clock(now), &mut reply, None).ok();
            }
            Some(DatagramEvent::Response(_)) | None => {}
        }
    }

    fn transmit(&mut self, now: Instant, datagram: &mut Vec<u8>) -> Option<Envelope> {
        self.work();
        let transmit = self.connection.as_mut()?.1.poll_transmit(clock(now), 1, datagram)?;
        let SocketAddr::V4(peer) = transmit.destination else { return None };
        let ecn = transmit.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_ds(ecn as u8));
        Some(Envelope { peer, ecn })
    }

    fn deadline(&mut self) -> Option<Instant> {
        let at = self.connection.as_mut()?.1.poll_timeout()?;
        Some(Instant(u64::try_from((at - *ZERO).as_nanos()).ok()?))
    }

    fn timeout(&mut self, now: Instant) {
        if let Some((peer, config)) = self.opens.take() {
            self.connection = self.endpoint.connect(clock(now), config, peer, "localhost").ok();
        }
        if let Some((_, c)) = &mut self.connection {
            c.handle_timeout(clock(now));
        }
    }
}

/// The results of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Bytes that have arrived.
    pub read: u64,
    /// Datagrams that the bottleneck marked.
    pub marks: u64,
    /// Datagrams that it dropped.
    pub drops: u64,
    /// Datagrams that the sender has found lost.
    pub lost: u64,
    /// The round-trip time at the end, as the sender knows it.
    pub rtt: Duration,
}

/// Runs a transfer through a bottleneck of 20 Mbit/s with this root qdisc, and 10 ms away, for this
/// virtual time.
pub fn run(qdisc: &str, bbr: bool, time: Nanos) -> Result<Outcome, Box<dyn Error>> {
    let mut net = Net::new(1);
    let [client, server] = [0; 2].map(|_| net.host(Default::default(), Default::default()));
    for (from, to, rate) in [(client, server, 20_000_000), (server, client, 1_000_000_000)] {
        let wire = WireConfig { rate: Rate::from_bits(rate), ..WireConfig::default() };
        let link = LinkConfig { delay: Nanos::from_millis(10), ..LinkConfig::default() };
        // A router drops; a host would wait.
        net.link(from, to, NicConfig { path: PathConfig::for_ring().forwarder(), wire, link, seed: 1 })?;
    }
    net.apply(0, &Policy::parse(&format!("qdisc add root handle 1: {qdisc}"), "bottleneck.tc")?)?;
    let factory: Arc<dyn ControllerFactory + Send + Sync> =
        if bbr { Arc::new(BbrConfig::default()) } else { Arc::new(CubicConfig::default()) };
    let mut transport = TransportConfig::default();
    transport.mtu_discovery_config(None).congestion_controller_factory(factory);
    let (listens, mut opens) = configs()?;
    opens.transport_config(Arc::new(transport));
    let to = (address(server), 4433).into();
    let (near, far) = (Quic::new(None, Some((to, opens))), Quic::new(Some(listens), None));
    net.machine(client, Box::new(Foreign::new(Rc::clone(&near), client, 4433)));
    net.machine(server, Box::new(Foreign::new(Rc::clone(&far), server, 4433)));
    net.run(Instant(time.0));
    let trees = || net.links().nic(0).port().trees();
    let sum = |key| counter(trees(), Handle::new(1, 0), key).map_or(0, |n| n as u64);
    let near = near.borrow();
    let (_, connection) = near.connection.as_ref().ok_or("no connection")?;
    let stats = connection.stats();
    let marks = sum("ecn_mark") + sum("step_marks");
    Ok(Outcome {
        read: far.borrow().read,
        marks,
        drops: sum("drops"),
        lost: stats.path.lost_packets,
        rtt: connection.rtt(),
    })
}

fn configs() -> Result<(ServerConfig, ClientConfig), Box<dyn Error>> {
    // A throw-away certificate for `localhost` and its key: they protect nothing.
    let cert = CertificateDer::from(&include_bytes!("localhost/cert.der")[..]);
    let key = PrivatePkcs8KeyDer::from(&include_bytes!("localhost/key.der")[..]);
    let server = ServerConfig::with_single_cert(vec![cert.clone()], key.into())?;
    let mut roots = RootCertStore::empty();
    roots.add(cert)?;
    Ok((server, ClientConfig::with_root_certificates(Arc::new(roots))?))
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("control  qdisc                  Mbit/s  marks  drops  lost  round trip");
    for (name, bbr) in [("cubic", false), ("bbr", true)] {
        for qdisc in ["pfifo limit 1000", "fq_codel", "fq_codel noecn", "codel ecn", "dualpi2"] {
            let o = run(qdisc, bbr, Nanos::from_millis(10_000))?;
            let rate = o.read as f64 * 8e-7;
            println!("{name:8} {qdisc:22} {rate:6.2} {:6} {:6} {:5}  {:?}", o.marks, o.drops, o.lost, o.rtt);
        }
    }
    Ok(())
}
