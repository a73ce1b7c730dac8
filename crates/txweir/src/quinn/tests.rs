use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Wake as Wakes;

use txweir_core::PathConfig;

use super::*;

/// A clock that goes on by a millisecond at each look.
#[derive(Debug)]
struct Ticks(Clock, AtomicU64);

impl Ticks {
    fn look(&self) -> Clock {
        self.0 + Duration::from_millis(self.1.fetch_add(1, Ordering::Relaxed))
    }
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A runtime that keeps its one task for the test.
struct Kept {
    ticks: Arc<Ticks>,
    task: Mutex<Option<Task>>,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}

impl Runtime for Kept {
    fn new_timer(&self, at: Clock) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Timer(Arc::clone(&self.ticks), at))
    }
    fn spawn(&self, task: Task) {
        *self.task.lock().unwrap() = Some(task);
    }
    fn wrap_udp_socket(&self, _: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Ok(Arc::new(Counter::default()))
    }
    fn now(&self) -> Clock {
        self.ticks.look()
    }
}

#[derive(Debug)]
struct Timer(Arc<Ticks>, Clock);

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, at: Clock) {
        self.1 = at;
    }
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.0.look() >= self.1 { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// A socket that counts what it takes, and has no room once in a while.
#[derive(Debug, Default)]
struct Counter {
    /// Calls after which one is refused again; 0 if only the second is.
    every: u64,
    calls: AtomicU64,
    taken: AtomicU64,
    /// The address that the last one left from.
    from: Mutex<Option<IpAddr>>,
}

impl AsyncUdpSocket for Counter {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Always)
    }
    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        *self.from.lock().unwrap() = transmit.src_ip;
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if call == 1 || call.checked_rem(self.every) == Some(1) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.taken.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn poll_recv(
        &self,
        _: &mut Context<'_>,
        _: &mut [IoSliceMut<'_>],
        _: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        Poll::Pending
    }
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(SocketAddr::from(([127, 0, 0, 1], 1)))
    }
}

#[derive(Debug)]
struct Always;

impl UdpPoller for Always {
    fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wakes for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A task whose time has come, or whose socket has room again, before it sleeps runs once more: no
/// timer and no socket would wake it. It ends with the socket.
#[test]
fn the_task_goes_on_until_nothing_waits() {
    // A datagram of 1228 bytes takes 0.8 ms at 12 Mbit/s: less than from one look to the next.
    runs_to_the_end("tbf", &["rate", "12mbit", "burst", "2000", "limit", "100kb"], 3, 10);
    runs_to_the_end("pfifo", &[], 3, 10);
    // More than the task sends at once, and a socket that has room for them.
    runs_to_the_end("pfifo", &[], 0, 64 + 2 * BUDGET);
}

fn transmit() -> Transmit<'static> {
    Transmit {
        destination: SocketAddr::from(([127, 0, 0, 1], 2)),
        ecn: None,
        contents: &[7; 1200],
        segment_size: None,
        src_ip: None,
    }
}

/// A connection that finds no room sleeps until the task has sent a packet, and then finds room.
#[test]
fn a_connection_waits_for_room_and_is_told_of_it() {
    let ticks = Arc::new(Ticks(tokio::time::Instant::now().into_std(), AtomicU64::new(0)));
    let kept = Arc::new(Kept { ticks, task: Mutex::new(None) });
    let path = TxPath::new(PathConfig::for_socket()).unwrap().with_qdisc("pfifo", &["limit", "2"]).unwrap();
    let socket = PathSocket::new(Arc::new(Counter::default()), Arc::clone(&kept) as _, path, 1);
    let mut task = kept.task.lock().unwrap().take().expect("the task that sends");
    let [sends, waits] = [Arc::new(Flag::default()), Arc::new(Flag::default())];
    let (of_task, of_room) = (Waker::from(Arc::clone(&sends)), Waker::from(Arc::clone(&waits)));
    assert!(task.as_mut().poll(&mut Context::from_waker(&of_task)).is_pending());
    // The socket takes one datagram and then has no room.
    let taken = (0..200).take_while(|_| socket.try_send(&transmit()).is_ok()).count();
    assert!((2..200).contains(&taken), "{taken}");
    let mut room = Arc::clone(&socket).create_io_poller();
    let mut cx = Context::from_waker(&of_room);
    assert!(room.as_mut().poll_writable(&mut cx).is_pending() && !waits.0.load(Ordering::Relaxed));
    assert!(task.as_mut().poll(&mut Context::from_waker(&of_task)).is_pending());
    assert!(waits.0.load(Ordering::Relaxed) && room.as_mut().poll_writable(&mut cx).is_ready());
    assert!(socket.try_send(&transmit()).is_ok());
}

/// Sends datagrams to a port as a connection of quinn does, until it waits for room. Returns the
/// number of those that were taken, and of those that were refused.
fn sends(
    socket: &PathSocket,
    room: &mut Pin<Box<dyn UdpPoller>>,
    cx: &mut Context<'_>,
    port: u16,
) -> (usize, usize) {
    let destination = SocketAddr::from(([127, 0, 0, 1], port));
    let (mut taken, mut refused) = (0, 0);
    while room.as_mut().poll_writable(cx).is_ready() {
        match socket.try_send(&Transmit { destination, ..transmit() }) {
            Ok(()) => taken += 1,
            Err(_) => refused += 1,
        }
        assert!(taken < 200 && refused < 10, "{taken}, {refused}");
    }
    (taken, refused)
}

/// A connection whose flow is full does not hold up another, which has room of its own.
#[test]
fn a_full_flow_holds_its_own_connection_alone() {
    let ticks = Arc::new(Ticks(tokio::time::Instant::now().into_std(), AtomicU64::new(0)));
    let kept = Arc::new(Kept { ticks, task: Mutex::new(None) });
    let path = TxPath::new(PathConfig::for_socket()).unwrap().with_qdisc("fq", &["flow_limit", "2"]).unwrap();
    let socket = PathSocket::new(Arc::new(Counter::default()), Arc::clone(&kept) as _, path, 1);
    let mut task = kept.task.lock().unwrap().take().expect("the task that sends");
    let flags = [(); 3].map(|()| Arc::new(Flag::default()));
    let [of_task, of_one, of_other] = flags.each_ref().map(|flag| Waker::from(Arc::clone(flag)));
    let mut cx = Context::from_waker(&of_task);
    assert!(task.as_mut().poll(&mut cx).is_pending());
    let mut rooms = [(); 2].map(|()| Arc::clone(&socket).create_io_poller());
    let [one, other] = &mut rooms;
    let (mut cx_one, mut cx_other) = (Context::from_waker(&of_one), Context::from_waker(&of_other));
    // Those that go on to the device, which has no room, and two that wait; one attempt is refused.
    let (taken, refused) = sends(&socket, one, &mut cx_one, 2);
    assert!(taken >= 2 && refused == 1, "{taken}, {refused}");
    assert_eq!(sends(&socket, other, &mut cx_other, 3), (2, 1));
    // Nothing has left since. The first attempts once more, because datagrams have been taken.
    assert_eq!(sends(&socket, one, &mut cx_one, 2), (0, 1));
    assert_eq!(sends(&socket, other, &mut cx_other, 3), (0, 0));
    let woken = || flags.each_ref().map(|flag| flag.0.load(Ordering::Relaxed));
    assert_eq!(woken()[1..], [false, false]);
    assert!(task.as_mut().poll(&mut cx).is_pending());
    assert_eq!(woken()[1..], [true, true]);
    assert!(one.as_mut().poll_writable(&mut cx_one).is_ready());
    assert!(other.as_mut().poll_writable(&mut cx_other).is_ready());
}

/// quinn answers from the address that a peer has chosen: from another one the peer takes nothing.
#[test]
fn a_datagram_keeps_its_source() {
    let ticks = Arc::new(Ticks(tokio::time::Instant::now().into_std(), AtomicU64::new(0)));
    let kept = Arc::new(Kept { ticks, task: Mutex::new(None) });
    let inner = Arc::new(Counter::default());
    let path = TxPath::new(PathConfig::for_socket()).unwrap();
    let socket = PathSocket::new(Arc::clone(&inner) as _, Arc::clone(&kept) as _, path, 1);
    let mut task = kept.task.lock().unwrap().take().expect("the task that sends");
    let from = Some(IpAddr::from([192, 0, 2, 7]));
    socket.try_send(&Transmit { src_ip: from, ..transmit() }).unwrap();
    let waker = Waker::from(Arc::new(Flag::default()));
    assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert_eq!((inner.taken.load(Ordering::Relaxed), *inner.from.lock().unwrap()), (1, from));
}

fn runs_to_the_end(qdisc: &str, options: &[&str], every: u64, count: u32) {
    let ticks = Arc::new(Ticks(tokio::time::Instant::now().into_std(), AtomicU64::new(0)));
    let kept = Arc::new(Kept { ticks, task: Mutex::new(None) });
    let inner = Arc::new(Counter { every, ..Counter::default() });
    let path = TxPath::new(PathConfig::for_socket()).unwrap().with_qdisc(qdisc, options).unwrap();
    let socket = PathSocket::new(Arc::clone(&inner) as _, Arc::clone(&kept) as _, path, 1);
    let mut task = kept.task.lock().unwrap().take().expect("the task that sends");
    let flag = Arc::new(Flag::default());
    let waker = Waker::from(Arc::clone(&flag));
    let mut cx = Context::from_waker(&waker);
    assert!(task.as_mut().poll(&mut cx).is_pending() && !flag.0.load(Ordering::Relaxed));
    for _ in 0..count {
        socket.try_send(&transmit()).unwrap();
    }
    let mut runs = 0;
    while flag.0.swap(false, Ordering::Relaxed) {
        assert!(task.as_mut().poll(&mut cx).is_pending());
        runs += 1;
        assert!(runs < 100, "it sleeps when nothing waits");
    }
    assert_eq!(inner.taken.load(Ordering::Relaxed), u64::from(count));
    drop(socket);
    assert!(flag.0.load(Ordering::Relaxed) && task.as_mut().poll(&mut cx).is_ready());
}
