//! Network namespaces for tests and experiments that need the kernel's stack. For these only: a
//! failure is a panic that shows the command. The feature `testnet` switches this module on.
//!
//! ```no_run
//! use txweir_device::testnet::{self, NetNs};
//! if let Some(reason) = testnet::skip_reason() {
//!     println!("skipped, because {reason}");
//!     return;
//! }
//! let client = NetNs::new("client");
//! client.run(&["ip", "link", "set", "lo", "up"]);
//! ```

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::name::IfName;
use crate::netns::Netns;
use crate::poll::{self, PollFd, PollFlags};
use crate::{clock, sys};

/// Opens a link, again as long as it is in use. A process that a test forks holds a copy of each
/// descriptor until it runs its program, so that a link that was closed may still be in use for a
/// moment: `open` is called again for up to ten seconds.
pub fn reopened<T, E>(mut open: impl FnMut() -> Result<T, E>, in_use: impl Fn(&E) -> bool) -> Result<T, E> {
    let give_up = Instant::now() + Duration::from_secs(10);
    loop {
        match open() {
            Err(err) if in_use(&err) && Instant::now() < give_up => {
                std::thread::sleep(Duration::from_millis(5));
            }
            done => return done,
        }
    }
}

/// Returns why tests with namespaces cannot run here, as the end of the sentence "skipped, because
/// ..."; `None` if they can. The function makes and removes a namespace to find out.
#[must_use]
pub fn skip_reason() -> Option<String> {
    if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
        return Some(format!("/dev/net/tun cannot be opened: {error}"));
    }
    let name = unique("probe");
    match ip(&["netns", "add", &name]) {
        Err(error) => return Some(format!("ip (iproute2) cannot be run: {error}")),
        Ok(output) if !output.status.success() => {
            let error = String::from_utf8_lossy(&output.stderr);
            return Some(format!("`ip netns add` failed (root needed): {}", error.trim()));
        }
        Ok(_) => {}
    }
    let entered = Netns::new(&name).map(|netns| netns.within(|| ()));
    let _ = ip(&["netns", "del", &name]);
    match entered {
        Some(Err(cause)) => Some(format!("a network namespace cannot be entered: {cause:?}")),
        _ => None,
    }
}

/// Returns why tests with XDP sockets cannot run here, in the same form.
#[must_use]
pub fn no_xdp_reason() -> Option<String> {
    use rustix::net::{AddressFamily, SocketType, socket};
    let reason = || socket(AddressFamily::XDP, SocketType::RAW, None).err();
    skip_reason().or_else(|| reason().map(|errno| format!("XDP sockets cannot be opened: {errno}")))
}

fn ip(args: &[&str]) -> std::io::Result<Output> {
    Command::new("ip").args(args).output()
}

/// Returns a name that no other process and no other call uses: `txw-LABEL-PID-N`.
fn unique(label: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("txw-{label}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A network namespace of ip-netns(8), removed when dropped, also during a panic.
#[derive(Debug)]
pub struct NetNs {
    name: String,
    netns: Netns,
}

impl NetNs {
    /// Makes a namespace with a unique name and sets its loopback up.
    ///
    /// # Panics
    /// When the system refuses; call [`skip_reason`] first.
    #[must_use]
    pub fn new(label: &str) -> Self {
        let name = unique(label);
        let netns = Netns::new(&name).expect("a label without a slash");
        must(Command::new("ip").args(["netns", "add", &name]));
        let made = Self { name, netns };
        made.run(&["ip", "link", "set", "lo", "up"]);
        made
    }

    /// Returns a namespace that exists already, of this name.
    ///
    /// # Panics
    /// When the name has a slash.
    #[must_use]
    pub fn existing(name: &str) -> Self {
        Self { name: name.to_string(), netns: Netns::new(name).expect("a name without a slash") }
    }

    /// Returns the namespace's name, for `ip -n` and for the endpoint `NAME/INTERFACE`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a command that will run inside.
    #[must_use]
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).args(args);
        command
    }

    /// Runs a command inside and returns its standard output.
    ///
    /// # Panics
    /// When the command fails, with its error output.
    pub fn run(&self, args: &[&str]) -> String {
        must(&mut self.command(args))
    }

    /// Runs `f` inside, on a thread of its own, and waits for it.
    ///
    /// # Panics
    /// When the namespace cannot be entered, or `f` panics.
    pub fn enter<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        self.netns.within(f).unwrap_or_else(|cause| panic!("cannot enter {}: {cause:?}", self.name))
    }

    /// Starts `f` inside, on a thread of its own.
    ///
    /// # Panics
    /// The thread panics when the namespace cannot be entered, or `f` does.
    pub fn spawn<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let (netns, name) = (self.netns.clone(), self.name.clone());
        std::thread::spawn(move || {
            netns.within(f).unwrap_or_else(|cause| panic!("cannot enter {name}: {cause:?}"))
        })
    }

    /// Drops all frames that come in by an interface, in its driver, while the returned value
    /// lives.
    ///
    /// # Panics
    /// When the system refuses.
    #[must_use]
    pub fn drop_all(&self, interface: &str) -> impl Drop + use<> {
        /// A program on an interface.
        struct Dropping(#[allow(dead_code, reason = "its descriptor keeps the program")] sys::bpf::Program);
        impl Drop for Dropping {
            fn drop(&mut self) {}
        }
        self.enter(|| {
            let name = IfName::new(interface).expect("the name of an interface");
            let control = crate::iface::Control::open().expect("a socket");
            let index = control.index(&name).expect("an index").expect("an interface");
            Dropping(sys::bpf::Program::drop_all(index).expect("an XDP program"))
        })
    }

    /// Makes a veth pair between this namespace and another.
    ///
    /// # Panics
    /// When `ip` fails.
    pub fn veth(&self, name: &str, peer_ns: &Self, peer: &str) {
        let command =
            ["ip", "link", "add", name, "type", "veth", "peer", "name", peer, "netns", peer_ns.name()];
        self.run(&command);
    }

    /// Gives an interface an address ("10.0.0.1/24") and sets it up. IPv6 addresses are usable at
    /// once, without duplicate address detection.
    ///
    /// # Panics
    /// When `ip` fails.
    pub fn up(&self, interface: &str, address: &str) {
        if address.contains(':') {
            self.run(&["ip", "address", "add", address, "dev", interface, "nodad"]);
        } else {
            self.run(&["ip", "address", "add", address, "dev", interface]);
        }
        self.run(&["ip", "link", "set", "dev", interface, "up"]);
    }

    /// Waits until an interface that was set up is ready to carry frames. The kernel gives a veth
    /// its queueing discipline a moment after its peer came up, and silently drops frames until
    /// then.
    ///
    /// # Panics
    /// When that takes longer than a minute.
    pub fn wait_for_carrier(&self, interface: &str) {
        let give_up = Instant::now() + PATIENCE;
        let shown = || self.run(&["ip", "-o", "link", "show", "dev", interface]);
        // The state may be shown before the queueing discipline is there.
        let ready = |text: &str| text.contains(" state UP ") && !text.contains(" qdisc noop ");
        while !ready(&shown()) {
            assert!(Instant::now() < give_up, "{}/{interface} has no carrier", self.name);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Starts a TCP sink inside: it accepts one connection, reads it to its end, answers with the
    /// number of bytes as a big-endian 64-bit number, and returns that number. This function
    /// returns once the sink listens.
    ///
    /// # Panics
    /// When the address cannot be bound; the thread panics when nothing comes for a minute.
    pub fn tcp_sink(&self, addr: SocketAddr) -> JoinHandle<u64> {
        let listener = self.enter(|| TcpListener::bind(addr).expect("bind the sink"));
        self.spawn(move || {
            let (mut stream, _) = accept(&listener);
            let mut buffer = vec![0; 1 << 16];
            let mut total = 0;
            loop {
                match stream.read(&mut buffer).expect("read from the source") {
                    0 => break,
                    got => total += got as u64,
                }
            }
            stream.write_all(&total.to_be_bytes()).expect("answer the source");
            total
        })
    }

    /// Sends `bytes` from inside to a [`tcp_sink`](Self::tcp_sink) and waits for its answer, which
    /// the thread returns.
    ///
    /// # Panics
    /// The thread panics when the connection is not made within a minute, or stalls for as long.
    pub fn tcp_source(&self, addr: SocketAddr, bytes: u64) -> JoinHandle<u64> {
        self.spawn(move || {
            let mut stream = TcpStream::connect_timeout(&addr, PATIENCE).expect("connect to the sink");
            stream.set_write_timeout(Some(PATIENCE)).expect("set a timeout");
            stream.set_read_timeout(Some(PATIENCE)).expect("set a timeout");
            let buffer = vec![0x5a; 1 << 18];
            let mut left = bytes;
            while left > 0 {
                let chunk = buffer.len().min(usize::try_from(left).unwrap_or(buffer.len()));
                stream.write_all(&buffer[..chunk]).expect("write to the sink");
                left -= chunk as u64;
            }
            stream.shutdown(std::net::Shutdown::Write).expect("end the transfer");
            let mut answer = [0; 8];
            stream.read_exact(&mut answer).expect("the sink's answer");
            u64::from_be_bytes(answer)
        })
    }
}

/// Kind of the devices of a [`Cable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// TUN devices, which carry IP packets, as those of a VPN.
    Packets,
    /// TAP devices, which carry Ethernet frames, as those of a virtual machine.
    Frames,
}

/// A program that holds two devices, as a VPN or the monitor of a virtual machine does: a packet
/// that the kernel sends to one leaves by the other. The devices are created with it, and removed
/// when it is dropped.
#[derive(Debug)]
pub struct Cable {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Cable {
    /// Creates a device of each of these names in its namespace, and carries packets between them.
    ///
    /// # Panics
    /// When a device cannot be created.
    #[must_use]
    pub fn new(layer: Layer, devices: [(&NetNs, &str); 2]) -> Self {
        let [a, b] = devices.map(|(netns, name)| {
            netns.enter(|| {
                let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun").expect("open");
                let mode = if layer == Layer::Packets { libc::IFF_TUN } else { libc::IFF_TAP };
                let name = IfName::new(name).expect("a name");
                sys::tun_attach(file.as_fd(), &name, mode | libc::IFF_NO_PI).expect("make the device");
                Arc::new(file)
            })
        });
        let ends = Arc::new(AtomicBool::new(false));
        let ways = [(&a, &b), (&b, &a)];
        let threads = ways.map(|(from, to)| {
            let (from, to, ends) = (Arc::clone(from), Arc::clone(to), Arc::clone(&ends));
            std::thread::spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    carry(&from, &to);
                }
            })
        });
        Self { ends, threads: threads.into() }
    }
}

/// Carries the packets that come within a tenth of a second. The kernel refuses those to a device
/// that is down: they are lost.
fn carry(mut from: &File, mut to: &File) {
    let mut packet = [0; 1 << 16];
    let until = clock::now_ns() + 100_000_000;
    let mut readable = [PollFd::new(from, PollFlags::IN)];
    if poll::wait(&mut readable, Some(until), 0).is_ok_and(|ready| ready > 0)
        && let Ok(len) = from.read(&mut packet)
    {
        let _ = to.write(&packet[..len]);
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for NetNs {
    fn drop(&mut self) {
        // A second panic during a panic would hide the first. The name identifies the test if the
        // namespace stays behind.
        let _ = ip(&["netns", "del", &self.name]);
    }
}

/// A time longer than any step of a test takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Accepts one connection, and gives up after [`PATIENCE`], because `TcpListener` itself has no
/// time limit.
fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    listener.set_nonblocking(true).expect("make the sink non-blocking");
    let give_up = Instant::now() + PATIENCE;
    let (stream, peer) = loop {
        match listener.accept() {
            Ok(accepted) => break accepted,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                assert!(Instant::now() < give_up, "no connection came");
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => panic!("accept: {error}"),
        }
    };
    stream.set_nonblocking(false).expect("make the connection blocking");
    stream.set_read_timeout(Some(PATIENCE)).expect("set a timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("set a timeout");
    (stream, peer)
}

/// Runs a command to its end and returns its output; panics with its error output when it fails.
fn must(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
