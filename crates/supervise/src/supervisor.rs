//! The loop that answers the calls of the programs under the filter.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use txweir_netlink::message::Told;

use crate::filter::{self, SOL_SOCKET};
use crate::hands::Hands;
use crate::receive::{Received, Reception, receive, write_address};
use crate::sockets::{Sockets, tell};
use crate::sys::{self, Notification, Notifications};
use crate::target::Target;

/// Time between two looks at the threads of receptions: whether they are gone, or have a signal.
const LOOK: Duration = Duration::from_millis(50);
/// Most threads that are looked at for signals in one look.
const LOOKED_AT: usize = 32;
/// Most receptions that wait, each with a copy of a socket. One more is answered `ENOBUFS`.
const WAITING_MAX: usize = 1024;
/// Descriptors for all else: messages, threads, standard streams.
const DESCRIPTORS: u64 = 64;
/// Type flags of `socket` (socket(2)).
const NONBLOCK: u64 = 0o4000;
/// The bits of the type itself.
const STYLE: u64 = 0xf;
const CLOEXEC: u64 = 0o2_000_000;
/// Options of netlink's sockets (netlink(7)).
const ADD_MEMBERSHIP: u64 = 1;
const DROP_MEMBERSHIP: u64 = 2;
const CAP_ACK: u64 = 10;
const EXT_ACK: u64 = 11;
/// Options without effect here: addresses of senders, broadcasts, lost messages, strict checks.
const IGNORED: [u64; 5] = [3, 4, 5, 8, 12];
/// Options of sockets whose value tells netlink from others: type, protocol, family.
const SO_TYPE: u64 = 3;
const SO_PROTOCOL: u64 = 38;
const SO_DOMAIN: u64 = 39;

/// The result of a call.
type Answer = Result<i64, i32>;

/// Runs a program, and those that it starts, so that their rtnetlink sockets are connections to the
/// daemon that listens at `path`. Returns the status of the program, once all of them have ended.
///
/// # Errors
/// The program cannot be started, it has a supervisor already, or the system has no notifications
/// of this kind: Linux 5.14 is the first that has all that is needed.
pub fn run(command: &mut Command, path: &Path) -> io::Result<ExitStatus> {
    let sockets = Sockets::new(path)?;
    let (mut child, notifications) = sys::spawn(command, filter::program())?;
    sys::ignore_the_terminal();
    let waiting_max = room();
    let notifications = Arc::new(notifications);
    let (hands, waiting) = (RefCell::default(), Vec::new());
    let looked = Instant::now();
    let served =
        Supervisor { notifications, sockets, hands, waiting, waiting_max, looked, looks_from: 0 }.serve();
    let status = child.wait()?;
    served.map(|()| status)
}

/// Takes as many descriptors as the system allows, and returns the number of receptions that have
/// room to wait.
fn room() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = WAITING_MAX as u64 + DESCRIPTORS;
    let wanted = maximum.map_or(wanted, |most| most.min(wanted));
    if current.is_some_and(|now| now < wanted) {
        // Fewer receptions wait without it.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
    let has = getrlimit(Resource::Nofile).current.unwrap_or(wanted).min(wanted);
    usize::try_from(has.saturating_sub(DESCRIPTORS)).unwrap_or(0).max(1)
}

#[derive(Debug)]
struct Supervisor {
    notifications: Arc<Notifications>,
    sockets: Sockets,
    hands: RefCell<Hands>,
    /// At most one for each thread, and `waiting_max`.
    waiting: Vec<Reception>,
    waiting_max: usize,
    /// The time of the last look at their threads.
    looked: Instant,
    /// The first one of the next look, by its place.
    looks_from: usize,
}

impl Supervisor {
    /// Answers calls until no program is left.
    fn serve(&mut self) -> io::Result<()> {
        loop {
            let (calls, ready) = self.wait()?;
            if calls.contains(PollFlags::IN) {
                match self.notifications.receive() {
                    Ok(notification) => self.perform(notification),
                    // The thread is gone, or a signal came.
                    Err(e) if matches!(Errno::from_io_error(&e), Some(Errno::NOENT | Errno::INTR)) => {}
                    Err(e) => return Err(e),
                }
            } else if !calls.is_empty() {
                return Ok(());
            }
            self.go_on(&ready);
        }
    }

    /// Waits for a call, or a message for one that waits. Returns the events of both.
    fn wait(&self) -> io::Result<(PollFlags, Vec<bool>)> {
        let mut fds = vec![PollFd::new(&*self.notifications, PollFlags::IN)];
        fds.extend(
            self.waiting.iter().map(|one| PollFd::from_borrowed_fd(one.socket.as_fd(), PollFlags::IN)),
        );
        let now = Instant::now();
        let ends = self.waiting.iter().filter_map(|one| one.until).map(|until| until - now).min();
        let limit = (!self.waiting.is_empty()).then(|| ends.map_or(LOOK, |end| end.min(LOOK)));
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        match poll(&mut fds, limit.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok((PollFlags::empty(), vec![false; self.waiting.len()])),
            Err(e) => return Err(e.into()),
        }
        let ready = fds[1..].iter().map(|fd| !fd.revents().is_empty()).collect();
        Ok((fds[0].revents(), ready))
    }

    /// Goes on with receptions that have a message, or whose time is over; ends those whose threads
    /// have a signal, and forgets those whose threads are gone.
    fn go_on(&mut self, ready: &[bool]) {
        let now = Instant::now();
        let mut looked_at = 0..0;
        if now.duration_since(self.looked) >= LOOK {
            let from = if self.looks_from < self.waiting.len() { self.looks_from } else { 0 };
            looked_at = from..from + LOOKED_AT;
            (self.looked, self.looks_from) = (now, looked_at.end);
        }
        for (at, one) in std::mem::take(&mut self.waiting).into_iter().enumerate() {
            if !self.notifications.waits(one.notification.id) {
                continue;
            }
            let is_due =
                ready.get(at).copied().unwrap_or(true) || one.until.is_some_and(|until| until <= now);
            if is_due {
                self.receive(one.notification, one.socket, one.until);
            } else if looked_at.contains(&at)
                && let Some(error) = self.interrupted(&one)
            {
                let _ = self.notifications.answer(one.notification.id, Err(error));
            } else {
                self.waiting.push(one);
            }
        }
    }

    /// Returns the error that ends a reception for a signal.
    fn interrupted(&self, one: &Reception) -> Option<i32> {
        let target = Target::new(&self.notifications, one.notification, &self.hands);
        target.interrupted(one.until.is_some())
    }

    /// Answers a call. A caller that is gone needs no answer.
    fn perform(&mut self, notification: Notification) {
        let Notification { id, call, arguments, .. } = notification;
        if call == libc::SYS_socket {
            let style = (arguments[1] & STYLE) as u32;
            let _ = match self.sockets.open(style, arguments[1] & NONBLOCK != 0) {
                Ok((socket, cookie)) => {
                    let given = self.notifications.give(id, &socket, arguments[1] & CLOEXEC != 0);
                    given.or_else(|e| {
                        self.sockets.forget(cookie);
                        self.notifications.answer(id, Err(number(&e)))
                    })
                }
                Err(e) => self.notifications.answer(id, Err(number(&e))),
            };
            return;
        }
        let target = Target::new(&self.notifications, notification, &self.hands);
        let socket = match target.socket(arguments[0], &self.sockets) {
            Ok(Some(socket)) => socket,
            Err(e) if Errno::from_io_error(&e) == Some(Errno::FAULT) => {
                let _ = self.notifications.answer(id, Err(libc::EFAULT));
                return;
            }
            // A program that may not be looked at has the kernel's answers.
            _ => {
                let _ = self.notifications.go_on(id);
                return;
            }
        };
        if matches!(call, libc::SYS_recvfrom | libc::SYS_recvmsg) {
            return self.receive(notification, socket, None);
        }
        let answer = answer(&target, &mut self.sockets, &notification, &socket);
        let _ = match answer {
            Some(answer) => self.notifications.answer(id, answer),
            None => self.notifications.go_on(id),
        };
    }

    fn receive(&mut self, notification: Notification, socket: OwnedFd, until: Option<Instant>) {
        let target = Target::new(&self.notifications, notification, &self.hands);
        let copy = socket.try_clone();
        let received = receive(&target, &mut self.sockets, notification, socket, until);
        match received {
            Ok(Received::Waits(reception)) if self.waiting.len() < self.waiting_max => {
                self.waiting.push(reception);
            }
            Ok(Received::Waits(_)) => {
                let _ = self.notifications.answer(notification.id, Err(libc::ENOBUFS));
            }
            Ok(Received::Done(message, result)) => {
                let answered = self.notifications.answer(notification.id, result);
                // A signal has interrupted the call: the program makes it again.
                if let (Err(_), Some(message), Ok(socket)) = (answered, message, copy) {
                    self.sockets.keep(&socket, message);
                }
            }
            Err(e) => {
                let _ = self.notifications.answer(notification.id, Err(number(&e)));
            }
        }
    }
}

/// Returns the number of an error.
fn number(e: &io::Error) -> i32 {
    e.raw_os_error().unwrap_or(libc::EIO)
}

/// Returns the answer to a call about one of the sockets; `None` if the kernel is to perform it.
fn answer(
    target: &Target<'_>,
    sockets: &mut Sockets,
    notification: &Notification,
    socket: &OwnedFd,
) -> Option<Answer> {
    let [_, second, third, fourth, fifth, _] = notification.arguments;
    let done = match notification.call {
        libc::SYS_bind => bind(target, sockets, socket, second),
        // The kernel is the only other side.
        libc::SYS_connect => Ok(()),
        libc::SYS_getsockname => write_address(target, second, third, sockets.port(socket)),
        libc::SYS_getpeername => write_address(target, second, third, 0),
        libc::SYS_setsockopt => set_option(target, socket, third, fourth),
        libc::SYS_getsockopt if second == u64::from(SOL_SOCKET) => {
            let value: u32 = match third {
                SO_TYPE => sockets.style(socket),
                SO_PROTOCOL => 0,
                SO_DOMAIN => 16,
                _ => return None,
            };
            let write = || {
                let room = usize::try_from(u32::from_ne_bytes(target.read(fifth)?)).unwrap_or(0).min(4);
                let size = u32::try_from(room).unwrap_or(0).to_ne_bytes();
                target.write(vec![(fourth, value.to_ne_bytes()[..room].to_vec()), (fifth, size.to_vec())])
            };
            write()
        }
        _ => Err(Errno::NOPROTOOPT.into()),
    };
    Some(done.map(|()| 0).map_err(|e| number(&e)))
}

/// Takes the port and the groups of an address.
fn bind(target: &Target<'_>, sockets: &mut Sockets, socket: &OwnedFd, at: u64) -> io::Result<()> {
    let address: [u8; 12] = target.read(at)?;
    let word = |at: usize| {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&address[at..at + 4]);
        u32::from_ne_bytes(bytes)
    };
    let (port, groups) = (word(4), word(8));
    if port != 0 {
        sockets.bind(socket, port)?;
    }
    // Bit 0 is the group 1.
    for group in (0..u32::BITS).filter(|bit| groups & (1 << bit) != 0).map(|bit| bit + 1) {
        tell(socket, Told::Join(group))?;
    }
    Ok(())
}

fn set_option(target: &Target<'_>, socket: &OwnedFd, option: u64, at: u64) -> io::Result<()> {
    if IGNORED.contains(&option) {
        return Ok(());
    }
    let value = u32::from_ne_bytes(target.read(at)?);
    tell(
        socket,
        match option {
            ADD_MEMBERSHIP => Told::Join(value),
            DROP_MEMBERSHIP => Told::Leave(value),
            CAP_ACK => Told::CapAck(value != 0),
            EXT_ACK => Told::ExtAck(value != 0),
            _ => return Err(Errno::NOPROTOOPT.into()),
        },
    )
}
