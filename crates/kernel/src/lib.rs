//! Hosts of the lab whose stack is a Linux kernel: User-Mode Linux in the lab's time.
//!
//! A scenario asks for such a host by `stack = "linux"`. [`Kernel`] boots one kernel a host and is
//! its [`Machine`](txweir_lab::machine::Machine): it is the kernel's calendar
//! (`time-travel=ext`), so that the kernel runs when the lab says so and at the lab's time, and its
//! network card (vhost-user), so that its packets pass through the queues and the links of the lab.
//! In the kernel, [`work`] is process 1: it sets up the interface, and does what the plan says with
//! sockets.
//!
//! A kernel reads its host's files, writes to one folder of its own, and needs no privilege. Two
//! runs of a scenario are the same, byte for byte, as long as program, kernel and files are the
//! same.

mod agent;
mod clock;
mod folder;
mod kernel;
mod packet;

pub use agent::work;
pub use kernel::{Kernel, Program};
