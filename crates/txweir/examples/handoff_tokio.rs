//! Tasks of Tokio and a thread that send on one port and wait for room without blocking each other.
//! Beside them is a loop that runs to completion and pays no cost of a hand-over between threads.

use std::error::Error;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant as Clock};

use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::timeout;
use txweir::core::path::device::{Completed, DeviceError};
use txweir::handoff::{Bell, Handed, Monitor, Owner, Queue, QueueConfig, RingReceiver, SharedPort};
use txweir::handoff::{Sender, Service, Wakeup, ring};
use txweir::{Admitted, Instant, Meta, PathConfig, TxPath, TxQueue};

/// Tasks beside the thread.
pub const TASKS: u64 = 4;
/// Longest wait of a sender for room.
const PATIENCE: Duration = Duration::from_secs(10);

/// A packet: the number of its sender, and its own number among the packets of that sender.
type Frame = (u64, u64);
type Failure = Box<dyn Error + Send + Sync>;

/// Sends a packet from a task. Returns the number of waits for room. It waits without a thread of
/// its own: the queue wakes it.
async fn send<D: TxQueue<Frame = Frame>>(sender: &mut Sender<D>, frame: Frame) -> u64 {
    let (mut held, mut told, mut waits) = (Some(frame), false, 0);
    poll_fn(|task| {
        while let Some(frame) = held.take() {
            let (queue, handed) = sender.send(frame, Meta::new(1500));
            let Handed::Done(Admitted::Full(back)) = handed else { break };
            held = Some(back);
            if std::mem::take(&mut told) {
                waits += 1;
                return Poll::Pending;
            }
            // It asks first and tries once more, so that no wake-up is lost between the two.
            told = true;
            sender.port().queues()[usize::from(queue)].when_room(Wakeup::Task(task.waker().clone()));
        }
        Poll::Ready(waits)
    })
    .await
}

/// Does the same from a thread, which sleeps meanwhile.
fn send_from_thread<D: TxQueue<Frame = Frame>>(queue: &Queue<D>, frame: Frame) -> Result<u64, Failure> {
    let frame = match queue.send(frame, Meta::new(1500)) {
        Handed::Done(Admitted::Full(back)) => back,
        _ => return Ok(0),
    };
    match queue.send_within(frame, Meta::new(1500), PATIENCE) {
        Handed::Done(Admitted::Full(_)) => Err("no room for the thread".into()),
        _ => Ok(1),
    }
}

/// A device whose other end is a thread of its own: it takes 32 packets, and then makes a pause.
fn wire(mut from: RingReceiver<Frame>, bell: &OnceLock<thread::Thread>, over: &AtomicBool) -> Vec<Frame> {
    let mut got = Vec::new();
    let _ = bell.set(thread::current());
    loop {
        match from.pop_or_rest() {
            Some((frame, _bytes)) => {
                got.push(frame);
                from.finish(1);
                if got.len() % 32 == 0 {
                    thread::sleep(Duration::from_micros(500));
                }
            }
            None if over.load(Ordering::Acquire) => return got,
            None => thread::park_timeout(Duration::from_millis(10)),
        }
    }
}

/// A device that has finished a packet as soon as it is shown it, as a socket has.
struct AtOnce {
    pushed: u32,
    shown: Arc<AtomicU64>,
}

impl TxQueue for AtOnce {
    type Frame = Frame;
    fn reserve(&mut self, want: u32) -> u32 {
        want
    }
    fn push(&mut self, _: Frame, _: &Meta) {
        self.pushed += 1;
    }
    fn commit(&mut self) -> Result<(), DeviceError> {
        self.shown.fetch_add(u64::from(std::mem::take(&mut self.pushed)), Ordering::Release);
        Ok(())
    }
    fn reap(&mut self, _: &mut dyn FnMut(Completed<Frame>)) {}
    fn is_done_at_commit(&mut self) -> bool {
        true
    }
}

/// Runs a loop to completion: the queue is biased to it, so that it sends without an atomic
/// exchange. Returns the packets that the device was shown, and whether the loop was alone to the
/// end.
fn run_to_completion(count: u64) -> Result<(u64, bool), Failure> {
    let shown = Arc::new(AtomicU64::new(0));
    let device = AtOnce { pushed: 0, shown: Arc::clone(&shown) };
    let path = TxPath::new(PathConfig::default())?;
    let queue = Queue::new(path, device, QueueConfig::new(clock), Wakeup::calling(|| {}));
    let mut owner = Owner::new(Arc::new(queue)).ok_or("the system has no membarrier(2)")?;
    for n in 0..count {
        let Handed::Done(Admitted::Sent) = owner.send((u64::MAX, n), Meta::new(1500)) else {
            return Err("the device takes everything at once".into());
        };
    }
    Ok((shown.load(Ordering::Acquire), owner.is_biased()))
}

/// A time that never goes back.
fn clock() -> Instant {
    static START: LazyLock<Clock> = LazyLock::new(Clock::now);
    Instant(u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// The results of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Waits of each sender: the tasks, then the thread.
    pub waits: Vec<u64>,
    /// The packets that the device got, in order.
    pub got: Vec<Frame>,
    /// Wake-ups of senders.
    pub woken: u64,
    /// Packets that another sender took in.
    pub listed: u64,
    /// The packets that the loop's device was shown, and true if no other thread disturbed the
    /// loop.
    pub owner: (u64, bool),
}

/// Has each sender send `each` packets.
pub fn run(each: u64) -> Result<Outcome, Failure> {
    // The port: a small ring and a short queue, so that senders have to wait.
    let (bell, door) = (Bell::new(), Arc::new(OnceLock::<thread::Thread>::new()));
    let rung = Arc::clone(&door);
    let doorbell = Wakeup::calling(move || rung.get().into_iter().for_each(thread::Thread::unpark));
    let (device, from) = ring::<Frame>(16, doorbell);
    let path = TxPath::new(PathConfig::default())?.with_qdisc("pfifo", &["limit", "32"])?;
    let config = QueueConfig { list: 32, ..QueueConfig::new(clock) };
    let queue = Arc::new(Queue::new(path, device, config, bell.wakeup()));
    from.on_finished(queue.kicker());
    let port = SharedPort::new(vec![Arc::clone(&queue)], 1);
    let monitor = Monitor::default();
    let service = Service::spawn("tx", &bell, port.queues().to_vec(), monitor, |found| eprintln!("{found}"))?;
    let over = Arc::new(AtomicBool::new(false));
    let wire = thread::spawn({
        let over = Arc::clone(&over);
        move || wire(from, &door, &over)
    });

    // The loop and the thread beside the tasks, each of which has a handle of its own to the port.
    let alone = thread::spawn(move || run_to_completion(each));
    let sending = Arc::clone(&queue);
    let beside = thread::spawn(move || (0..each).map(|n| send_from_thread(&sending, (TASKS, n))).sum());
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let waits: Result<Vec<u64>, Failure> = runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for who in 0..TASKS {
            let mut sender = port.sender();
            tasks.spawn(async move {
                let mut waits = 0;
                for n in 0..each {
                    waits += timeout(PATIENCE, send(&mut sender, (who, n))).await?;
                }
                Ok::<_, Failure>((who, waits))
            });
        }
        let mut waits: Vec<(u64, u64)> = tasks.join_all().await.into_iter().collect::<Result<_, _>>()?;
        waits.sort_unstable();
        Ok(waits.into_iter().map(|(_, waits)| waits).collect())
    });
    let beside: Result<u64, Failure> = beside.join().map_err(|_| "the thread has failed")?;
    let mut waits = waits?;
    waits.push(beside?);
    let owner = alone.join().map_err(|_| "the loop has failed")??;

    // The packets taken in leave; then the wire may end.
    let all = each * (TASKS + 1);
    for _ in 0..PATIENCE.as_millis() {
        if queue.status().counts().path.tx_packets == all {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    over.store(true, Ordering::Release);
    let got = wire.join().map_err(|_| "the wire has failed")?;
    service.stop();
    let counts = queue.status().counts().handoff;
    Ok(Outcome { waits, got, woken: counts.woken, listed: counts.listed, owner })
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let each = 2000;
    let o = run(each)?;
    println!("{:10} {:>8} {:>8} {:>8}", "sender", "packets", "arrived", "waited");
    for (who, waits) in (0u64..).zip(&o.waits) {
        let name = if who < TASKS { format!("task {who}") } else { "thread".into() };
        let arrived = o.got.iter().filter(|(from, _)| *from == who).count();
        println!("{name:10} {each:8} {arrived:8} {waits:8}");
    }
    let (shown, alone) = o.owner;
    println!("{:10} {each:8} {shown:8} {:8}", "loop", 0);
    println!("{} wake-ups, {} packets taken in by another sender", o.woken, o.listed);
    println!(
        "the loop was {}",
        if alone { "not disturbed: no exchange between threads" } else { "disturbed" }
    );
    Ok(())
}
