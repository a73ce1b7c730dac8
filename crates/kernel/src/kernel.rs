//! `Kernel`: a User-Mode Linux in virtual time, as a machine of the lab.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant as Wall};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use txweir_core::Instant;
use txweir_device::{MAX_FRAME, TimedCard};
use txweir_lab::frame::Frame;
use txweir_lab::machine::{Machine, Outcome, Plan};

use crate::clock::{Clock, Operation};
use crate::folder::Folder;
use crate::packet::{from_card, to_card};

/// The time of a kernel at time zero of the lab: by then it has booted and its program is ready.
pub(crate) const ORIGIN: u64 = 8_000_000_000;
/// The time of day at time zero of a kernel: 2023-11-14.
const TIME_OF_DAY: u64 = 1_700_000_000_000_000_000;
/// Longest time that a kernel moves its clock itself: a kernel that only waits has timers all the
/// time.
const FREE_MAX: u64 = 100_000_000;
/// Times from here on are none: a kernel without timers asks for the end of time.
const NEVER: u64 = 1 << 62;
/// Longest wait for a kernel that stands still in the time of the machine: a busy machine, and a
/// kernel that computes.
const PATIENCE: Duration = Duration::from_secs(120);

/// The programs that a kernel needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The kernel: a User-Mode Linux with `CONFIG_UML_TIME_TRAVEL_SUPPORT`, `CONFIG_VIRTIO_UML` and
    /// `CONFIG_VIRTIO_NET`. A library `fixed.so` beside it is loaded first, which makes its random
    /// numbers those of a seed.
    pub kernel: PathBuf,
    /// The program that calls [`work`](crate::work), as process 1 of the kernel.
    pub init: PathBuf,
    /// The words behind its name.
    pub words: Vec<String>,
}

/// A kernel in virtual time.
#[derive(Debug)]
pub struct Kernel {
    child: Child,
    clock: Clock,
    card: Card,
    /// Its address.
    address: [u8; 4],
    /// True while it stands still.
    waits: bool,
    /// True while its packets pass through the lab: neither before time zero nor behind the end.
    is_in_lab: bool,
    /// True if it has told its card of packets since it was let run.
    has_sent: bool,
    /// The time to which it has come ahead of the lab, and at which it has sent packets.
    ahead: Option<u64>,
    room: Vec<u8>,
    folder: Folder,
}

/// The network card, before and after the kernel has found it.
#[derive(Debug)]
enum Card {
    Awaited(UnixListener),
    There(Box<TimedCard>),
}

impl Kernel {
    /// Boots a kernel, which does this work, up to time zero of the lab.
    ///
    /// # Errors
    /// The kernel cannot be started, ends early, or its program fails, in words.
    pub fn boot(program: &Program, plan: &Plan) -> Result<Self, String> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error: io::Error| format!("cannot {what}: {error}")
        };
        let folder = Folder::new().map_err(failed("make a folder"))?;
        let write = failed("write the plan of the kernel");
        let text = serde_json::to_vec(plan).map_err(|error| error.to_string())?;
        std::fs::write(folder.file("plan.json"), text).map_err(write)?;
        let listen = |name| UnixListener::bind(folder.file(name)).map_err(failed("make a socket"));
        let (calendar, card) = (listen("clock")?, listen("card")?);
        let console = File::create(folder.file("console")).map_err(failed("make a file"))?;
        let mut child = command(program, plan, folder.path())
            .stdout(console)
            .spawn()
            .map_err(|error| format!("cannot start the kernel {}: {error}", program.kernel.display()))?;
        let clock = match accept(&calendar, &mut child) {
            Ok(clock) => clock,
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                let why =
                    "the kernel does not connect to its calendar; it needs CONFIG_UML_TIME_TRAVEL_SUPPORT";
                return Err(format!("{why}: {error}; {}", folder.said()));
            }
        };
        let mut kernel = Self {
            child,
            clock,
            card: Card::Awaited(card),
            address: plan.address,
            waits: false,
            is_in_lab: false,
            has_sent: false,
            ahead: None,
            room: vec![0; MAX_FRAME],
            folder,
        };
        kernel.until_it_waits()?;
        kernel.free(ORIGIN)?;
        match &kernel.card {
            Card::There(_) if kernel.folder.file("ready").exists() => {
                kernel.is_in_lab = true;
                Ok(kernel)
            }
            _ => Err(format!("the kernel is not ready in time: {}", kernel.folder.said())),
        }
    }

    /// Lets the kernel, which stands still, run by itself to this time.
    fn free(&mut self, until: u64) -> Result<(), String> {
        // Bound: the time, as a kernel does not move it back.
        while let Some(wanted) = self.clock.wanted().filter(|wanted| *wanted < until) {
            self.go(wanted, until)?;
        }
        Ok(())
    }

    /// Lets the kernel run at this time, until it stands still. It moves its clock itself before
    /// the time `free`.
    fn go(&mut self, time: u64, free: u64) -> Result<(), String> {
        self.waits = false;
        self.clock.run(time, free).map_err(|error| self.failed(&error))?;
        self.until_it_waits()
    }

    fn until_it_waits(&mut self) -> Result<(), String> {
        while !self.waits {
            self.attend().map_err(|error| self.failed(&error))?;
        }
        Ok(())
    }

    fn failed(&self, error: &io::Error) -> String {
        let what = match error.kind() {
            ErrorKind::UnexpectedEof => "the kernel has ended".to_owned(),
            _ => format!("the kernel: {error}"),
        };
        match self.folder.said() {
            said if said.is_empty() => what,
            said => format!("{what}; it said: {said}"),
        }
    }

    /// Waits for messages of the kernel, and serves them.
    fn attend(&mut self) -> io::Result<()> {
        // The clock's messages are those that are read most.
        if self.read_clock()? {
            return Ok(());
        }
        let (card, backend) = match &self.card {
            Card::There(card) => (card.as_fd(), card.backend()),
            Card::Awaited(listener) => (listener.as_fd(), None),
        };
        // Without a way for notifications the card stands twice.
        let fds = [self.clock.as_fd(), card, backend.unwrap_or(card)];
        let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        wait(&mut fds)?;
        if fds[1].revents().is_empty() {
            return Ok(());
        }
        match &mut self.card {
            Card::There(card) => {
                if self.is_in_lab {
                    // Its packets leave at this time, from which it must not move on. It
                    // stands still until the card replies.
                    self.has_sent = true;
                    self.clock.set_free(self.clock.now());
                }
                card.serve()
            }
            Card::Awaited(listener) => {
                let (socket, _) = listener.accept()?;
                self.card = Card::There(Box::new(TimedCard::new(socket)?));
                Ok(())
            }
        }
    }

    /// Serves the messages of the clock that are there. Returns false if there is none.
    fn read_clock(&mut self) -> io::Result<bool> {
        let mut any = false;
        while let Some(operation) = self.clock.answer()? {
            any = true;
            match operation {
                Operation::Wait => self.waits = true,
                Operation::Old => {
                    let what = "it is too old: its calendar has no shared memory (Linux 6.12 has)";
                    return Err(io::Error::new(ErrorKind::Unsupported, what));
                }
                Operation::Start | Operation::TimeOfDay | Operation::Other => {}
            }
        }
        Ok(any)
    }

    fn card(&mut self) -> Result<&mut TimedCard, String> {
        match &mut self.card {
            Card::There(card) => Ok(card),
            Card::Awaited(_) => Err("the kernel has no card".to_owned()),
        }
    }

    /// Waits until the kernel has seen a notification.
    fn await_called(&mut self) -> Result<(), String> {
        loop {
            match self.card()?.called() {
                Ok(true) => return Ok(()),
                Ok(false) => self.attend().map_err(|error| self.failed(&error))?,
                Err(error) => return Err(self.failed(&error)),
            }
        }
    }
}

/// Returns the command of a kernel. Its words and its environment are stirred into its random
/// numbers, and so the folder, which is a new one each time, is not in them.
fn command(program: &Program, plan: &Plan, folder: &Path) -> Command {
    let mut command = Command::new(&program.kernel);
    command.current_dir(folder).stdin(Stdio::null()).stderr(Stdio::null());
    command.args(["mem=256M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"]);
    command.args(["con=null", "con0=null,fd:1", "time-travel=ext:clock", "virtio_uml.device=card:1"]);
    command.arg(format!("init={}", program.init.display()));
    command.arg("--").args(&program.words);
    command.env_clear();
    command.env("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", ".");
    command.env("ORACLE_SEED", plan.seed.to_string());
    let fixed = program.kernel.with_file_name("fixed.so");
    if fixed.exists() {
        command.env("LD_PRELOAD", fixed);
    }
    command
}

/// Waits until one of these is readable.
fn wait(fds: &mut [PollFd<'_>]) -> io::Result<()> {
    let patience = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
    match rustix::io::retry_on_intr(|| poll(fds, Some(&patience)))? {
        0 => Err(io::Error::new(ErrorKind::TimedOut, "it does not answer")),
        _ => Ok(()),
    }
}

/// Waits for the kernel's connection to its calendar.
fn accept(calendar: &UnixListener, child: &mut Child) -> io::Result<Clock> {
    calendar.set_nonblocking(true)?;
    let give_up = Wall::now() + PATIENCE;
    loop {
        match calendar.accept() {
            Ok((socket, _)) => return Clock::new(socket, TIME_OF_DAY),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if let Some(status) = child.try_wait()? {
            return Err(io::Error::other(format!("it has ended ({status})")));
        }
        if Wall::now() > give_up {
            return Err(ErrorKind::TimedOut.into());
        }
        let mut fds = [PollFd::new(calendar, PollFlags::IN)];
        let tick = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        rustix::io::retry_on_intr(|| poll(&mut fds, Some(&tick)))?;
    }
}

impl Machine for Kernel {
    fn next(&self) -> Option<Instant> {
        let wanted = self.ahead.or_else(|| self.clock.wanted()).filter(|wanted| *wanted < NEVER)?;
        Some(Instant(wanted.saturating_sub(ORIGIN)))
    }

    fn run(&mut self, now: Instant, free: Instant) -> Result<(), String> {
        if self.ahead.take().is_some() {
            return Ok(());
        }
        let now = ORIGIN + now.0;
        self.has_sent = false;
        self.go(now, ORIGIN.saturating_add(free.0).min(now + FREE_MAX))?;
        self.ahead = Some(self.clock.now()).filter(|at| self.has_sent && *at > now);
        Ok(())
    }

    fn take(&mut self) -> Result<Option<Frame>, String> {
        if self.ahead.is_some() {
            return Ok(None);
        }
        let mut room = std::mem::take(&mut self.room);
        let taken = loop {
            match self.card()?.take(&mut room) {
                // Bound: the frames in the ring, as the kernel stands still.
                Ok(Some((hdr, len))) => {
                    if let Some(frame) = from_card(&hdr, &room[..len]) {
                        break Ok(Some(frame));
                    }
                }
                Ok(None) => break Ok(None),
                Err(error) => break Err(self.failed(&error)),
            }
        };
        self.room = room;
        taken
    }

    fn give(&mut self, frame: &Frame) -> Result<bool, String> {
        let mut room = std::mem::take(&mut self.room);
        let address = self.address;
        let given = match to_card(frame, address, &mut room) {
            Some(frame) => self.card()?.give(&frame),
            None => Ok(false),
        };
        self.room = room;
        given.map_err(|error| self.failed(&error))
    }

    fn tell(&mut self, now: Instant) -> Result<(), String> {
        if self.ahead.is_some() {
            return Ok(());
        }
        self.clock.set(ORIGIN + now.0);
        // Bound: the rings of the card, each of which is told of once.
        while self.card()?.call().map_err(|error| self.failed(&error))? {
            self.await_called()?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Vec<Outcome>, String> {
        // It goes on alone until it ends, which closes its connections.
        self.is_in_lab = false;
        let ended = loop {
            let Some(wanted) = self.clock.wanted() else { break Err("the kernel waits for ever".to_owned()) };
            if let Err(why) = self.free(wanted.saturating_add(1)) {
                break Err(why);
            }
        };
        match std::fs::read(self.folder.file("outcomes.json")) {
            Ok(text) => {
                serde_json::from_slice(&text).map_err(|error| format!("the kernel's results: {error}"))
            }
            Err(_) => ended,
        }
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
