//! A daemon in virtual time.

pub mod card;

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use txweir_core::Instant;
use txweir_daemon::Daemon;
use txweir_daemon::protocol::{Ask, Batch, Reply};

/// A daemon and a time that only the test advances.
#[derive(Default)]
pub struct World {
    pub daemon: Daemon,
    pub now: Instant,
}

impl World {
    pub fn with(lines: &[&str]) -> Self {
        let mut world = Self::default();
        for line in lines {
            world.link(line);
        }
        world
    }

    pub fn ask(&mut self, line: &str) -> Reply {
        let args = line.split_whitespace().map(String::from).collect();
        self.daemon.answer(self.now, &Ask::Link { args })
    }

    /// Performs a link command that must succeed, and returns its output.
    pub fn link(&mut self, line: &str) -> String {
        let reply = self.ask(line);
        assert_eq!((reply.status, reply.stderr.as_str()), (0, ""), "{line}");
        reply.stdout
    }

    /// Performs a link command that must be refused, and returns its status and error.
    pub fn refused(&mut self, line: &str) -> (u8, String) {
        let before = self.save();
        let reply = self.ask(line);
        assert_eq!((self.save(), reply.stdout.as_str()), (before, ""), "{line}");
        (reply.status, reply.stderr)
    }

    /// Performs a tc command that must succeed, and returns its output.
    pub fn tc(&mut self, line: &str) -> String {
        let reply = self.try_tc(line);
        assert_eq!((reply.status, reply.stderr.as_str()), (0, ""), "{line}");
        reply.stdout
    }

    pub fn try_tc(&mut self, line: &str) -> Reply {
        let args = line.split_whitespace().map(String::from).collect();
        self.daemon.answer(self.now, &Ask::Tc { args, batch: None, class_names: None })
    }

    /// Performs lines in one step, and returns their output.
    pub fn batch(&mut self, flags: &str, text: &str) -> String {
        let args = format!("{flags} -b b").split_whitespace().map(String::from).collect();
        let batch = Some(Batch { name: "b".into(), text: text.into(), lines_before: 0, more: false });
        let reply = self.daemon.answer(self.now, &Ask::Tc { args, batch, class_names: None });
        assert_eq!((reply.status, reply.stderr.as_str()), (0, ""), "{text}");
        reply.stdout
    }

    pub fn save(&mut self) -> String {
        self.daemon.answer(self.now, &Ask::Save).stdout
    }

    /// Lets time pass, as the loop would.
    pub fn until(&mut self, end: Instant) {
        while let Some(at) = self.daemon.links().deadline(self.now).filter(|at| *at <= end) {
            self.now = self.now.max(at);
            let now = self.now;
            self.daemon.links_mut().turn(&move || now, &[]);
            self.daemon.links_mut().restore(now);
        }
        self.now = end;
    }

    pub fn show(&mut self, name: &str) -> Value {
        serde_json::from_str(&self.link(&format!("show {name} -j"))).expect("JSON")
    }

    pub fn count(&mut self, name: &str, key: &str) -> u64 {
        self.show(name)[0][key].as_u64().unwrap_or_else(|| panic!("{key}"))
    }
}

/// A log that a test reads.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Returns the lines since the last call.
    pub fn lines(&self) -> Vec<String> {
        let text = std::mem::take(&mut *self.0.lock().expect("no test panics here"));
        String::from_utf8(text).expect("text").lines().map(str::to_owned).collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no test panics here").extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns a policy as LibreQoS makes it: on each of four queues an htb with its part of the
/// circuits, each a class of this rate with a cake below.
pub fn circuits(number: u32, rate: &str) -> String {
    let mut text = String::from("qdisc replace dev lan root handle 7fff: mq\n");
    for queue in 1..=4 {
        text += &format!("qdisc replace dev lan parent 7fff:{queue} handle {queue}: htb default 2\n");
        text +=
            &format!("class replace dev lan parent {queue}: classid {queue}:1 htb rate 1gbit ceil 1gbit\n");
        for class in 2..2 + number / 4 {
            let rates = format!("htb rate {rate} ceil 50mbit prio 3");
            text += &format!("class replace dev lan parent {queue}:1 classid {queue}:{class:x} {rates}\n");
            text += &format!("qdisc replace dev lan parent {queue}:{class:x} cake diffserv4\n");
        }
    }
    text
}

pub const MS: u64 = 1_000_000;
