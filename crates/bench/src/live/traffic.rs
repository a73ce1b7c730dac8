//! Traffic of the kernel's TCP: streams, connections, requests.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_ip_tos, set_socket_linger, set_socket_timeout};

use super::PATIENCE;
use super::beside::beside;
use super::hosts::Host;
use super::process::median;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Time between two looks of a blocked thread whether the run is over.
const LOOK: Duration = ms(50);

/// TCP streams that send as much as they can.
pub struct Streams {
    stop: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Streams {
    /// Connects so many streams, which send at once.
    pub fn start(from: Host<'_>, to: Host<'_>, count: usize) -> Self {
        let (listener, at) = to.listen();
        let connect = || TcpStream::connect_timeout(&at, PATIENCE).expect("connect");
        // All connect at once, so that no stream starts one queue later than the one before.
        let sources: Vec<TcpStream> = from.netns.enter(|| {
            thread::scope(|scope| {
                let all: Vec<_> = (0..count).map(|_| scope.spawn(connect)).collect();
                all.into_iter().map(|one| one.join().expect("a source")).collect()
            })
        });
        let mut streams = Self { stop: Arc::default(), received: Arc::default(), threads: Vec::new() };
        for source in sources {
            let (sink, _) = listener.accept().expect("a stream");
            streams.source(source);
            streams.sink(sink);
        }
        streams
    }

    fn source(&mut self, mut stream: TcpStream) {
        // Data that is unsent when the run is over is dropped.
        set_socket_linger(&stream, Some(Duration::ZERO)).expect("linger");
        stream.set_write_timeout(Some(LOOK)).expect("a timeout");
        let stop = Arc::clone(&self.stop);
        self.threads.push(thread::spawn(move || {
            let data = [0x5a; 1 << 14];
            while !stop.load(Ordering::Relaxed) {
                match stream.write(&data) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    // The other end was first to see that the run is over.
                    Err(_) if stop.load(Ordering::Relaxed) => {}
                    Err(error) => panic!("source: {error}"),
                }
            }
        }));
    }

    fn sink(&mut self, mut stream: TcpStream) {
        stream.set_read_timeout(Some(LOOK)).expect("a timeout");
        let (stop, received) = (Arc::clone(&self.stop), Arc::clone(&self.received));
        self.threads.push(thread::spawn(move || {
            let mut data = [0; 1 << 16];
            while !stop.load(Ordering::Relaxed) {
                match stream.read(&mut data) {
                    Ok(got) => drop(received.fetch_add(got as u64, Ordering::Relaxed)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(_) if stop.load(Ordering::Relaxed) => {}
                    Err(error) => panic!("sink: {error}"),
                }
            }
        }));
    }

    /// Returns the payload that has come so far.
    pub fn reading(&self) -> Reading {
        Reading { at: Instant::now(), bytes: self.received.load(Ordering::Relaxed) }
    }

    /// Ends all streams.
    pub fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("a stream");
        }
    }
}

/// Payload that streams have received, at a time.
#[derive(Clone, Copy)]
pub struct Reading {
    at: Instant,
    bytes: u64,
}

impl Reading {
    /// Returns Mbit/s since an earlier reading.
    pub fn since(&self, before: &Self) -> f64 {
        (self.bytes - before.bytes) as f64 * 8.0 / (self.at - before.at).as_secs_f64() / 1e6
    }
}

/// Has `clients` clients at once open connections for `time`, each its next one when the last is
/// over. Returns connections per second. As in netperf's TCP_CC no data is sent; the server closes
/// first and the client waits for that. So the server keeps the connection in TIME-WAIT, and a
/// client's port is free again.
pub fn connections(from: Host<'_>, to: Host<'_>, clients: usize, time: Duration) -> f64 {
    let (listener, at) = to.listen();
    set_socket_timeout(&listener, Timeout::Recv, Some(LOOK)).expect("a timeout");
    let server = |ends: &AtomicBool| {
        while !ends.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, _)) => drop(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("server: {error}"),
            }
        }
    };
    let rate = || -> f64 {
        thread::scope(|scope| {
            let all: Vec<_> = (0..clients).map(|_| scope.spawn(|| client(at, time))).collect();
            all.into_iter().map(|one| one.join().expect("a client")).sum()
        })
    };
    beside(server, || from.netns.enter(rate))
}

/// Runs one client. Returns its connections per second, from its first SYN to its last end. All
/// clients begin at the same time: the last connection of each, cut off at the same time as well,
/// would count for all or none.
fn client(at: SocketAddr, time: Duration) -> f64 {
    let start = Instant::now();
    let (mut count, mut elapsed) = (0_u32, Duration::ZERO);
    while elapsed < time {
        let mut stream = TcpStream::connect_timeout(&at, PATIENCE).expect("connect");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        assert_eq!(stream.read(&mut [0]).expect("its end"), 0);
        count += 1;
        elapsed = start.elapsed();
    }
    f64::from(count) / elapsed.as_secs_f64()
}

/// TOS of low delay (RFC 1349): priority 6, the first band of pfifo_fast.
const LOW_DELAY: u8 = 0x10;
/// Bytes of a request and of its answer.
const MESSAGE: usize = 200;

/// Answers requests on one connection until it is closed.
pub fn answer(listener: &TcpListener) {
    let (mut stream, _) = listener.accept().expect("a client");
    stream.set_nodelay(true).expect("no delay");
    set_ip_tos(&stream, LOW_DELAY).expect("set the TOS");
    stream.set_read_timeout(Some(PATIENCE)).expect("set a timeout");
    let mut message = [0; MESSAGE];
    loop {
        match stream.read_exact(&mut message) {
            Ok(()) => stream.write_all(&message).expect("answer"),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return,
            Err(error) => panic!("request: {error}"),
        }
    }
}

/// Sends requests one after the other for `time`. Returns the median of the round trips.
pub fn ask(server: SocketAddr, time: Duration) -> Duration {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE).expect("connect");
    stream.set_nodelay(true).expect("no delay");
    set_ip_tos(&stream, LOW_DELAY).expect("set the TOS");
    stream.set_read_timeout(Some(PATIENCE)).expect("set a timeout");
    let mut message = [1; MESSAGE];
    let (start, mut trips) = (Instant::now(), Vec::new());
    while start.elapsed() < time {
        let sent = Instant::now();
        stream.write_all(&message).expect("request");
        stream.read_exact(&mut message).expect("answer");
        trips.push(sent.elapsed());
    }
    median(trips)
}
