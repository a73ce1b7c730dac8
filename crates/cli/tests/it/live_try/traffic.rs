//! One live run: the kernel's TCP and UDP between two namespaces, `txweir run` with the policy
//! between them.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_ip_tos, set_socket_linger, set_socket_timeout, set_tcp_congestion};
use rustix::net::{AddressFamily, SocketType, ipproto, socket};
use serde_json::Value;
use txweir_device::testnet::NetNs;

use super::scenarios::{Load, Policy, Scenario};
use super::trips::{Capture, Seen};
use crate::common::lateness::{Lateness, Watch};
use crate::common::{Net, Temp, address};

/// A run has the length of one of `txweir try`, and its first tenth is not measured either.
pub const TIME: Duration = Duration::from_secs(10);
const WARMUP: Duration = Duration::from_secs(1);
/// TOS of low delay (RFC 1349), which Linux gives priority 6.
const LOW_DELAY: u8 = 0x10;
/// Bytes of a UDP frame that are no payload: Ethernet, IPv4 and UDP headers.
const UDP_HEADERS: usize = 14 + 20 + 8;

/// The results of one group after the warm-up.
#[derive(Clone, Debug, Default)]
pub struct GroupRun {
    /// Payload that each member delivered (`Stream`), bytes.
    pub bytes: Vec<u64>,
    /// Requests to their responses (`Rr`), one way (`Cbr`), round trips (`Stream`), nanoseconds,
    /// sorted.
    pub times: Vec<u64>,
    /// Payload that was sent again (`Stream`), bytes.
    pub again: u64,
    /// Packets that were sent and did not arrive (`Cbr`).
    pub lost: u64,
}

/// One live run of one policy.
#[derive(Clone, Debug)]
pub struct LiveRun {
    pub groups: Vec<GroupRun>,
    /// The length of the measurement.
    pub measured: Duration,
    /// Packets that the bottleneck dropped, and those that it marked.
    pub dropped: u64,
    pub marked: u64,
    pub late: Lateness,
}

/// The state that the threads of a run share.
struct Shared {
    /// Set once every thread is there.
    start: Arc<OnceLock<Instant>>,
    /// The worst lateness of a member at its start, nanoseconds.
    late: AtomicU64,
    stop: AtomicBool,
    /// Every connection, so that the end of the run unblocks its readers and writers.
    open: Mutex<Vec<TcpStream>>,
    groups: Vec<Counters>,
}

/// The counters of the members of a group.
#[derive(Default)]
struct Counters {
    delivered: Vec<AtomicU64>,
    times: Mutex<Vec<u64>>,
    sent: AtomicU64,
    received: AtomicU64,
}

impl Shared {
    /// Returns the time at which the run begins; waits until that is known.
    fn start(&self) -> Instant {
        *self.start.wait()
    }

    fn measured_now(&self) -> bool {
        self.start().elapsed() >= WARMUP && !self.over()
    }

    fn over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Notes that a member now does the work that was due at that time.
    fn begun(&self, due: Instant) {
        self.late.fetch_max(due.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    /// Notes one time of a group, if it is one that counts.
    fn note(&self, group: usize, time: Duration) {
        if self.measured_now() {
            let times = &self.groups[group].times;
            times.lock().unwrap_or_else(PoisonError::into_inner).push(time.as_nanos() as u64);
        }
    }

    /// Has the end of the run close this connection. False if the run is over.
    fn keep(&self, stream: &TcpStream) -> bool {
        // Data that is unsent at the end is dropped, so that no socket outlives its namespace.
        let _ = set_socket_linger(stream, Some(Duration::ZERO));
        let Ok(clone) = stream.try_clone() else { return false };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push(clone);
        !self.over()
    }

    fn end(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        self.stop.store(true, Ordering::Relaxed);
        for stream in open.iter() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Runs the scenario's traffic through `txweir run` with this policy.
pub fn run(scenario: &Scenario, policy: &Policy, unique: usize) -> LiveRun {
    let net = crate::common::taps();
    prepare(&net, scenario.ecn);
    let there = Temp::new(&format!("there-{unique}.tc"), policy.text);
    let delay = format!("qdisc add root netem delay {}ms limit 100000\n", scenario.rtt.as_millis());
    let back = Temp::new(&format!("back-{unique}.tc"), &delay);
    let wire = format!("rate={},ring=1024,descriptors=1", scenario.link);
    let args = ["--wire", &wire, "--wire-back", "rate=10gbit,ring=1024,descriptors=1"];
    let rest = ["--policy", there.path(), "--policy-back", back.path(), "--no-offload", "--json"];
    let running = net.start(&[&args[..], &rest, &["--stats-interval", "1s"]].concat()).follow();
    let ready = Instant::now();
    for netns in [&net.client, &net.server] {
        // The program has only now opened the other side: a SYN sent earlier would come a second
        // later.
        netns.wait_for_carrier("tap0");
    }
    let watch = Watch::start();
    let counters = |count: usize| Counters {
        delivered: (0..count).map(|_| AtomicU64::new(0)).collect(),
        ..Counters::default()
    };
    let shared = Arc::new(Shared {
        start: Arc::default(),
        late: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        open: Mutex::default(),
        groups: scenario.groups.iter().map(|g| counters(g.count)).collect(),
    });
    let capture = Capture::start(&net.client, Arc::clone(&shared.start), WARMUP, TIME);
    let mut threads = spawn(&net.server, scenario, &shared, server);
    threads.extend(spawn(&net.client, scenario, &shared, client));
    let start = *shared.start.get_or_init(Instant::now);
    let (bytes, measured) = measure(&shared);
    shared.end();
    for thread in threads {
        thread.join().expect("a member");
    }
    let reports = running.stop();
    let count = |report: usize, key: &str| {
        let value = reports[report].pointer(&format!("/directions/{key}"));
        value.and_then(Value::as_u64).expect("a counter")
    };
    let last = reports.len() - 1;
    // There is a report each second; this is the one nearest to the end of the warm-up.
    let warm = (start.saturating_duration_since(ready) + WARMUP).as_secs_f64().round() as usize;
    let since = |key: &str| count(last, key) - count(warm.saturating_sub(1).min(last), key);
    let late = ["0/stats/late_max_ns", "1/stats/late_max_ns"].map(|key| count(last, key));
    let begun = shared.late.load(Ordering::Relaxed);
    LiveRun {
        groups: gathered(scenario, &shared, &capture.end(), bytes),
        measured,
        dropped: since("0/stats/dropped"),
        marked: since("0/stats/marked"),
        late: watch.end(Duration::from_nanos(late[0].max(late[1]).max(begun))),
    }
}

/// Collects the results of each group from the capture of its streams and the bytes that they
/// delivered.
fn gathered(
    scenario: &Scenario,
    shared: &Shared,
    seen: &BTreeMap<u16, Seen>,
    delivered: Vec<Vec<u64>>,
) -> Vec<GroupRun> {
    let each = delivered.into_iter().enumerate().map(|(i, bytes)| {
        let (counters, load) = (&shared.groups[i], scenario.groups[i].load);
        let ports = scenario.members().filter(|(group, ..)| *group == i && load == Load::Stream);
        let streams: Vec<&Seen> = ports.filter_map(|(.., port)| seen.get(&port)).collect();
        let mut times = std::mem::take(&mut *counters.times.lock().unwrap_or_else(PoisonError::into_inner));
        times.extend(streams.iter().flat_map(|seen| &seen.times));
        times.sort_unstable();
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let lost = count(&counters.sent).saturating_sub(count(&counters.received));
        GroupRun { bytes, times, again: streams.iter().map(|seen| seen.again).sum(), lost }
    });
    each.collect()
}

/// Gives both stacks the settings of the hosts of `txweir try`: a receive buffer that tuning may
/// enlarge to 64 MB, one segment in each packet that leaves, no memory of earlier connections, no
/// need to ask for addresses. The device's queue holds the packets that come while the program
/// waits for a processor. Sockets choose their congestion control themselves, before they have
/// another one than Reno, because BBR would leave its pacing behind.
fn prepare(net: &Net, ecn: bool) {
    const MACS: [&str; 2] = ["02:00:00:00:00:01", "02:00:00:00:00:02"];
    const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];
    for (i, netns) in [&net.client, &net.server].into_iter().enumerate() {
        let link = ["ip", "link", "set", "dev", "tap0", "address", MACS[i]];
        netns.run(&[&link[..], &["gso_max_segs", "1", "txqueuelen", "10000"]].concat());
        let other = ["ip", "neighbour", "replace", ADDRESSES[1 - i], "lladdr", MACS[1 - i]];
        netns.run(&[&other[..], &["dev", "tap0", "nud", "permanent"]].concat());
        netns.enter(|| {
            let asks = ("tcp_ecn", if ecn { "1" } else { "0" });
            for (name, value) in SETTINGS.into_iter().chain([asks]) {
                std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value).expect(name);
            }
        });
    }
}

const SETTINGS: [(&str, &str); 4] = [
    ("tcp_congestion_control", "reno"),
    ("tcp_no_metrics_save", "1"),
    ("tcp_rmem", "4096 131072 67108864"),
    ("tcp_wmem", "4096 16384 67108864"),
];

/// One end of one member.
struct Member {
    shared: Arc<Shared>,
    group: usize,
    member: usize,
    load: Load,
    congestion: &'static str,
    tos: u8,
    at: SocketAddr,
    /// The time of its start after the start of the run.
    offset: Duration,
}

impl Member {
    /// Returns the bytes that it reads or writes at a time.
    const fn buffer(&self) -> usize {
        match self.load {
            Load::Rr { bytes } => bytes,
            _ => 1 << 14,
        }
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// Starts one end of every member in a namespace. `prepared` runs before this returns; the work
/// that it returns runs later.
fn spawn(
    netns: &NetNs,
    scenario: &Scenario,
    shared: &Arc<Shared>,
    prepared: fn(Member) -> Work,
) -> Vec<JoinHandle<()>> {
    // A thread is in the namespace of the thread that starts it.
    netns.enter(|| {
        let members = scenario.members().map(|(group, member, port)| {
            let of = &scenario.groups[group];
            prepared(Member {
                shared: Arc::clone(shared),
                group,
                member,
                load: of.load,
                congestion: scenario.congestion,
                tos: if of.priority == 6 { LOW_DELAY } else { 0 },
                at: address(port),
                offset: of.spread() * member as u32,
            })
        });
        members.map(thread::spawn).collect()
    })
}

/// Makes the end that listens.
fn server(member: Member) -> Work {
    if let Load::Cbr { .. } = member.load {
        let socket = UdpSocket::bind(member.at).expect("bind");
        return Box::new(move || hear(&member, &socket));
    }
    let listener = TcpListener::bind(member.at).expect("bind");
    set_socket_timeout(&listener, Timeout::Recv, Some(TIME)).expect("a timeout");
    set_tcp_congestion(&listener, member.congestion).expect("the congestion control");
    let mut data = vec![0x5a; member.buffer()];
    Box::new(move || {
        // Its timeout runs from here on, not while the other threads are made.
        member.shared.start();
        let Ok((mut stream, _)) = listener.accept() else { return };
        if !member.shared.keep(&stream) {
            return;
        }
        match member.load {
            Load::Rr { .. } => answer(&mut stream, member.tos, &mut data),
            _ => sink(&mut stream, &mut data, &member.shared.groups[member.group].delivered[member.member]),
        }
    })
}

/// Makes the end that connects.
fn client(member: Member) -> Work {
    let mut data = vec![0x5a; member.buffer()];
    Box::new(move || {
        let due = member.shared.start() + member.offset;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        member.shared.begun(due);
        if let Load::Cbr { frame, every } = member.load {
            return talk(&member, frame - UDP_HEADERS, every);
        }
        let mut stream = match connect(&member) {
            Ok(stream) => stream,
            // The line is too full for the handshake.
            Err(Errno::INPROGRESS | Errno::TIMEDOUT) => return,
            Err(_) if member.shared.over() => return,
            Err(error) => panic!("connect to {}: {error}", member.at),
        };
        let connected = Instant::now();
        if !member.shared.keep(&stream) {
            return;
        }
        match member.load {
            Load::Rr { .. } => ask(&member, &mut stream, &mut data, connected),
            _ => {
                // The send buffer has room for the first piece.
                let first = stream.write_all(&data);
                member.shared.begun(connected);
                if first.is_ok() {
                    source(&mut stream, &data);
                }
            }
        }
    })
}

/// Opens a connection with the member's congestion control.
fn connect(member: &Member) -> rustix::io::Result<TcpStream> {
    let socket = tcp_with(member.congestion)?;
    // The timeout bounds the handshake too (socket(7)).
    set_socket_timeout(&socket, Timeout::Send, Some(TIME))?;
    rustix::net::connect(&socket, &member.at)?;
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(socket.into())
}

/// Opens a TCP socket with a congestion control.
pub fn tcp_with(congestion: &str) -> rustix::io::Result<OwnedFd> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::TCP))?;
    set_tcp_congestion(&socket, congestion)?;
    Ok(socket)
}

/// Writes until the connection is shut down.
fn source(stream: &mut TcpStream, data: &[u8]) {
    while stream.write_all(data).is_ok() {}
}

/// Reads until the connection is shut down.
fn sink(stream: &mut TcpStream, data: &mut [u8], delivered: &AtomicU64) {
    while let Ok(got @ 1..) = stream.read(data) {
        delivered.fetch_add(got as u64, Ordering::Relaxed);
    }
}

fn ask(member: &Member, stream: &mut TcpStream, message: &mut [u8], connected: Instant) {
    stream.set_nodelay(true).expect("no delay");
    set_ip_tos(&*stream, member.tos).expect("set the TOS");
    member.shared.begun(connected);
    loop {
        let asked = Instant::now();
        if stream.write_all(message).and_then(|()| stream.read_exact(message)).is_err() {
            return;
        }
        member.shared.note(member.group, asked.elapsed());
    }
}

fn answer(stream: &mut TcpStream, tos: u8, message: &mut [u8]) {
    stream.set_nodelay(true).expect("no delay");
    set_ip_tos(&*stream, tos).expect("set the TOS");
    while stream.read_exact(message).and_then(|()| stream.write_all(message)).is_ok() {}
}

/// Sends packets with the time of sending in them.
fn talk(member: &Member, payload: usize, every: Duration) {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("bind");
    set_ip_tos(&socket, member.tos).expect("set the TOS");
    let start = member.shared.start();
    let (mut packet, mut due) = (vec![0; payload], start + member.offset);
    while !member.shared.over() {
        let now = start.elapsed();
        packet[..8].copy_from_slice(&(now.as_nanos() as u64).to_be_bytes());
        // A packet that could not get an answer in time is not counted as lost.
        if socket.send_to(&packet, member.at).is_ok() && counts(now) {
            member.shared.groups[member.group].sent.fetch_add(1, Ordering::Relaxed);
        }
        due += every;
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// True if a packet sent at this time of the run counts: it is measured, and has a second to arrive
/// in.
fn counts(sent: Duration) -> bool {
    (WARMUP..TIME - WARMUP).contains(&sent)
}

/// Receives these packets until the run is over.
fn hear(member: &Member, socket: &UdpSocket) {
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    let mut packet = [0; 1 << 11];
    while !member.shared.over() {
        match socket.recv(&mut packet) {
            Ok(8..) => {
                let stamp: [u8; 8] = packet[..8].try_into().expect("eight bytes");
                let sent = Duration::from_nanos(u64::from_be_bytes(stamp));
                member.shared.note(member.group, member.shared.start().elapsed().saturating_sub(sent));
                if counts(sent) {
                    member.shared.groups[member.group].received.fetch_add(1, Ordering::Relaxed);
                }
            }
            Err(error) if error.kind() != ErrorKind::WouldBlock => panic!("receive: {error}"),
            _ => {}
        }
    }
}

/// Waits until the run is over. Returns the bytes that each member of each group delivered after
/// the warm-up, and the length of that time.
fn measure(shared: &Shared) -> (Vec<Vec<u64>>, Duration) {
    let wait = |until: Instant| thread::sleep(until.saturating_duration_since(Instant::now()));
    let read = || -> Vec<Vec<u64>> {
        let each = |of: &Counters| of.delivered.iter().map(|n| n.load(Ordering::Relaxed)).collect();
        shared.groups.iter().map(each).collect()
    };
    wait(shared.start() + WARMUP);
    let (from, before) = (Instant::now(), read());
    wait(shared.start() + TIME);
    let (measured, after) = (from.elapsed(), read());
    let less = |(a, b): (&Vec<u64>, &Vec<u64>)| a.iter().zip(b).map(|(a, b)| a - b).collect();
    (after.iter().zip(&before).map(less).collect(), measured)
}
