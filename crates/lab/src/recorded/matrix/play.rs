//! Plays a recorded run in the lab, and measures like the recording.

use std::cell::RefCell;
use std::rc::Rc;

use txweir_core::model::wire::{Completion as Reports, WireConfig};
use txweir_core::path::txpath::PathConfig;
use txweir_core::{Env, Instant, Nanos, Rate, Role};
use txweir_tc::Policy;
use txweir_transport::Tick;

use super::book::{Book, Clerk, Left, jain, plain, shares};
use super::line::{Completion, Kind, Latency, POINTS, Run, Samples, Topology, Window};
use crate::app::{App, Pace};
use crate::cpu::Cpu;
use crate::link::LinkConfig;
use crate::net::{Net, Single};
use crate::nic::NicConfig;
use crate::tagged::ETHERNET;
use crate::tcp::{EcnMode, More, TcpConfig};

/// Time between the application of policies and time 0 of a run.
const LEAD: Nanos = Nanos::from_millis(100);
/// The number of the tick at time 0 of a run: the kernel counts from 300 s before its boot, and
/// time 0 is a multiple of 8192 ticks after it.
const ZERO_TICK: u64 = (8_192 << 20) - 300_000;
/// Rate of a line on which packets take no time, bit/s.
const INSTANT: u64 = 1_000_000_000_000_000;
/// Number of packets that fit a device, or the queues of a policy.
const ROOM: u32 = 1 << 16;
/// Time that a process of the recording takes to read the clock: one grain.
const READING: Nanos = Nanos(256);
/// Time by which a timer of the recording's queues is late: a grain at least. An acknowledgement
/// that is due at the same time is therefore ahead of the next departure.
const TIMER_LATE: Nanos = Nanos(256);
/// Number of samples of each flow, and of the flows that have them.
const SAMPLES: u64 = 100;
const SAMPLED: usize = 64;
/// Largest number of bytes of a super-packet with its Ethernet header.
const UNIT: u32 = 65_536 + ETHERNET;

/// Results of a run here, in the terms of the recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Results from time 0 to the end.
    pub whole: Window,
    /// Results from the end of the first part.
    pub after: Window,
    /// Packets that the leaf dropped.
    pub drops: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Flow 0 over time.
    pub samples: Samples,
    /// Times of transfers.
    pub completion: Option<Completion>,
    /// Times of requests.
    pub latency: Option<Latency>,
}

/// State of all flows at a point.
#[derive(Debug, Default)]
struct Point {
    read: Vec<u64>,
    retrans: Vec<u64>,
    /// Smoothed round trips of flows that have one, µs.
    rtts: Vec<u64>,
    /// State of flow 0: window, threshold, round trip, pacing rate in kbit/s; `None` before it
    /// starts.
    first: Option<[i64; 4]>,
}

/// A run while it is played.
struct Player<'a> {
    run: &'a Run,
    net: Net,
    /// The device with the policy.
    nic: u32,
    /// Ends that open the flows' connections.
    ends: Vec<u32>,
    book: Rc<RefCell<Book>>,
    points: Vec<Point>,
    at_warm: Point,
}

impl Run {
    /// Plays the run here, or one of its repetitions: 0 is the run itself. A repetition has another
    /// seed, and other starts, as described for `spread` in `spec/tcp/README.md`.
    ///
    /// # Errors
    /// Fails if the lab cannot do the policy, or cannot build the net.
    pub fn play(&self, repetition: u64) -> Result<Outcome, String> {
        let run = self.repeated(repetition);
        let mut player = Player::new(&run, 1 + repetition)?;
        player.play();
        Ok(player.outcome())
    }

    /// Returns the run with the starts of its repetition of this number.
    fn repeated(&self, number: u64) -> Self {
        let mut run = self.clone();
        let starts = run.flows.iter_mut().flat_map(|g| &mut g.start_ns);
        for (i, start) in (0..).zip(starts) {
            *start += number * 1_100_000 + i * number * 137_000 % 2_000_000;
        }
        run
    }

    /// Plays the run here, and returns each packet that left the policy.
    ///
    /// # Errors
    /// Fails like [`play`](Self::play).
    pub fn packets(&self, seed: u64) -> Result<Vec<Left>, String> {
        let mut player = Player::new(self, seed)?;
        player.play();
        let since = |at: Instant| Instant(at.0.saturating_sub(LEAD.0));
        let book = player.book.borrow();
        Ok(book.left.iter().map(|l| Left { at: since(l.at), came: since(l.came), ..*l }).collect())
    }

    fn tcp(&self) -> TcpConfig {
        let memory = |key| self.memory(key).ok().flatten();
        let tick = Tick { first: ZERO_TICK - LEAD.0 / 1_000_000, ..Tick::default() };
        let local = self.topology == Topology::Local;
        // A device that hands packets to another host at once keeps no bytes below the socket.
        let mut more = More { tick, nagle: true, small_queues: local, rehashes: true, ..More::default() };
        let mut tcp = TcpConfig {
            tso_max: if self.units { UNIT } else { 0 },
            ecn: if self.ecn { EcnMode::Classic } else { EcnMode::Off },
            ..TcpConfig::default()
        };
        if let Some([_, start, most]) = memory("tcp_rmem") {
            (more.receive_buffer_start, tcp.receive_buffer) = (start, most as usize);
        }
        TcpConfig { more, ..tcp }
    }
}

/// Returns a device that takes every packet at once, on a line that takes no time.
fn device(seed: u64, delay: Nanos, whole_units: bool) -> NicConfig {
    let env = Env { seed, strict_linux: true, ..Env::default() };
    NicConfig {
        path: PathConfig { env, pool: ROOM as usize, role: Role::Forwarder, bql: None, trace: 0 },
        wire: WireConfig {
            rate: Rate::from_bits(INSTANT),
            ring: ROOM,
            overhead: 0,
            min_frame: 0,
            completion: Reports::Immediate,
            ..WireConfig::default()
        },
        link: LinkConfig { delay, whole_units, ..LinkConfig::default() },
        seed,
    }
}

impl<'a> Player<'a> {
    fn new(run: &'a Run, seed: u64) -> Result<Self, String> {
        let mut net = Net::new(seed);
        net.traffic_mut().set_reading(READING);
        let tcp = run.tcp();
        let [sender, router, receiver] = [(); 3].map(|()| net.host(tcp.clone(), Cpu::default()));
        let forth = net.link(sender, router, device(seed, Nanos::ZERO, run.units))?;
        let out = net.link(router, receiver, device(seed, Nanos::ZERO, run.units))?;
        net.link(receiver, router, device(seed, Nanos(run.rtt_ns), run.units))?;
        net.link(router, sender, device(seed, Nanos::ZERO, run.units))?;
        let nic = if run.topology == Topology::Local { forth } else { out };
        let text = run.tc.join("\n");
        let policy = Policy::parse(&text, "tc").map_err(|d| format!("tc: {}", d.first().message))?;
        net.nic_mut(nic).set_late(TIMER_LATE);
        net.apply(nic, &policy).map_err(|d| format!("tc: line {}: {}", d.line(), d.message))?;
        let book = Rc::new(RefCell::new(Book::default()));
        net.observe(Box::new(Clerk(Rc::clone(&book))));
        let mut player =
            Self { run, net, nic, ends: Vec::new(), book, points: Vec::new(), at_warm: Point::default() };
        for (group, i) in run.each_flow() {
            let total = (group.app == Kind::Bytes).then(|| group.bytes[i]);
            let mut apps = match group.app {
                Kind::Rr => {
                    (App::client(group.request, group.reply), App::server(group.request, group.reply))
                }
                Kind::Bulk | Kind::Bytes => (App::stream(total), App::sink()),
            };
            apps.0.set_pace(Pace::After(Nanos(group.pause_ns)));
            let end = player.net.single(Single {
                name: String::new(),
                from: sender,
                to: receiver,
                start: Instant(LEAD.0 + group.start_ns[i]),
                tcp: TcpConfig { congestion: group.algorithm(), ..tcp.clone() },
                apps,
            })?;
            player.ends.push(end);
            player.book.borrow_mut().transfers.push((total.unwrap_or(0), None));
        }
        Ok(player)
    }

    fn play(&mut self) {
        let step = self.run.duration_ns / SAMPLES;
        let mut warm = false;
        for k in 1..=SAMPLES {
            let at = step * k;
            if !warm && self.run.warm_ns <= at {
                warm = true;
                self.net.run(Instant(LEAD.0 + self.run.warm_ns));
                self.at_warm = self.point(self.run.warm_ns);
            }
            self.net.run(Instant(LEAD.0 + at));
            let point = self.point(at);
            self.points.push(point);
        }
    }

    /// Returns the present state, at `at` after time 0.
    fn point(&self, at: u64) -> Point {
        let mut point = Point::default();
        for (i, ((group, k), end)) in self.run.each_flow().zip(&self.ends).enumerate() {
            let (tcp, app) = (self.net.traffic().end(*end).tcp(), self.net.traffic().end(end + 1).app());
            point.read.push(match app {
                App::Sink(s) => s.read,
                App::Server(s) => s.done * s.request,
                _ => 0,
            });
            point.retrans.push(tcp.counters().retransmitted);
            if at < group.start_ns[k] || i >= SAMPLED {
                continue;
            }
            let f = tcp.flow();
            let rtt = u64::from(f.srtt8_us >> 3);
            if rtt > 0 {
                point.rtts.push(rtt);
            }
            if i == 0 {
                let threshold = if f.ssthresh >= 0x7fff_ffff { -1 } else { i64::from(f.ssthresh) };
                let pacing = (f.pacing_rate.saturating_mul(8) / 1_000).min(1_000_000_000) as i64;
                point.first = Some([i64::from(f.cwnd), threshold, rtt as i64, pacing]);
            }
        }
        point
    }

    fn outcome(&self) -> Outcome {
        let book = self.book.borrow();
        let warm = Instant(LEAD.0 + self.run.warm_ns);
        let mut drops = 0;
        self.net.links().nic(self.nic).port().trees().visit(&mut |_, node| {
            if node.qdisc().spec().kind == self.run.leaf {
                drops = node.books().dropped.packets;
            }
        });
        let ended = self.run.flows.iter().any(|g| g.app == Kind::Bytes).then(|| self.completion(&book));
        let asked = self.run.flows.iter().any(|g| g.app == Kind::Rr).then(|| Latency {
            count: book.took_us.len() as u64,
            shares: plain(book.took_us.iter().copied()),
        });
        Outcome {
            whole: self.window(&book, Instant(LEAD.0), &Point::default()),
            after: self.window(&book, warm, &self.at_warm),
            drops,
            timeouts: self.ends.iter().map(|e| self.net.traffic().end(*e).tcp().counters().timeouts).sum(),
            samples: self.samples(),
            completion: ended,
            latency: asked,
        }
    }

    /// Returns the results from `begin` on, when the state was `before`.
    fn window(&self, book: &Book, begin: Instant, before: &Point) -> Window {
        let gone = || book.left.iter().filter(|l| l.at >= begin);
        let since = |now: &[u64], before: &[u64]| -> Vec<u64> {
            now.iter().enumerate().map(|(i, n)| n - before.get(i).copied().unwrap_or(0)).collect()
        };
        let Some(last) = self.points.last() else { return Window::default() };
        let read = since(&last.read, &before.read);
        let kinds = self.run.each_flow().map(|(g, _)| g.app);
        let bulk: Vec<u64> = read.iter().zip(kinds).filter(|(_, k)| *k == Kind::Bulk).map(|p| *p.0).collect();
        let from = begin.0 - LEAD.0;
        let step = self.run.duration_ns / SAMPLES;
        let rtts = (1..).zip(&self.points).filter(|(k, _)| step * k > from).flat_map(|(_, p)| &p.rtts);
        let seconds = (self.run.duration_ns - from) as f64 / 1e9;
        let sent = gone().map(|l| l.segments).sum();
        Window {
            goodput_bps: (read.iter().sum::<u64>() as f64 * 8.0 / seconds).round() as u64,
            jain: jain(&bulk),
            bytes: bulk,
            rtt_us: plain(rtts.copied()),
            delay_us: shares(gone().map(|l| (l.at.saturating_since(l.came).0 / 1_000, l.segments)).collect()),
            offered: 0,
            sent,
            marks: gone().filter(|l| l.marked).map(|l| l.segments).sum(),
            retrans: since(&last.retrans, &before.retrans).iter().sum(),
        }
    }

    fn completion(&self, book: &Book) -> Completion {
        let each: Vec<i64> = self
            .run
            .each_flow()
            .zip(&book.transfers)
            .filter(|((g, _), _)| g.app == Kind::Bytes)
            .map(|((g, i), (_, done))| {
                let started = LEAD.0 + g.start_ns[i];
                done.map_or(-1, |at| (at.saturating_since(Instant(started)).0 / 1_000) as i64)
            })
            .collect();
        let shares = plain(each.iter().filter_map(|t| u64::try_from(*t).ok()));
        Completion { each, shares }
    }

    fn samples(&self) -> Samples {
        let every_ns = self.run.duration_ns / POINTS as u64;
        let mut samples = Samples { every_ns, ..Samples::default() };
        let mut before = 0;
        for point in self.points.iter().skip(1).step_by(2) {
            let read: u64 = point.read.iter().sum();
            let kbps = (read - before) as f64 * 8e6 / every_ns.max(1) as f64;
            samples.goodput_kbps.push(kbps.round() as u64);
            before = read;
            let of = |i: usize| point.first.map(|f| f[i]);
            samples.cwnd.push(of(0));
            samples.ssthresh.push(of(1));
            samples.rtt_us.push(of(2));
            samples.pacing_kbps.push(of(3));
        }
        samples
    }
}
