//! Memory of a flow: all bytes that the global allocator hands out, counted while a net is made and
//! run.

use txweir_core::model::wire::WireConfig;
use txweir_core::path::txpath::PathConfig;
use txweir_core::{Instant, Nanos};
use txweir_counted::held;
use txweir_lab::cpu::Cpu;
use txweir_lab::link::LinkConfig;
use txweir_lab::net::{Group, Load, Net};
use txweir_lab::nic::NicConfig;
use txweir_lab::tcp::TcpConfig;

const FLOWS: u32 = 10_000;

/// Returns a net of two hosts with a link each way, and `flows` streams that start within `stagger`
/// after `start`.
fn net(flows: u32, start: Instant, stagger: Nanos) -> Net {
    let tcp = TcpConfig { send_buffer: 64 << 10, receive_buffer: 64 << 10, ..TcpConfig::default() };
    let mut net = Net::new(1);
    let (a, b) = (net.host(tcp.clone(), Cpu::default()), net.host(tcp, Cpu::default()));
    for (from, to) in [(a, b), (b, a)] {
        let link = LinkConfig { delay: Nanos::from_micros(500), ..LinkConfig::default() };
        let (path, wire) = (PathConfig::default(), WireConfig::default());
        net.link(from, to, NicConfig { path, wire, link, seed: 1 }).unwrap();
    }
    let (name, load) = ("bulk".into(), Load::Stream);
    net.group(Group { name, from: a, to: b, load, count: flows, start, stagger, ..Group::default() })
        .unwrap();
    net
}

/// Returns the bytes that each of the flows of a net takes after it has run until `until`.
fn per_flow(start: Instant, until: Instant) -> i64 {
    let [few, many] = [0, FLOWS].map(|flows| {
        let before = held();
        let mut net = net(flows, start, Nanos::from_millis(100));
        net.run(until);
        held() - before
    });
    (many - few) / i64::from(FLOWS)
}

/// Counts both ends, their congestion control, their timers in the engine and all of the lab's own
/// state for them.
#[test]
fn an_idle_flow_takes_at_most_two_kilobytes() {
    let bytes = per_flow(Instant::from_secs(10), Instant::ZERO);
    println!("an idle flow: {bytes} bytes");
    assert!(bytes <= 2_048, "{bytes}");
    assert!(bytes > 1_024, "{bytes}: less than the two ends can take");
}

/// Counts data under way, packets in queues and on the links, and the state after losses.
#[test]
fn a_busy_flow_takes_little_more() {
    let bytes = per_flow(Instant::ZERO, Instant::from_secs(2));
    println!("a busy flow: {bytes} bytes");
    assert!(bytes <= 4_096, "{bytes}");
}
