//! Bugs of a rate that threads share, as edits of `law/lease.rs`, each with the models of
//! `loom_lease.rs` that must fail with it. `cargo xtask test` applies them to a copy, one at a time
//! (`xtask/src/planted.rs`).

use super::{Bug, Edit};

const FILE: &str = "src/law/lease.rs";

/// The bugs.
pub const BUGS: &[Bug] = &[
    // The bucket's time is taken by a load and a store.
    Bug {
        name: "torn_add",
        file: FILE,
        edits: &[Edit {
            old: "        clock.fetch_add(want, Ordering::Relaxed).saturating_add(want)",
            new: "\
        let end = clock.load(Ordering::SeqCst).saturating_add(want);
        clock.store(end, Ordering::SeqCst);
        end",
        }],
        models: &[
            "two_backlogged_queues_lose_nothing_and_make_nothing",
            "three_backlogged_queues_lose_nothing_and_make_nothing",
        ],
    },
    // Time is returned by a load and a store.
    Bug {
        name: "torn_return",
        file: FILE,
        edits: &[Edit {
            old: "            self.shared.clock.0.fetch_add(-held, Ordering::Relaxed);",
            new: "\
            let clock = self.shared.clock.0.load(Ordering::SeqCst);
            self.shared.clock.0.store(clock - held, Ordering::SeqCst);",
        }],
        models: &["what_is_given_back_is_neither_lost_nor_there_twice"],
    },
    // The clock is raised by a load and a store.
    Bug {
        name: "torn_raise",
        file: FILE,
        edits: &[Edit {
            old: "            clock.fetch_max(full, Ordering::Relaxed);",
            new: "\
            let raised = clock.load(Ordering::SeqCst).max(full);
            clock.store(raised, Ordering::SeqCst);",
        }],
        models: &[
            "two_backlogged_queues_lose_nothing_and_make_nothing",
            "three_backlogged_queues_lose_nothing_and_make_nothing",
        ],
    },
    // Rate and depth are written and read without an order.
    Bug {
        name: "unordered",
        file: FILE,
        edits: &[
            Edit {
                old: "self.version.exchange(version, version + 1, Ordering::Acquire)",
                new: "self.version.exchange(version, version + 1, Ordering::Relaxed)",
            },
            Edit {
                old: "self.rate.store(rate, Ordering::Release);",
                new: "self.rate.store(rate, Ordering::Relaxed);",
            },
            Edit {
                old: "self.depth.store(depth, Ordering::Release);",
                new: "self.depth.store(depth, Ordering::Relaxed);",
            },
            Edit {
                old: "self.version.store(version + 2, Ordering::Release);",
                new: "self.version.store(version + 2, Ordering::Relaxed);",
            },
            Edit {
                old: "let version = self.version.load(Ordering::Acquire);",
                new: "let version = self.version.load(Ordering::Relaxed);",
            },
            Edit {
                old: "let rate = self.rate.load(Ordering::Acquire);",
                new: "let rate = self.rate.load(Ordering::Relaxed);",
            },
            Edit {
                old: "let depth = self.depth.load(Ordering::Acquire);",
                new: "let depth = self.depth.load(Ordering::Relaxed);",
            },
        ],
        models: &["a_change_is_whole"],
    },
];
