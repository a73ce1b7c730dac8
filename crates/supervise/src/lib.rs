//! Runs a program whose rtnetlink sockets are connections to txweir's daemon: the program needs no
//! change, no privilege and no library.
//!
//! A filter of system calls (seccomp_unotify(2)) tells a supervisor each call that makes an
//! rtnetlink socket, and those that would show that a socket is none. It answers
//! `socket(AF_NETLINK, .., NETLINK_ROUTE)` with a Unix socket of packets that is connected to the
//! daemon, and the others as netlink would. Messages themselves pass without it. Sockets of other
//! families, and of netlink's other protocols, are the kernel's.
//!
//! The filter holds for all that the program starts. It grants nothing: a program can do to its own
//! sockets only what it could do to the daemon's socket, which its user may use.
//!
//! A hostile program finds a supervisor that does not hang, and that holds at most 1024 receptions
//! that wait (each with one descriptor), 4096 sockets known by their numbers, 64 kept messages of
//! 256 KiB, and 8 threads with stacks of 64 KiB. It can end the supervisor by kill(2), as any
//! process of its user.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod filter;
mod hands;
mod receive;
mod sockets;
mod supervisor;
mod sys;
mod target;

pub use supervisor::run;
