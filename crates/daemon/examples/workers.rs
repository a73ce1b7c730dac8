//! One worker against several, on interfaces in memory that always have a frame and take any: the
//! cost of the way through txweir alone, without a kernel below.
//!
//!     cargo run --release -p txweir-daemon --example workers -- 2 7
//!
//! The arguments are the number of workers (default 2) and of rounds (default 7). The rounds of one
//! worker and of several are interleaved. For each way to spread the frames it prints
//!
//! - the frames forwarded per second of wall time, which other programs on the machine lower;
//! - the processor time per frame, which they hardly do: with N workers on free cores the rate is N
//!   over this time, so the ratio of the times says how the rate scales where cores are free.
//!
//! Each figure is a median, with the least and the greatest. Frames that cross to a worker whose
//! mailbox is full are refused: their cost counts, and they are no frames here. Where there are
//! more threads than free processors that happens whenever a worker has to wait for its turn; the
//! last column is the refused part of all frames.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use txweir_core::Instant;
use txweir_daemon::{Side, Team, TeamOptions, parts, seat};
use txweir_device::{
    Batch, Batched, Calls, Counters, Endpoint, FrameRef, IfName, LinkIo, Nic, Rest, Source, VnetHdr,
};
use txweir_tc::Source as Text;
use txweir_tc::tool::{Request, run};

/// Bytes of a frame.
const LEN: usize = 256;
/// Flows of each interface's frames.
const FLOWS: u16 = 64;
/// Time of one measurement.
const TIME: Duration = Duration::from_millis(300);

/// An interface that has a frame whenever it is asked, if `gives`, and takes any.
#[derive(Debug)]
struct Memory {
    name: IfName,
    fd: UnixStream,
    gives: bool,
    frame: Vec<u8>,
    flow: u16,
    counters: Counters,
    _other: UnixStream,
}

impl Memory {
    fn open(name: &str, gives: bool) -> io::Result<LinkIo> {
        let (fd, mut other) = UnixStream::pair()?;
        if gives {
            // Readable for good.
            io::Write::write_all(&mut other, b"x")?;
        }
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
        frame.extend((LEN as u16 - 14).to_be_bytes());
        frame.extend([0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 0, 0, 9]);
        frame.extend((LEN as u16 - 34).to_be_bytes());
        frame.resize(LEN, 0);
        let name = IfName::new(name).map_err(|e| io::Error::other(e.to_string()))?;
        let counters = Counters::default();
        Ok(Box::new(Batched::new(
            Self { name, fd, gives, frame, flow: 0, counters, _other: other },
            64 << 20,
        )))
    }
}

impl Source for Memory {
    fn recv(&mut self, room: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        if !self.gives {
            return Ok(None);
        }
        self.flow = (self.flow + 1) % FLOWS;
        self.frame[34..36].copy_from_slice(&(1000 + self.flow).to_be_bytes());
        room[..LEN].copy_from_slice(&self.frame);
        self.counters.rx_frames += 1;
        Ok(Some((VnetHdr::default(), LEN)))
    }
}

impl Nic for Memory {
    fn kind(&self) -> &'static str {
        "packet"
    }
    fn name(&self) -> &IfName {
        &self.name
    }
    fn counters(&mut self) -> Counters {
        self.counters
    }
    fn is_up(&self) -> io::Result<bool> {
        Ok(true)
    }
    fn mtu(&self) -> io::Result<usize> {
        Ok(1500)
    }
}

impl Calls for Memory {
    fn send_batch(&mut self, frames: &[FrameRef<'_>]) -> Batch {
        Batch { taken: frames.len(), lost: 0, rest: Rest::None }
    }
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Returns the processor time of this process, seconds.
fn spent() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Forwards for some time. Returns frames per second, processor nanoseconds per frame, and the
/// percentage of frames that a full mailbox refused.
fn measure(workers: usize, root: &str, map: &str) -> Result<[f64; 3], Box<dyn std::error::Error>> {
    let side = |name: &str, gives| -> Result<Side, Box<dyn std::error::Error>> {
        Ok(Side {
            name: IfName::new(name)?,
            endpoint: format!("packet:{name}").parse::<Endpoint>()?,
            handles: (0..workers).map(|_| Memory::open(name, gives)).collect::<Result<_, _>>()?,
            wire: None,
        })
    };
    let mut all = parts([side("left", true)?, side("right", false)?], workers)?;
    for links in &mut all {
        let args = ["-b", "policy"].map(String::from).to_vec();
        let done = run(&Request { args, batch: Some(Text::new("policy", root)), class_names: None }, links);
        if done.status != 0 {
            return Err(done.stderr.into());
        }
    }
    seat(&mut all, &map.parse()?)?;
    let mut team = Team::new(all)?;
    let forwarded = |team: &Team| -> Result<([u64; 2], Instant, f64), String> {
        let mut stopped = team.stop().map_err(|stuck| stuck.to_string())?;
        let parts = stopped.parts();
        let ways = || parts.iter().map(|part| &part.all()[1].way);
        let frames = ways().map(|way| way.stats().delivered).sum();
        let refused = ways().map(|way| way.crossed().refused).sum();
        Ok(([frames, refused], Instant(txweir_device::clock::now_ns()), spent()))
    };
    team.start(&TeamOptions { pins: Vec::new(), busy_poll: true })?;
    // Buffers and tables are made in the first moments.
    std::thread::sleep(TIME / 4);
    let before = forwarded(&team)?;
    std::thread::sleep(TIME);
    let after = forwarded(&team)?;
    team.end();
    let [frames, refused] = [0, 1].map(|at| (after.0[at] - before.0[at]) as f64);
    let time = after.1.saturating_since(before.1).0 as f64;
    Ok([frames * 1e9 / time, (after.2 - before.2) * 1e9 / frames, 100.0 * refused / (frames + refused)])
}

/// Returns the median, the least and the greatest.
fn spread(mut all: Vec<f64>) -> [f64; 3] {
    all.sort_by(f64::total_cmp);
    [all[all.len() / 2], all[0], all[all.len() - 1]]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let workers: usize = args.next().map_or(Ok(2), |word| word.parse())?;
    let rounds: usize = args.next().map_or(Ok(7), |word| word.parse())?;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism()?;
    println!("frames of {LEN} bytes, {FLOWS} flows an interface, {cores} processors, load {}", load.trim());
    println!(
        "{:<24}{:>8}{:>20}{:>24}{:>12}{:>12}{:>11}",
        "", "workers", "Mframes/s", "ns of processor/frame", "rate ratio", "cost ratio", "refused %"
    );
    let fifo = "qdisc replace dev right root pfifo limit 1000\n";
    let codel: String = std::iter::once("qdisc replace dev right root handle 1: mq\n".to_owned())
        .chain((1..=workers).map(|n| format!("qdisc replace dev right parent 1:{n} fq_codel\n")))
        .collect();
    // One worker has one queue, which the same qdisc is the root of.
    let alone = "qdisc replace dev right root fq_codel\n";
    let cases = [
        ("mq, pfifo_fast, arrival", "", "", "arrival"),
        ("mq, fq_codel, arrival", alone, &codel, "arrival"),
        ("mq, pfifo_fast, hash", "", "", "hash"),
        ("pfifo, one owner", fifo, fifo, "arrival"),
    ];
    for (name, one, many, map) in cases {
        let mut all = [[const { Vec::new() }; 3], [const { Vec::new() }; 3]];
        for _ in 0..rounds.max(1) {
            for (of, (count, root)) in all.iter_mut().zip([(1, one), (workers, many)]) {
                let measured = measure(count, root, map)?;
                of.iter_mut().zip(measured).for_each(|(all, value)| all.push(value));
            }
        }
        let [[rate1, cost1, _], [rate, cost, refused]] = all.map(|of| of.map(spread));
        let text = |[median, least, most]: [f64; 3], scale: f64, digits: usize| {
            let [median, least, most] = [median, least, most].map(|n| n / scale);
            format!("{median:.digits$} [{least:.digits$}..{most:.digits$}]")
        };
        for (of, count, rate, cost, ratios) in [
            (name, 1, rate1, cost1, [1.0, 1.0, 0.0]),
            ("", workers, rate, cost, [rate[0] / rate1[0], workers as f64 * cost1[0] / cost[0], refused[0]]),
        ] {
            let (rate, cost) = (text(rate, 1e6, 2), text(cost, 1.0, 0));
            let ratio = ratios.map(|ratio| format!("{ratio:.2}"));
            let [rates, costs, refused] = ratio;
            println!("{of:<24}{count:>8}{rate:>20}{cost:>24}{rates:>12}{costs:>12}{refused:>11}");
        }
    }
    Ok(())
}
