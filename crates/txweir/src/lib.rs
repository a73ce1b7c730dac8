//! The transmit side of a network stack, as a library: a queueing discipline in front of a device,
//! a byte limit that learns how much the device needs in flight, and back-pressure to the sender
//! instead of silent drops.
//!
//! A [`TxPath`] is one transmit queue. It is a value: it has no thread, no clock and no I/O of its
//! own. You hand it packets and the time; it hands packets to your device, as many as the device
//! has promised to take:
//!
//! ```
//! use txweir::{Admitted, Instant, Meta, PathConfig, TxPath, Wake, testing::VecDevice};
//!
//! // The device: anything that implements `TxQueue`. This one has 4 slots and a list.
//! let mut device = VecDevice::with_slots(4);
//! let mut path = TxPath::new(PathConfig::default())?.with_qdisc("pfifo", &["limit", "2"])?;
//! let now = Instant::ZERO;
//!
//! // The first packet goes straight to the device; the path has yet to learn how much more the
//! // device needs, so the next two wait. Then the queue is full, and the packet comes back to its
//! // sender.
//! assert_eq!(path.submit(now, "a", Meta::new(1500), &mut device), Admitted::Sent);
//! assert_eq!(path.submit(now, "b", Meta::new(1500), &mut device), Admitted::Queued);
//! assert_eq!(path.submit(now, "c", Meta::new(1500), &mut device), Admitted::Queued);
//! assert_eq!(path.submit(now, "d", Meta::new(1500), &mut device), Admitted::Full("d"));
//! assert_eq!(path.drain(now, 64, &mut device), Wake::Device);
//!
//! // The device finishes one: the path learns from it, sends a waiting packet, and wakes
//! // the sender.
//! device.finish(1);
//! path.reap(now, &mut device, |_frame| {});
//! assert_eq!(path.drain(now, 64, &mut device), Wake::Idle);
//! assert!(path.take_wake());
//! assert_eq!(device.sent(), ["a", "b", "c"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The language of Linux's tc(8) says which packets wait, and in which order they leave:
//!
//! ```
//! use txweir::{Env, PathConfig, TxPath, Instant, tc::{Policy, show}, testing::VecDevice};
//!
//! let policy = Policy::parse("
//!     qdisc add root handle 1: tbf rate 20mbit burst 16kb latency 50ms
//!     qdisc add parent 1:1 fq_codel
//! ", "uplink.tc")?;
//! let mut device = VecDevice::<Vec<u8>>::with_slots(4);
//! let mut path = TxPath::new(PathConfig::default())?;
//! path.configure(Instant::ZERO, &mut device, |tree, cx| policy.apply(tree, cx))?;
//! print!("{}", show::text(path.tree(), Some("uplink"), true));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `examples/backpressure.rs` replaces a bounded channel by a path; `examples/smoltcp_device.rs`
//! puts one behind any smoltcp device. `examples/fairsend_smoltcp.rs` and
//! `examples/fairsend_quinn.rs` let sockets and connections take turns (`core::turns`).
//!
//! [`prelude`] has the names that most programs use, for `use txweir::prelude::*`. A glob import of
//! this crate's root would shadow Rust's `core` by [`core`].
//!
//! Features: `kinds`, on by default, has all kinds of qdiscs; without it there are the FIFO kinds,
//! prio, tbf, etf, codel, fq_codel and those that divide a device's queues. `lab` adds virtual time
//! with hosts that speak real TCP, `kernel` hosts of it that are a Linux kernel, `handoff` a queue
//! that many threads send by, `udp`, `smoltcp` and `quinn` ready devices, `live` packet I/O on
//! Linux, `daemon` links that tc commands change while they run, `lint` a linter for policies of
//! Linux's tc.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub use txweir_core as core;
#[cfg(feature = "daemon")]
pub use txweir_daemon as daemon;
#[cfg(feature = "live")]
pub use txweir_device as device;
#[cfg(feature = "handoff")]
pub use txweir_handoff as handoff;
#[cfg(feature = "kernel")]
pub use txweir_kernel as kernel;
#[cfg(feature = "lab")]
pub use txweir_lab as lab;
#[cfg(feature = "lint")]
pub use txweir_lint as lint;
#[cfg(feature = "live")]
pub use txweir_runtime as runtime;
pub use txweir_tc as tc;

pub mod ports;
#[cfg(feature = "quinn")]
pub mod quinn;
#[cfg(feature = "smoltcp")]
pub mod smoltcp;
#[cfg(feature = "udp")]
pub mod udp;

pub use txweir_core::{
    Admitted, Bytes, ClassId, Completed, ConfigError, DeviceError, Dql, DqlConfig, DropReason, Ecn, Env,
    ErrorKind, Handle, Instant, MarkReason, Meta, Nanos, NoDevice, Packets, PathConfig, Rate, Role, Tally,
    Tree, TxPath, TxQueue, Unit, Wake, WakeReason, model::testing,
};

/// The names that most programs use. None of them is that of a crate, so that
/// `use txweir::prelude::*` hides neither Rust's `core` nor another crate.
///
/// ```
/// use txweir::prelude::*;
///
/// let path = TxPath::<Vec<u8>>::new(PathConfig::default())?;
/// assert_eq!(core::mem::size_of_val(&path.backlog()), core::mem::size_of::<Tally>());
/// assert!("1:2:3".parse::<Handle>().is_err());
/// let handle = "1:2".parse::<Handle>()?;
/// assert_eq!(handle, Handle::new(1, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub mod prelude {
    pub use txweir_core::{
        Admitted, Bytes, ClassId, Completed, ConfigError, DeviceError, Dql, DqlConfig, DropReason, Ecn, Env,
        ErrorKind, Handle, Instant, MarkReason, Meta, Nanos, NoDevice, Packets, PathConfig, Rate, Role,
        Tally, Tree, TxPath, TxQueue, Unit, Wake, WakeReason,
    };
}
