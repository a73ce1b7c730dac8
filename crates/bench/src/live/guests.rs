//! Two guests without a kernel, whose cards a `txweir run` is.

use std::path::{Path, PathBuf};
use std::time::Instant;

use txweir_device::testguest::{Setup, TestGuest};
use txweir_device::testnet::NetNs;

use super::process::Running;
use super::{DIRECT, Kind, Row, direct_row, in_turns, ms};

/// A socket of a card, which is removed when it is dropped: the program may have been killed.
struct Socket(PathBuf);

impl Socket {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("txw-live-{}-{name}.sock", std::process::id())))
    }
    fn endpoint(&self) -> String {
        format!("vhost:{}", self.0.display())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn connected(path: &Path) -> TestGuest {
    // The card is served by another process.
    TestGuest::connect(path, Setup { size: 256, ..Setup::default() }, || {})
}

/// Packets a second from one guest to the other, with and without the direct way.
pub fn direct(program: &str) -> Row {
    let host = NetNs::new("live-host");
    let sockets = ["a", "b"].map(Socket::new);
    let mut frame = [0x5a; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x88, 0xb5]);
    let values = in_turns(super::ROUNDS, |case| {
        let [input, output] = sockets.each_ref().map(Socket::endpoint);
        let args = [&["--in", &input, "--out", &output, "--json"], DIRECT[case]].concat();
        let running = Running::start(program, &host, &args);
        let (mut sender, mut receiver) = (connected(&sockets[0].0), connected(&sockets[1].0));
        let (began, mut came) = (Instant::now(), 0_u32);
        while began.elapsed() < ms(500) {
            while sender.send(0, [0; 12], &frame) {}
            while receiver.receive(0).is_some() {
                came += 1;
            }
        }
        let rate = f64::from(came) / began.elapsed().as_secs_f64();
        drop((sender, receiver));
        running.stop_and_hear();
        rate
    });
    direct_row(Kind::Vhost, values)
}
