//! The common parts of the two experiments with DragonFly BSD (2013): one host in detail, two
//! peers, and connections between them by the lab's TCP (`txweir-transport`, as of RFC 6675).

mod egress;
mod link;
mod machine;
mod packet;

use std::num::NonZeroUsize;
use std::thread;

pub(super) use machine::{Machine, Setup};

use txweir_lab::workers;

/// Does `jobs` independent runs, at most one for each processor at a time. Returns their results in
/// order: the same on any machine.
pub(super) fn each<T: Send>(
    jobs: usize,
    run: impl Fn(usize) -> Result<T, String> + Sync,
) -> Result<Vec<T>, String> {
    let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    workers::run(jobs, threads, |job, _| run(job), &mut |_| {})
}
