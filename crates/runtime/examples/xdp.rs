//! Packets a second by XDP sockets on a veth whose other end drops them, in network namespaces that
//! the program makes and removes: by the device alone, and through fq_codel and a byte limit ahead
//! of it. Both write the same headers into the same memory. Then the same for frames that came in
//! by another veth, in processor time a frame: a raw forwarder beside a direction. Needs root.
//! `cargo run --release -p txweir-runtime --example xdp [rounds]`

use std::io;
use std::time::{Duration, Instant as Wall};

use rustix::time::{ClockId, clock_gettime};
use txweir_core::text::value::Words;
use txweir_core::{Handle, Instant, Meta, TxQueue as _};
use txweir_device::testnet::{NetNs, skip_reason};
use txweir_device::{Backend, Landed, Source, Store, VnetHdr, XdpOptions, XdpPlaces, XdpQueue, clock};
use txweir_runtime::{Direction, DirectionConfig, Received};

/// Frames between two doorbells.
const BURST: usize = 64;
const FLOWS: u16 = 64;
/// Frames that wait at the veth before a forwarder is timed: its rings have room for them.
const FILL: usize = 512;
const ROUND: Duration = Duration::from_millis(500);

/// UDP frames of one length, of many flows in turn.
struct Udp {
    next: u16,
    left: usize,
    len: usize,
}

impl Udp {
    fn burst(&mut self) -> &mut Self {
        self.left = BURST;
        self
    }
}

impl Source for Udp {
    fn recv(&mut self, room: &mut [u8]) -> io::Result<Option<(VnetHdr, usize)>> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        (self.left, self.next) = (left, (self.next + 1) % FLOWS);
        const HEAD: [u8; 34] = [
            2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0,
            1, 10, 0, 0, 2,
        ];
        let len = self.len as u16;
        room[..34].copy_from_slice(&HEAD);
        room[16..18].copy_from_slice(&(len - 14).to_be_bytes());
        room[34..36].copy_from_slice(&(1000 + self.next).to_be_bytes());
        room[36..38].copy_from_slice(&9u16.to_be_bytes());
        room[38..40].copy_from_slice(&(len - 34).to_be_bytes());
        room[40..42].fill(0);
        Ok(Some((VnetHdr::default(), self.len)))
    }
}

/// Sends by the device alone for a round. Returns packets a second.
fn alone<D: Backend>(device: &mut D, udp: &mut Udp) -> f64 {
    let (start, mut sent) = (Wall::now(), 0u64);
    while start.elapsed() < ROUND {
        for _ in 0..device.reserve(BURST as u32) {
            udp.left = 1;
            match device.store().receive(udp).expect("a source of this process") {
                Landed::Frame(frame) => device.push(frame, &Meta::new(udp.len as u32)),
                Landed::NoRoom | Landed::Nothing => break,
            }
        }
        device.commit().expect("the device is there");
        device.reap(&mut |done| sent += u64::from(done.packets));
    }
    sent as f64 / start.elapsed().as_secs_f64()
}

/// Sends through qdiscs for a round. Returns packets a second.
fn through<D: Backend>(way: &mut Direction<D>, udp: &mut Udp) -> f64 {
    let (start, before) = (Wall::now(), way.stats().delivered);
    while start.elapsed() < ROUND {
        let now = Instant(clock::now_ns());
        udp.burst();
        // A sender that waits for room: it offers a burst once the last one has left the qdiscs.
        while way.port().totals().backlog().packets < BURST as u64
            && let Received::Frame(arrival) = way.receive(udp).expect("a source of this process")
        {
            way.admit(now, arrival).expect("the device is there");
        }
        way.advance(now).expect("the device is there");
    }
    (way.stats().delivered - before) as f64 / start.elapsed().as_secs_f64()
}

/// Processor time of this thread, ns.
fn spent() -> i64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

/// Sends frames that come in at the other end of a veth, and wait there.
fn fill(sender: &mut XdpPlaces, udp: &mut Udp) {
    let mut done = 0;
    while done < FILL {
        for _ in 0..sender.reserve(BURST.min(FILL - done) as u32) {
            udp.left = 1;
            let landed = sender.store().receive(udp).expect("a source of this process");
            let Landed::Frame(frame) = landed else { break };
            sender.push(frame, &Meta::new(udp.len as u32));
        }
        sender.commit().expect("the device is there");
        sender.reap(&mut |one| done += one.packets as usize);
    }
}

/// Forwards the frames that wait at `from` to `to`, without a queue. Returns their processor time,
/// ns a frame.
fn forwarded_alone(from: &mut XdpQueue, to: &mut XdpPlaces, len: usize) -> f64 {
    let (start, mut came, mut went) = (spent(), 0, 0);
    loop {
        let before = came;
        for _ in 0..to.reserve(BURST as u32) {
            match to.store().receive(from).expect("the device is there") {
                Landed::Frame(frame) => to.push(frame, &Meta::new(len as u32)),
                Landed::NoRoom | Landed::Nothing => break,
            }
            came += 1;
        }
        to.commit().expect("the device is there");
        to.reap(&mut |done| went += done.packets);
        if came == before && went == came {
            break;
        }
    }
    (spent() - start) as f64 / f64::from(went)
}

/// Forwards them through qdiscs and a byte limit.
fn forwarded_through(from: &mut XdpQueue, way: &mut Direction<XdpPlaces>) -> f64 {
    let (start, before) = (spent(), way.stats().delivered);
    let mut came = 0;
    loop {
        let (now, old) = (Instant(clock::now_ns()), came);
        for _ in 0..BURST {
            let Received::Frame(arrival) = way.receive(from).expect("the device is there") else { break };
            way.admit(now, arrival).expect("the device is there");
            came += 1;
        }
        way.advance(now).expect("the device is there");
        if came == old && way.stats().delivered - before == came {
            break;
        }
    }
    (spent() - start) as f64 / came as f64
}

/// Measures forwarding from one veth to another, whose other end drops the frames.
fn forwarding(len: usize, rounds: usize) {
    let [near, here, far] = ["near", "here", "far"].map(NetNs::new);
    let mut drops = Vec::new();
    for (s, f, g, h) in [("s0", "f0", "g0", "h0"), ("s1", "f1", "g1", "h1")] {
        near.veth(s, &here, f);
        here.veth(g, &far, h);
        for (ns, dev) in [(&near, s), (&here, f), (&here, g), (&far, h)] {
            ns.run(&["sysctl", "-qw", &format!("net.ipv6.conf.{dev}.disable_ipv6=1")]);
            ns.run(&["ip", "link", "set", "dev", dev, "up"]);
        }
        here.wait_for_carrier(g);
        drops.push(far.drop_all(h));
    }
    let options = XdpOptions::default();
    let places = |ns: &NetNs, name: &str| {
        let name = name.parse().expect("a name");
        ns.enter(|| XdpPlaces::open(&name, &options, 0)).unwrap_or_else(|e| panic!("{e}"))
    };
    let queue = |name: &str| {
        let name = name.parse().expect("a name");
        here.enter(|| XdpQueue::open(&name, &options, 8 << 20)).unwrap_or_else(|e| panic!("{e}"))
    };
    let mut senders = [places(&near, "s0"), places(&near, "s1")];
    let mut sources = [queue("f0"), queue("f1")];
    let mut raw = places(&here, "g0");
    let mut way = direction(places(&here, "g1"));
    let mut udp = Udp { next: 0, left: 0, len };
    let mut rates = [const { Vec::new() }; 2];
    for round in 0..=rounds * 20 {
        fill(&mut senders[0], &mut udp);
        let alone = forwarded_alone(&mut sources[0], &mut raw, len);
        fill(&mut senders[1], &mut udp);
        let through = forwarded_through(&mut sources[1], &mut way);
        // The first round warms up.
        if round > 0 {
            rates.iter_mut().zip([alone, through]).for_each(|(all, now)| all.push(now));
        }
    }
    let mut ratios: Vec<f64> = rates[0].iter().zip(&rates[1]).map(|(a, b)| 100.0 * a / b).collect();
    ratios.sort_by(f64::total_cmp);
    for (what, mut all) in ["forwarded, no queue", "fq_codel and a byte limit"].into_iter().zip(rates) {
        all.sort_by(f64::total_cmp);
        let [median, low, high] = [all.len() / 2, all.len() / 10, all.len() * 9 / 10].map(|at| all[at]);
        println!("{what:28}  {median:.0} [{low:.0}-{high:.0}, 10 to 90 %] ns a frame");
    }
    println!("of no queue, by pairs           {:.1} %", ratios[ratios.len() / 2]);
    drop(drops);
}

fn direction<D: Backend>(device: D) -> Direction<D> {
    let config = DirectionConfig { wire: None, ..DirectionConfig::default() };
    let mut way = Direction::new(config, device).expect("a valid configuration");
    way.control(Instant(0)).configure(|tree, cx| {
        let none = &mut Words::new(&[]);
        tree.edit(cx).replace(Handle::ROOT, None, "fq_codel", none).expect("a known kind");
    });
    way
}

fn show(what: &str, mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    let (low, high) = (rates[0] / 1e6, rates[rates.len() - 1] / 1e6);
    let median = rates[rates.len() / 2] / 1e6;
    println!("{what:28}  {median:.3} [{low:.3}-{high:.3}] M packets/s");
    median
}

fn main() {
    if let Some(reason) = skip_reason() {
        println!("not measured, because {reason}");
        return;
    }
    let rounds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(7);
    for len in [60, 1514] {
        println!("frames of {len} bytes, one queue, {rounds} rounds in turn");
        // A veth for each way of sending: an interface has one owner.
        let (one, two) = (NetNs::new("one"), NetNs::new("two"));
        let names = [("a0", "a1"), ("b0", "b1"), ("c0", "c1")];
        let drops: Vec<_> = names
            .iter()
            .map(|(near, far)| {
                one.veth(near, &two, far);
                two.run(&["ip", "link", "set", "dev", far, "up"]);
                one.run(&["ip", "link", "set", "dev", near, "up"]);
                one.wait_for_carrier(near);
                two.drop_all(far)
            })
            .collect();
        let options = XdpOptions::default();
        let places = |name: &str| {
            let name = name.parse().expect("a name");
            one.enter(|| XdpPlaces::open(&name, &options, 0)).unwrap_or_else(|e| panic!("{e}"))
        };
        let mut raw = places("a0");
        let mut way = direction(places("b0"));
        let copied = "c0".parse().expect("a name");
        let copied = one.enter(|| XdpQueue::open(&copied, &options, 64 << 20)).expect("an interface");
        let mut copies = direction(copied);
        let mut udp = Udp { next: 0, left: 0, len };
        let mut rates = [const { Vec::new() }; 3];
        for round in 0..=rounds {
            let now =
                [alone(&mut raw, &mut udp), through(&mut way, &mut udp), through(&mut copies, &mut udp)];
            // The first round warms up.
            if round > 0 {
                rates.iter_mut().zip(now).for_each(|(all, now)| all.push(now));
            }
        }
        let pairs = |at: usize| {
            let mut ratios: Vec<f64> = rates[at].iter().zip(&rates[0]).map(|(a, b)| 100.0 * a / b).collect();
            ratios.sort_by(f64::total_cmp);
            ratios[ratios.len() / 2]
        };
        let (in_place, with_copies) = (pairs(1), pairs(2));
        let [raw, way, copies] = rates;
        show("the device alone", raw);
        show("fq_codel and a byte limit", way);
        show("the same, frames copied", copies);
        println!("of the device alone, by pairs   {in_place:.1} %, copied {with_copies:.1} %");
        drop(drops);
        forwarding(len, rounds);
    }
}
