//! The program of a kernel: process 1, which sets up the interface and does what the plan says.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::mount::{MountFlags, mount};
use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
use rustix::system::{RebootCommand, reboot};
use rustix::thread::{ClockId as SleepClock, clock_nanosleep_absolute};
use rustix::time::{ClockId, Timespec, clock_gettime};
use txweir_lab::machine::{Outcome, Part, Plan, Task};

use crate::kernel::ORIGIN;
use crate::packet::station;

/// The folder of the kernel, as the kernel sees it.
const JOB: &str = "/run/job";
/// Bytes that an application gives or takes at once.
const CHUNK: usize = 1 << 17;
/// Stack of a thread that has little to do.
const STACK: usize = 1 << 16;
/// Time behind the end of the run at which the results are written.
const AFTER: u64 = 1_000_000;

/// Does the work of the kernel that this process is process 1 of, and halts the kernel.
///
/// It does nothing if this process is another one.
pub fn work() {
    if std::process::id() != 1 {
        return;
    }
    if let Err(error) = all() {
        let _ = fs::write(format!("{JOB}/log"), error);
    }
    let _ = reboot(RebootCommand::PowerOff);
}

/// The results of the tasks, in the order of the plan.
type Outcomes = Arc<Mutex<Vec<Outcome>>>;

fn all() -> Result<(), String> {
    let said = |what: &'static str| move |error: rustix::io::Errno| format!("cannot mount {what}: {error}");
    mount("proc", "/proc", "proc", MountFlags::empty(), None).map_err(said("/proc"))?;
    mount("sysfs", "/sys", "sysfs", MountFlags::empty(), None).map_err(said("/sys"))?;
    mount("tmpfs", "/run", "tmpfs", MountFlags::empty(), None).map_err(said("/run"))?;
    fs::create_dir(JOB).map_err(|error| format!("cannot make {JOB}: {error}"))?;
    // The kernel's process opens it, whose working folder this is.
    mount("none", JOB, "hostfs", MountFlags::empty(), Some(c"/proc/self/cwd")).map_err(said("the folder"))?;
    let text = fs::read(format!("{JOB}/plan.json")).map_err(|error| format!("the plan: {error}"))?;
    let plan: Plan = serde_json::from_slice(&text).map_err(|error| format!("the plan: {error}"))?;
    set_up(&plan)?;
    let outcomes: Outcomes = Arc::new(Mutex::new(vec![Outcome::default(); plan.tasks.len()]));
    for (number, task) in plan.tasks.iter().enumerate() {
        let site = Site { number, task: task.clone(), measured: plan.measured_ns, outcomes: outcomes.clone() };
        match task.part {
            Part::Server => site.serve(),
            Part::Client => site.open(),
        }
        .map_err(|error| format!("{}: {error}", task.name))?;
    }
    fs::write(format!("{JOB}/ready"), "").map_err(|error| format!("cannot write: {error}"))?;
    sleep_until(plan.measured_ns.1 + AFTER);
    let outcomes = outcomes.lock().map_err(|error| error.to_string())?;
    let text = serde_json::to_vec(&*outcomes).map_err(|error| error.to_string())?;
    fs::write(format!("{JOB}/outcomes.json"), text).map_err(|error| format!("cannot write: {error}"))
}

/// Sets up the interface and TCP as those of an ordinary machine: this one has little memory.
fn set_up(plan: &Plan) -> Result<(), String> {
    let settings = [
        ("ipv6/conf/all/disable_ipv6", "1".to_owned()),
        ("ipv4/tcp_no_metrics_save", "1".to_owned()),
        ("ipv4/tcp_ecn", u8::from(plan.ecn).to_string()),
        ("ipv4/tcp_mem", "100000 200000 400000".to_owned()),
        ("ipv4/tcp_rmem", "4096 131072 33554432".to_owned()),
        ("ipv4/tcp_wmem", "4096 16384 33554432".to_owned()),
    ];
    for (name, value) in settings {
        let path = format!("/proc/sys/net/{name}");
        // A kernel without IPv6 has no settings of it.
        if fs::exists(&path).unwrap_or(false) {
            fs::write(&path, value).map_err(|error| format!("{path}: {error}"))?;
        }
    }
    let mac = station(plan.address).map(|byte| format!("{byte:02x}")).join(":");
    let address = format!("{}/8", Ipv4Addr::from(plan.address));
    let bytes = plan.tso_max.clamp(1_514, 65_535).to_string();
    let segments = if plan.tso_max < 2 * 1_514 { "1" } else { "64" };
    let commands: [&[&str]; 5] = [
        &["link", "set", "lo", "up"],
        // Without ARP all on the link have one station.
        &["link", "set", "eth0", "address", &mac, "arp", "off"],
        &["link", "set", "eth0", "gso_max_size", &bytes, "gso_max_segs", segments],
        &["address", "add", &address, "dev", "eth0"],
        &["link", "set", "eth0", "up"],
    ];
    for words in commands {
        let done = Command::new("ip").args(words).output().map_err(|error| format!("ip: {error}"))?;
        if !done.status.success() {
            return Err(format!("ip {}: {}", words.join(" "), String::from_utf8_lossy(&done.stderr).trim()));
        }
    }
    Ok(())
}

/// Returns the time of the lab, nanoseconds.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let now = now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned();
    now.saturating_sub(ORIGIN)
}

fn sleep_until(at: u64) {
    let at = at + ORIGIN;
    let time = Timespec {
        tv_sec: (at / 1_000_000_000).cast_signed(),
        tv_nsec: (at % 1_000_000_000).cast_signed(),
    };
    // A signal ends it early.
    while clock_nanosleep_absolute(SleepClock::Monotonic, &time).is_err() {}
}

/// The place of a task.
#[derive(Clone)]
struct Site {
    number: usize,
    task: Task,
    measured: (u64, u64),
    outcomes: Outcomes,
}

impl Site {
    fn spawn(self, connection: u32, f: impl FnOnce(Self, u32) + Send + 'static) -> io::Result<()> {
        thread::Builder::new().stack_size(STACK).spawn(move || f(self, connection)).map(|_| ())
    }

    /// True if this time is measured.
    const fn counts(&self, at: u64) -> bool {
        self.measured.0 <= at && at < self.measured.1
    }

    fn note(&self, f: impl FnOnce(&mut Outcome)) {
        if let Ok(mut all) = self.outcomes.lock() {
            f(&mut all[self.number]);
        }
    }

    /// Counts bytes that have arrived.
    fn arrived(&self, connection: u32, bytes: usize) {
        if self.counts(now()) {
            self.note(|outcome| {
                let at = connection as usize;
                if outcome.bytes.len() <= at {
                    outcome.bytes.resize(at + 1, 0);
                }
                outcome.bytes[at] += bytes as u64;
            });
        }
    }

    fn marked(&self, socket: impl std::os::fd::AsFd) -> io::Result<()> {
        sockopt::set_tcp_congestion(&socket, &self.task.congestion)?;
        Ok(sockopt::set_ip_tos(&socket, self.task.ds)?)
    }

    /// Listens, and serves each connection on a thread of its own.
    fn serve(self) -> io::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, self.task.server.1))?;
        self.marked(&listener)?;
        self.note(|outcome| outcome.bytes = vec![0; 0]);
        self.spawn(0, move |site, _| {
            for (connection, socket) in (0..).zip(listener.incoming()) {
                let Ok(socket) = socket else { continue };
                let _ = site.clone().spawn(connection, move |site, connection| {
                    let _ = match site.task.exchange {
                        None => site.sink(socket, connection),
                        Some((request, response)) => site.answer(socket, connection, request, response),
                    };
                });
            }
        })
    }

    fn sink(&self, mut socket: TcpStream, connection: u32) -> io::Result<()> {
        let mut room = vec![0; CHUNK];
        loop {
            match socket.read(&mut room)? {
                0 => return Ok(()),
                read => self.arrived(connection, read),
            }
        }
    }

    fn answer(&self, mut socket: TcpStream, connection: u32, request: u64, response: u64) -> io::Result<()> {
        let mut room = vec![0; CHUNK];
        loop {
            take(&mut socket, request, &mut room, |read| self.arrived(connection, read))?;
            give(&mut socket, response, &room)?;
        }
    }

    /// Opens each connection at its time, on a thread of its own.
    fn open(self) -> io::Result<()> {
        for connection in 0..self.task.count {
            self.clone().spawn(connection, |site, connection| {
                sleep_until(site.task.start_ns + u64::from(connection) * site.task.stagger_ns);
                let _ = site.send(connection);
            })?;
        }
        Ok(())
    }

    fn send(&self, connection: u32) -> io::Result<()> {
        let (address, port) = self.task.server;
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        self.marked(&socket)?;
        connect(&socket, &SocketAddrV4::new(address.into(), port))?;
        let mut socket = TcpStream::from(socket);
        let mut room = vec![0; CHUNK];
        let Some((request, response)) = self.task.exchange else {
            loop {
                socket.write_all(&room)?;
            }
        };
        loop {
            let start = now();
            give(&mut socket, request, &room)?;
            take(&mut socket, response, &mut room, |read| self.arrived(connection, read))?;
            let end = now();
            if self.counts(end) {
                self.note(|outcome| outcome.times.push(end - start));
            }
        }
    }
}

/// Reads so many bytes.
fn take(socket: &mut TcpStream, bytes: u64, room: &mut [u8], mut each: impl FnMut(usize)) -> io::Result<()> {
    let mut left = bytes;
    while left > 0 {
        let want = room.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match socket.read(&mut room[..want])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                each(read);
                left -= read as u64;
            }
        }
    }
    Ok(())
}

/// Writes so many bytes.
fn give(socket: &mut TcpStream, bytes: u64, room: &[u8]) -> io::Result<()> {
    let mut left = bytes;
    while left > 0 {
        let part = room.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        socket.write_all(&room[..part])?;
        left -= part as u64;
    }
    Ok(())
}
