//! Independent jobs on several threads, with results in the order of the jobs.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use txweir_core::Nanos;

/// A message of a thread.
enum News<T> {
    /// This amount of virtual time is over.
    Advanced(Nanos),
    /// The job of that number is done.
    Done(usize, T),
}

/// Does each job once, on at most `threads` threads, and returns the results in the order of the
/// jobs; or the error of the first job that fails, whatever the number of threads. A job reports
/// the virtual time that it has advanced; `progress` gets the sum, on this thread. After an error
/// no job begins.
///
/// # Errors
/// Returns the error of the first job, in their order, that has failed.
pub fn run<T: Send, E: Send>(
    jobs: usize,
    threads: NonZeroUsize,
    work: impl Fn(usize, &mut dyn FnMut(Nanos)) -> Result<T, E> + Sync,
    progress: &mut dyn FnMut(Nanos),
) -> Result<Vec<T>, E> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut results: Vec<Option<Result<T, E>>> = (0..jobs).map(|_| None).collect();
    thread::scope(|scope| {
        let (sender, news) = mpsc::channel();
        for _ in 0..threads.get().min(jobs) {
            let (sender, next, failed, work) = (sender.clone(), &next, &failed, &work);
            scope.spawn(move || {
                while !failed.load(Ordering::Relaxed) {
                    let job = next.fetch_add(1, Ordering::Relaxed);
                    if job >= jobs {
                        break;
                    }
                    // The receiver outlives this thread unless its own thread panics, which ends
                    // all threads.
                    let result = work(job, &mut |by| drop(sender.send(News::Advanced(by))));
                    failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    drop(sender.send(News::Done(job, result)));
                }
            });
        }
        drop(sender);
        let mut over = Nanos(0);
        for told in news {
            match told {
                News::Advanced(by) => {
                    over = Nanos(over.0.saturating_add(by.0));
                    progress(over);
                }
                News::Done(job, result) => results[job] = Some(result),
            }
        }
    });
    // Jobs begin in order: all jobs before one that failed are done.
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(n: usize) -> NonZeroUsize {
        NonZeroUsize::new(n).unwrap_or(NonZeroUsize::MIN)
    }

    #[test]
    fn results_are_in_order_and_progress_is_their_sum() {
        for n in [1, 2, 7, 100] {
            let mut seen = Vec::new();
            let squares = run(
                20,
                threads(n),
                |job, advanced| {
                    advanced(Nanos(1));
                    advanced(Nanos(2));
                    Ok::<_, ()>(job * job)
                },
                &mut |over| seen.push(over.0),
            );
            assert_eq!(squares, Ok((0..20).map(|job| job * job).collect()));
            assert!(seen.is_sorted() && seen.last() == Some(&60) && seen.len() == 40, "{seen:?}");
        }
    }

    #[test]
    fn the_first_error_is_told_and_jobs_after_it_may_not_begin() {
        for n in [1, 2, 7] {
            let begun = AtomicUsize::new(0);
            let failed = run(
                1000,
                threads(n),
                |job, _| {
                    begun.fetch_add(1, Ordering::Relaxed);
                    if job == 3 || job == 4 { Err(job) } else { Ok(job) }
                },
                &mut |_| {},
            );
            assert_eq!(failed, Err(3));
            assert!(n > 1 || begun.into_inner() == 4);
        }
        assert_eq!(run(0, threads(2), |_, _| Ok::<u8, ()>(1), &mut |_| {}), Ok(vec![]));
    }
}
