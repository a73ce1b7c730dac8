//! Speed of the lab: n TCP streams at 1 Gbit/s through fq_codel with a byte limit, 1 ms round trip.
//! The count is of packets handed to the bottleneck's device. `cargo run --release -p txweir-lab
//! --example speed [flows ...]`

use std::time::Instant as Wall;

use txweir_core::model::wire::{Completion, WireConfig};
use txweir_core::path::txpath::PathConfig;
use txweir_core::text::value::Words;
use txweir_core::{Handle, Instant, Nanos};
use txweir_lab::cpu::Cpu;
use txweir_lab::link::LinkConfig;
use txweir_lab::net::{Group, Load, Net};
use txweir_lab::nic::NicConfig;
use txweir_lab::tcp::TcpConfig;

const ROUNDS: u64 = 5;
/// Simulated time before the first round: every stream has started and left slow start.
const WARMUP: Instant = Instant::from_secs(1);
/// Simulated time of each round.
const ROUND: Nanos = Nanos::from_secs(2);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut flows: Vec<u32> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    if flows.is_empty() {
        flows = vec![1, 10, 100, 1000];
    }
    let mut nets: Vec<Net> = flows.iter().map(|n| net(*n)).collect::<Result<_, _>>()?;
    for net in &mut nets {
        net.run(WARMUP);
        net.measure();
    }
    // Rounds are interleaved, so that other load of the machine affects all alike.
    let mut speeds: Vec<Vec<f64>> = vec![Vec::new(); nets.len()];
    let mut of_cpu = speeds.clone();
    for _ in 0..ROUNDS {
        for ((net, speeds), of_cpu) in nets.iter_mut().zip(&mut speeds).zip(&mut of_cpu) {
            let (before, until) = (net.links().nic(0).counts().tx.packets, net.engine().now() + ROUND);
            let (start, cpu) = (Wall::now(), cpu_seconds());
            net.run(until);
            let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
            let packets = (net.links().nic(0).counts().tx.packets - before) as f64 / 1e6;
            speeds.push(packets / seconds);
            of_cpu.push(packets / cpu);
        }
    }
    println!(
        "simulated bottleneck packets per second of wall clock, and of processor time, in millions; 1 Gbit/s, fq_codel with BQL"
    );
    println!(
        "flows  median    min    max  of_cpu    min    max  ns/packet  events/packet  goodput_Mbit/s  dropped  device_bytes"
    );
    for (((n, net), mut speeds), mut of_cpu) in flows.iter().zip(&nets).zip(speeds).zip(of_cpu) {
        speeds.sort_by(f64::total_cmp);
        of_cpu.sort_by(f64::total_cmp);
        let median = speeds[speeds.len() / 2];
        let time = ROUND.0 * ROUNDS;
        let (counts, bytes) =
            (net.links().nic(0).measured(), net.traffic().counted(0).bytes().iter().sum::<u64>());
        println!(
            "{n:5}  {median:6.2} {:6.2} {:6.2}  {:6.2} {:6.2} {:6.2}  {:9.0}  {:13.2}  {:14.1}  {:7}  {:12}",
            speeds[0],
            speeds[speeds.len() - 1],
            of_cpu[of_cpu.len() / 2],
            of_cpu[0],
            of_cpu[of_cpu.len() - 1],
            1e3 / median,
            net.engine().dispatched() as f64 / net.links().nic(0).counts().tx.packets as f64,
            bytes as f64 * 8e3 / time as f64,
            counts.dropped.packets,
            net.links().nic(0).gauges()[0].mean(net.engine().now())
        );
    }
    Ok(())
}

fn net(flows: u32) -> Result<Net, String> {
    // Many flows get small buffers, whose memory is separate for each flow.
    let buffer = if flows >= 100 { 64 << 10 } else { 256 << 10 };
    let tcp = TcpConfig { send_buffer: buffer, receive_buffer: buffer, ..TcpConfig::default() };
    let mut net = Net::new(1);
    let (a, b) = (net.host(tcp.clone(), Cpu::default()), net.host(tcp, Cpu::default()));
    let within = Nanos::from_micros(50);
    for (from, to) in [(a, b), (b, a)] {
        let wire =
            WireConfig { completion: Completion::Every { packets: 64, within }, ..WireConfig::default() };
        let link = LinkConfig { delay: Nanos::from_micros(500), ..LinkConfig::default() };
        let nic = net.link(from, to, NicConfig { path: PathConfig::default(), wire, link, seed: 1 })?;
        net.nic_mut(nic)
            .configure(Instant::ZERO, |qdiscs| {
                qdiscs.replace(Handle::ROOT, None, "fq_codel", &mut Words::new(&[]))
            })
            .map_err(|e| e.to_string())?;
    }
    let (name, stagger) = ("bulk".into(), Nanos::from_millis(100));
    let (load, start) = (Load::Stream, Instant::ZERO);
    net.group(Group { name, from: a, to: b, load, count: flows, start, stagger, ..Group::default() })?;
    Ok(net)
}

/// Returns the processor time of this process, which a busy machine distorts less.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}
