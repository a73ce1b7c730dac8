//! The program of a kernel: process 1, which sets up the interface and does what the plan says.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
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

/// The results of a task.
#[derive(Debug, Default)]
struct Results {
    /// Bytes that have arrived, for each connection.
    bytes: Mutex<Vec<Arc<AtomicU64>>>,
    /// Times of transactions.
    times: Mutex<Vec<u64>>,
}

impl Results {
    /// Returns the count of a connection.
    fn of(&self, connection: u32) -> Arc<AtomicU64> {
        let Ok(mut all) = self.bytes.lock() else { return Arc::default() };
        let at = connection as usize;
        if all.len() <= at {
            all.resize_with(at + 1, Arc::default);
        }
        all[at].clone()
    }

    /// Returns all counts.
    fn read(&self) -> Vec<u64> {
        let all = self.bytes.lock();
        all.map_or_else(|_| Vec::new(), |all| all.iter().map(|bytes| bytes.load(Ordering::Relaxed)).collect())
    }
}

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
    let results: Vec<Arc<Results>> = plan.tasks.iter().map(|_| Arc::default()).collect();
    for (task, results) in plan.tasks.iter().zip(&results) {
        let site = Site { task: task.clone(), measured: plan.measured_ns, results: results.clone() };
        match task.part {
            Part::Server => site.serve(),
            Part::Client => site.open(),
        }
        .map_err(|error| format!("{}: {error}", task.name))?;
    }
    fs::write(format!("{JOB}/ready"), "").map_err(|error| format!("cannot write: {error}"))?;
    let (start, end) = plan.measured_ns;
    sleep_until(start);
    let before: Vec<Vec<u64>> = results.iter().map(|results| results.read()).collect();
    sleep_until(end);
    let outcomes: Vec<Outcome> = results
        .iter()
        .zip(before)
        .map(|(results, before)| {
            let before = before.into_iter().chain(std::iter::repeat(0));
            let bytes = results.read().into_iter().zip(before).map(|(all, before)| all - before).collect();
            let times =
                results.times.lock().map_or_else(|_| Vec::new(), |mut times| std::mem::take(&mut *times));
            Outcome { bytes, times }
        })
        .collect();
    let text = serde_json::to_vec(&outcomes).map_err(|error| error.to_string())?;
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
    let time =
        Timespec { tv_sec: (at / 1_000_000_000).cast_signed(), tv_nsec: (at % 1_000_000_000).cast_signed() };
    // A signal ends it early.
    while clock_nanosleep_absolute(SleepClock::Monotonic, &time).is_err() {}
}

/// The place of a task.
#[derive(Clone)]
struct Site {
    task: Task,
    measured: (u64, u64),
    results: Arc<Results>,
}

impl Site {
    fn spawn(self, connection: u32, f: impl FnOnce(Self, u32) + Send + 'static) -> io::Result<()> {
        thread::Builder::new().stack_size(STACK).spawn(move || f(self, connection)).map(|_| ())
    }

    fn marked(&self, socket: impl std::os::fd::AsFd) -> io::Result<()> {
        sockopt::set_tcp_congestion(&socket, &self.task.congestion)?;
        Ok(sockopt::set_ip_tos(&socket, self.task.ds)?)
    }

    /// Listens, and serves each connection on a thread of its own.
    fn serve(self) -> io::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, self.task.server.1))?;
        self.marked(&listener)?;
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
        let (mut room, arrived) = (vec![0; CHUNK], self.results.of(connection));
        loop {
            match socket.read(&mut room)? {
                0 => return Ok(()),
                read => _ = arrived.fetch_add(read as u64, Ordering::Relaxed),
            }
        }
    }

    fn answer(&self, mut socket: TcpStream, connection: u32, request: u64, response: u64) -> io::Result<()> {
        let (mut room, arrived) = (vec![0; CHUNK], self.results.of(connection));
        loop {
            take(&mut socket, request, &mut room, &arrived)?;
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
        let arrived = self.results.of(connection);
        loop {
            let start = now();
            give(&mut socket, request, &room)?;
            take(&mut socket, response, &mut room, &arrived)?;
            let end = now();
            if (self.measured.0..self.measured.1).contains(&end)
                && let Ok(mut times) = self.results.times.lock()
            {
                times.push(end - start);
            }
        }
    }
}

/// Reads so many bytes.
fn take(socket: &mut TcpStream, bytes: u64, room: &mut [u8], arrived: &AtomicU64) -> io::Result<()> {
    let mut left = bytes;
    while left > 0 {
        let want = room.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match socket.read(&mut room[..want])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                arrived.fetch_add(read as u64, Ordering::Relaxed);
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
