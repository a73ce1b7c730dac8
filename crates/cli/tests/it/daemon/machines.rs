//! A daemon whose links are the network cards of virtual machines, against guests without a kernel.
//! It needs no privilege.

use std::time::Instant;

use serde_json::Value;
use txweir_device::testguest::{Setup, TestGuest};

use super::{Daemon, Dir, PATIENCE};
use crate::common::machine;

/// A frame of the Ethernet type for local experiments, with a number.
fn numbered(number: u32) -> Vec<u8> {
    let mut frame = vec![7; 1000];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x88, 0xb5]);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Links that are added after the daemon has given up its privileges carry every frame of their
/// guests in order, however fast these send, and outlive them.
#[test]
fn machines_come_and_go_at_a_confined_daemon() {
    let _machine = machine::shared();
    let dir = Dir::new();
    // A system call that is forbidden by mistake kills it.
    let daemon = Daemon::start(&mut dir.command(&["daemon", "--seccomp", "kill"]));
    let sockets = ["vm0.sock", "vm1.sock"].map(|name| dir.0.join(name));
    dir.ok(&format!("link add vm0 --type vhost --if {} --queues 4", sockets[0].display()));
    dir.ok(&format!("link add vm1 --type vhost --if {} --peer vm0", sockets[1].display()));
    dir.ok("tc qdisc replace dev vm1 root pfifo limit 20");
    let state = |link: &str| {
        let shown: Value = serde_json::from_str(&dir.ok(&format!("link show {link} -j"))).expect("JSON");
        shown[0].clone()
    };
    assert_eq!((&state("vm0")["state"], &state("vm1")["type"]), (&"down".into(), &"vhost".into()));
    for round in 1..3u32 {
        let setup = Setup { pairs: 4, ..Setup::default() };
        let mut guests = sockets.each_ref().map(|path| TestGuest::connect(path, setup, || ()));
        let (total, mut sent, mut came) = (3000, 0, Vec::new());
        let until = Instant::now() + PATIENCE;
        while came.len() < total as usize {
            while sent < total && guests[0].send(sent as usize % 4, [0; 12], &numbered(sent)) {
                sent += 1;
            }
            for pair in 0..4 {
                while let Some((_, frame, _)) = guests[1].receive(pair) {
                    came.push(u32::from_be_bytes(frame[14..18].try_into().expect("a number")));
                }
            }
            assert!(Instant::now() < until, "{} of {sent} frames came: {}", came.len(), state("vm1"));
        }
        came.sort_unstable();
        assert_eq!(came, (0..total).collect::<Vec<_>>());
        let shown = state("vm1");
        assert_eq!((&shown["state"], &shown["drops"], &shown["lost"]), (&"up".into(), &0.into(), &0.into()));
        assert_eq!(shown["packets"], total * round, "{shown}");
        drop(guests);
        while state("vm0")["state"] != "down" || state("vm1")["state"] != "down" {
            assert!(Instant::now() < until, "the guests are gone");
        }
    }
    dir.ok("link del vm0");
    assert!(!sockets[0].exists() && sockets[1].exists());
    drop(daemon);
}
