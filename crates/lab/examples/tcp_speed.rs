//! Speed of the lab's TCP and event engine: n streams through a 1 Gbit/s tail-drop FIFO, 1 ms round
//! trip, MTU segments. `cargo run --release -p txweir-lab --example tcp_speed [flows ...]`

use std::time::Instant as Wall;

use txweir_lab::app::App;
use txweir_lab::dumbbell::{Dumbbell, DumbbellConfig};
use txweir_lab::tcp::TcpConfig;
use txweir_lab::{Instant, Nanos};

fn main() {
    let mut flows: Vec<usize> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    if flows.is_empty() {
        flows = vec![1, 10, 100, 1000];
    }
    println!("flows  sim_s  goodput_Mbit/s  drops  events  wall_s  cpu_s  Mpkt/s  Mpkt/cpu_s  ns/pkt");
    for n in flows {
        let buffer = if n > 100 { 64 << 10 } else { 256 << 10 };
        let tcp = TcpConfig { send_buffer: buffer, receive_buffer: buffer, ..TcpConfig::default() };
        let stagger = Nanos::from_millis(if n > 1 { 100 } else { 1 });
        let config =
            DumbbellConfig { client: tcp.clone(), server: tcp, stagger, ..DumbbellConfig::default() };
        let mut net = Dumbbell::new(&config, (0..n).map(|_| (App::stream(None), App::sink())));
        net.run(Instant::from_secs(1));
        let (p0, e0, d0, b0) = counts(&net);
        let (wall, cpu) = (Wall::now(), cpu_seconds());
        let mut secs = 0;
        while secs < 40 && wall.elapsed().as_secs_f64() < 2.0 {
            secs += 1;
            net.run(Instant::from_secs(1 + secs));
        }
        let (t, cpu) = (wall.elapsed().as_secs_f64(), cpu_seconds() - cpu);
        let (p, e, d, b) = counts(&net);
        let (p, e) = ((p - p0) as f64, (e - e0) as f64);
        println!(
            "{n:5}  {secs:5}  {:14.1}  {:5}  {:9.0}  {t:6.3}  {cpu:5.3}  {:6.3}  {:10.3}  {:6.0}",
            (b - b0) as f64 * 8.0 / secs as f64 / 1e6,
            d - d0,
            e,
            p / t / 1e6,
            p / cpu / 1e6,
            cpu * 1e9 / p
        );
    }
}

fn counts(net: &Dumbbell) -> (u64, u64, u64, u64) {
    let read = |n| match net.server(n).app() {
        App::Sink(s) => s.read,
        _ => 0,
    };
    let read = (0..net.connections()).map(read).sum();
    (net.bottleneck().segs, net.engine().dispatched(), net.bottleneck().dropped, read)
}

/// Returns the processor time of this process, which a busy machine does not distort.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}
