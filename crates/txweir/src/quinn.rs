//! A socket of quinn with a path before it.
//!
//! [`PathSocket`] stands between an endpoint of quinn and the socket of its runtime. Datagrams of
//! the endpoint wait in the qdiscs of a path, each peer as a flow. A full queue makes quinn wait as
//! a full socket does (`Role::Origin`), or drops (`Role::Forwarder`). Where the kind in the path
//! gives each flow a part of the room (`TxPath::is_full_by_flow`), a connection waits for room of
//! its own flow, and the others go on. A mark of a qdisc is on the wire if the connection uses ECN,
//! as quinn's do by default. A burst of one connection leaves as a train, where the system cuts
//! trains: quinn makes no trains here, so that the qdiscs see each datagram.
//!
//! A task of the runtime sends what waits, at its times. It ends with the socket, and what waits
//! then is lost.
//!
//! ```no_run
//! use std::sync::Arc;
//! use txweir::{PathConfig, TxPath, quinn::PathSocket};
//!
//! # fn endpoint(runtime: Arc<dyn quinn::Runtime>) -> Result<(), Box<dyn std::error::Error>> {
//! let path = TxPath::new(PathConfig::for_socket())?.with_qdisc("fq_codel", &[])?;
//! let inner = runtime.wrap_udp_socket(std::net::UdpSocket::bind("0.0.0.0:0")?)?;
//! let socket = PathSocket::new(inner, Arc::clone(&runtime), path, 1);
//! let config = quinn::EndpointConfig::default();
//! quinn::Endpoint::new_with_abstract_socket(config, None, socket, runtime)?;
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant as Clock};

use ::quinn::udp::{RecvMeta, Transmit};
use ::quinn::{AsyncTimer, AsyncUdpSocket, Runtime, UdpPoller};

use txweir_core::packet::hash::FlowHasher;
use txweir_core::{Admitted, Ecn, Instant, TxPath, Wake};

use crate::udp::{Datagram, Trains, UdpQueue};

/// Most packets that the task sends before other tasks have their turn.
const BUDGET: u32 = 256;
/// Most buffers that are kept for further datagrams.
const SPARE_MAX: usize = 1024;

/// The path of a [`PathSocket`].
pub type Path = TxPath<Datagram<Vec<u8>>>;
/// The device of that path.
pub type Queue = UdpQueue<Vec<u8>, Arc<dyn AsyncUdpSocket>>;

impl Trains for Arc<dyn AsyncUdpSocket> {
    fn send(&mut self, train: &Transmit<'_>) -> io::Result<()> {
        self.try_send(train)
    }
    fn longest(&self) -> usize {
        self.max_transmit_segments()
    }
}

/// A socket of quinn with a path before it.
pub struct PathSocket {
    inner: Arc<dyn AsyncUdpSocket>,
    runtime: Arc<dyn Runtime>,
    /// The zero of the path's time.
    start: Clock,
    hasher: FlowHasher,
    state: Mutex<State>,
}

/// The path, and those who wait for it.
struct State {
    path: Path,
    queue: Queue,
    spare: Vec<Vec<u8>>,
    /// True from a full queue on until a packet has left.
    is_full: bool,
    /// The number of times that datagrams were taken, or that room came.
    changes: u64,
    /// Tasks that wait for room.
    waiting: Vec<Waker>,
    /// The task that sends.
    sender: Option<Waker>,
    /// True if the task was called and has not run since.
    called: bool,
}

impl PathSocket {
    /// Puts a path before a socket, and starts the task that sends. `seed` keys the hash of peers;
    /// where strangers connect, it is secret.
    pub fn new(
        inner: Arc<dyn AsyncUdpSocket>,
        runtime: Arc<dyn Runtime>,
        path: Path,
        seed: u64,
    ) -> Arc<Self> {
        let queue = UdpQueue::over(Arc::clone(&inner)).keeping(SPARE_MAX);
        let state = State {
            path,
            queue,
            spare: Vec::with_capacity(SPARE_MAX),
            is_full: false,
            changes: 0,
            waiting: Vec::new(),
            sender: None,
            called: false,
        };
        let (start, hasher) = (runtime.now(), FlowHasher::new(seed));
        let task = (Arc::clone(&inner).create_io_poller(), runtime.new_timer(start));
        let socket = Arc::new(Self { inner, runtime, start, hasher, state: Mutex::new(state) });
        let (writable, timer) = task;
        let sender = Sender { socket: Arc::downgrade(&socket), writable, timer };
        socket.runtime.spawn(Box::pin(sender));
        socket
    }

    /// Calls `f` with the time, the path and its device: to change qdiscs, and to read counters.
    pub fn with<R>(&self, f: impl FnOnce(Instant, &mut Path, &mut Queue) -> R) -> R {
        let mut state = self.state();
        let State { path, queue, .. } = &mut *state;
        let result = f(self.now(), path, queue);
        let call = state.call();
        drop(state);
        call.into_iter().for_each(Waker::wake);
        result
    }

    fn now(&self) -> Instant {
        let past = self.runtime.now().saturating_duration_since(self.start);
        Instant(u64::try_from(past.as_nanos()).unwrap_or(u64::MAX))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the waker of the task that sends, unless it was called already.
    fn call(&mut self) -> Option<Waker> {
        if std::mem::replace(&mut self.called, true) { None } else { self.sender.clone() }
    }

    /// Takes a datagram to a peer from an address. False if there is no room.
    fn submit(
        &mut self,
        now: Instant,
        (to, from): (SocketAddr, Option<IpAddr>),
        ecn: Ecn,
        bytes: &[u8],
        hasher: &FlowHasher,
    ) -> bool {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        let datagram = Datagram { to, from, bytes: buffer };
        let meta = datagram.meta(hasher).ecn(ecn);
        let detail = self.path.wants_detail().then(|| datagram.detail(hasher));
        match self.path.submit_with(now, datagram, meta, detail.as_ref(), &mut self.queue) {
            Admitted::Sent | Admitted::Queued | Admitted::Dropped(_) => true,
            // A datagram cannot be cut. A shaper that never takes it has dropped it before.
            Admitted::Full(datagram) | Admitted::Cut(datagram, _) => {
                self.spare.push(datagram.bytes);
                false
            }
        }
    }

    /// Sends what may leave. Returns when to go on, and those who wait for room that is there now.
    fn send(&mut self, now: Instant) -> (Wake, Vec<Waker>) {
        let Self { path, queue, spare, .. } = self;
        let mut keep = |datagram: Datagram<Vec<u8>>| {
            if spare.len() < SPARE_MAX {
                spare.push(datagram.bytes);
            }
        };
        path.reap(now, queue, &mut keep);
        let wake = path.drain(now, BUDGET, queue);
        path.reap(now, queue, &mut keep);
        if !path.take_wake() {
            return (wake, Vec::new());
        }
        self.is_full = false;
        self.changes += 1;
        (wake, std::mem::take(&mut self.waiting))
    }
}

impl AsyncUdpSocket for PathSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Room { socket: self, asked: None })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let ecn = transmit.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_ds(ecn as u8));
        let size = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        let mut state = self.state();
        let now = self.now();
        // One datagram, as `max_transmit_segments` asks for. The rest of a train that is cut short
        // by a full queue would be lost, as in a network.
        let mut all = transmit.contents.chunks(size);
        let ends = (transmit.destination, transmit.src_ip);
        let fits = |bytes: &[u8]| state.submit(now, ends, ecn, bytes, &self.hasher);
        let taken = all.by_ref().map(fits).take_while(|fits| *fits).count();
        if taken == 0 && !transmit.contents.is_empty() {
            state.is_full = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.changes += 1;
        let call = state.call();
        drop(state);
        call.into_iter().for_each(Waker::wake);
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_recv(cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

impl Drop for PathSocket {
    fn drop(&mut self) {
        let call = self.state().call();
        call.into_iter().for_each(Waker::wake);
    }
}

impl fmt::Debug for PathSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PathSocket").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// Waits for room in the path, for one connection.
#[derive(Debug)]
struct Room {
    socket: Arc<PathSocket>,
    /// The number of changes when it was last asked.
    asked: Option<u64>,
}

impl UdpPoller for Room {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { socket, asked } = &mut *self;
        let mut state = socket.state();
        // quinn asks before it tries to send, and again after a refusal. If something has changed
        // between the two, it may be another flow that is full, and an attempt tells.
        let of_another = state.path.is_full_by_flow() && *asked != Some(state.changes);
        *asked = Some(state.changes);
        if !state.is_full || of_another {
            return Poll::Ready(Ok(()));
        }
        // Bound: the connections of an endpoint.
        if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

/// The task that sends what waits.
struct Sender {
    socket: Weak<PathSocket>,
    writable: Pin<Box<dyn UdpPoller>>,
    timer: Pin<Box<dyn AsyncTimer>>,
}

impl Future for Sender {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(socket) = self.socket.upgrade() else { return Poll::Ready(()) };
        let mut state = socket.state();
        state.called = false;
        state.sender = Some(cx.waker().clone());
        let (wake, room) = state.send(socket.now());
        let is_full = state.queue.is_full();
        drop(state);
        room.into_iter().for_each(Waker::wake);
        let mut again = matches!(wake, Wake::More);
        if is_full {
            match self.writable.as_mut().poll_writable(cx) {
                Poll::Ready(Ok(())) => again = true,
                // The runtime ends.
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => {}
            }
        }
        if let Wake::At(at, _) = wake {
            self.timer.as_mut().reset(socket.start + Duration::from_nanos(at.0));
            again |= self.timer.as_mut().poll(cx).is_ready();
        }
        if again {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests;
