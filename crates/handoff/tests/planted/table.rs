//! Bugs of hand-overs between threads, as edits of this crate's source, each with the models of
//! `loom_handoff.rs` that must fail with it. `cargo xtask test` applies one at a time to a copy of
//! the crate (`xtask/src/planted.rs`).

use super::{Bug, Edit};

/// The bugs.
pub const BUGS: &[Bug] = &[
    // The flag is set before the packet is in the list.
    Bug {
        name: "flag_first",
        file: "src/queue/send.rs",
        edits: &[Edit {
            old: "\
        let appended = self.list.push(item, detail)?;
        // The consumer",
            new: "\
        let _ = self.runner.call(WORK, \"list\");
        if true {
            return self.list.push(item, detail).map(drop);
        }
        let appended = self.list.push(item, detail)?;
        // The consumer",
        }],
        models: &[
            "a_packet_beside_the_end_of_a_run_is_sent",
            "a_worker_is_told_of_everything",
            "the_bias_is_taken_away_beside_its_use",
        ],
    },
    // A failed try-lock leaves the packet in the list and calls no thread.
    Bug {
        name: "no_flag",
        file: "src/queue/send.rs",
        edits: &[Edit {
            old: "\
        let appended = self.list.push(item, detail)?;
        // The consumer",
            new: "\
        let appended = self.list.push(item, detail)?;
        if let Some(turn) = self.runner.baton.try_take() {
            let _ = self.runner.run(turn, \"list\", false);
        }
        if true {
            return Ok(());
        }
        // The consumer",
        }],
        models: &["a_packet_beside_the_end_of_a_run_is_sent", "the_bias_is_taken_away_beside_its_use"],
    },
    // Flags are cleared after the list was looked at.
    Bug {
        name: "clear_late",
        file: "src/queue/run.rs",
        edits: &[
            Edit {
                old: "        if turn.flags().has(CALLS) {\n            calls = turn.clear(CALLS);",
                new: "        if false {\n            calls = turn.clear(CALLS);",
            },
            Edit {
                old: "        let more = turn.is_ready() || turn.may_go_on();",
                new: "        let more = turn.is_ready() || turn.may_go_on();\n        turn.clear(CALLS);",
            },
        ],
        models: &[
            "a_packet_beside_the_end_of_a_run_is_sent",
            "a_completion_beside_a_stop_is_seen",
            "a_wake_while_frozen_is_not_lost",
            "nothing_goes_into_the_device_while_it_is_reset",
        ],
    },
    // No full barrier between publishing and looking whether the other side rests.
    Bug {
        name: "no_barrier",
        file: "src/sync.rs",
        edits: &[Edit {
            old: "pub(crate) fn barrier() {\n    fence(Ordering::SeqCst);\n}",
            new: "pub(crate) fn barrier() {}",
        }],
        models: &[
            "a_flag_that_is_set_already_is_relied_on",
            "neither_side_of_a_ring_sleeps_past_the_other",
            "who_waits_for_its_turn_is_told",
            "a_greater_quota_beside_who_waits_is_told",
        ],
    },
    // A lone packet goes directly past those in the list.
    Bug {
        name: "overtake",
        file: "src/queue/send.rs",
        edits: &[Edit {
            old: "if !o.is_listed() && (self.runner.rules.poll.is_none() || o.timer != NEVER) {",
            new: "if self.runner.rules.poll.is_none() || o.timer != NEVER {",
        }],
        models: &["nobody_overtakes_itself"],
    },
    // The thread that leaves puts the queue down whatever flags are set.
    Bug {
        name: "blind_leave",
        file: "src/baton.rs",
        edits: &[Edit {
            old: "        let (taken, free) = (TAKEN | behind.0, behind.0);",
            new: "        if true {\n            return Ok(());\n        }\n\
                  \x20       let (taken, free) = (TAKEN | behind.0, behind.0);",
        }],
        models: &["a_packet_beside_the_end_of_a_run_is_sent", "a_completion_beside_a_stop_is_seen"],
    },
    // The last numbers are published without a version.
    Bug {
        name: "torn",
        file: "src/snapshot.rs",
        edits: &[Edit {
            old: "        let version = self.version.load(Ordering::Relaxed);\n        self.version.store",
            new: "\
        let version = self.version.load(Ordering::Relaxed);
        if true {
            self.words.iter().zip(words).for_each(|(word, value)| word.store(*value, Ordering::Relaxed));
            return;
        }
        self.version.store",
        }],
        models: &["a_snapshot_is_never_torn"],
    },
    // A sender that waits says so before it can be found.
    Bug {
        name: "wait_first",
        file: "src/queue.rs",
        edits: &[
            Edit {
                old: "    pub fn when_room(&self, wakeup: Wakeup) {",
                new: "\
    pub fn when_room(&self, wakeup: Wakeup) {
        let _ = self.runner.call(WAITING.and(WORK), \"waiting\");",
            },
            Edit {
                old: "\
        // The holder of the queue then sees that a sender waits. Without a holder, this call looks
        // whether there is room by now.
        let _ = self.runner.call(WAITING.and(WORK), \"waiting\");
",
                new: "",
            },
        ],
        models: &["who_waits_for_room_is_told"],
    },
    // The senders behind the first wait for packets that do not come.
    Bug {
        name: "first_only",
        file: "src/owned.rs",
        edits: &[Edit {
            old: "let least = if self.is_idle() { u64::from(BULK) } else { 0 };",
            new: "let least = 0;",
        }],
        models: &["each_who_waits_is_told_although_none_sends"],
    },
    // The next run does not know of the senders that still wait.
    Bug {
        name: "rest_forgotten",
        file: "src/queue/run.rs",
        edits: &[Edit { old: "            self.baton.flag(WAITING);\n", new: "" }],
        models: &["each_who_waits_is_told_although_none_sends"],
    },
    // The owner's plain stores are not followed by a barrier.
    Bug {
        name: "no_light_barrier",
        file: "src/sync.rs",
        edits: &[Edit { old: "    #[cfg(loom)]\n    fence(Ordering::SeqCst);\n", new: "" }],
        models: &["the_bias_is_taken_away_beside_its_use"],
    },
    // The thread that takes the bias away does not have the owner pass a barrier.
    Bug {
        name: "light_revoke",
        file: "src/baton/bias.rs",
        edits: &[Edit { old: "        heavy_barrier();\n", new: "" }],
        models: &["the_bias_is_taken_away_beside_its_use"],
    },
    // The thread that finds the owner in does not leave word that the turn is the owner's.
    Bug {
        name: "owner_forgotten",
        file: "src/baton/bias.rs",
        edits: &[Edit {
            old: "        let mut word = self.state.load(Ordering::Acquire);\n        while word & BIASED != 0 {",
            new: "\
        if true {
            self.state.fetch_and(!BIASED, Ordering::AcqRel);
            return None;
        }
        let mut word = self.state.load(Ordering::Acquire);
        while word & BIASED != 0 {",
        }],
        models: &[
            "the_bias_is_taken_away_beside_its_use",
            "two_who_ask_for_the_bias_at_once",
            "a_completion_beside_the_owner_is_seen",
        ],
    },
    // A worker says that it waits for its turn before it has left word how to tell it.
    Bug {
        name: "turn_first",
        file: "src/fair.rs",
        edits: &[
            Edit {
                old: "        if let Ok(mut waiter) = self.account.waiter.lock() {",
                new: "\
        self.account.waits.store(1, Ordering::Release);
        self.account.tell();
        if let Ok(mut waiter) = self.account.waiter.lock() {",
            },
            Edit {
                old: "        }\n        self.account.waits.store(1, Ordering::Release);\n        self.account.tell();\n",
                new: "        }\n",
            },
        ],
        models: TURNS,
    },
    // A worker looks whether it may send, and only then says that it waits.
    Bug {
        name: "look_first",
        file: "src/fair.rs",
        edits: &[
            Edit {
                old: "        if let Ok(mut waiter) = self.account.waiter.lock() {",
                new: "        self.account.tell();\n        if let Ok(mut waiter) = self.account.waiter.lock() {",
            },
            Edit {
                old: "        }\n        self.account.waits.store(1, Ordering::Release);\n        self.account.tell();\n",
                new: "        }\n        self.account.waits.store(1, Ordering::Release);\n",
            },
        ],
        models: TURNS,
    },
    // A worker that is given a packet back stays charged for it.
    Bug {
        name: "debt_kept",
        file: "src/fair.rs",
        edits: &[Edit {
            old: "                Admitted::Full(owed) => Admitted::Full(owed.frame),",
            new: "\
                Admitted::Full(Owed { frame, debt }) => {
                    std::mem::forget(debt);
                    Admitted::Full(frame)
                }",
        }],
        models: &["what_was_counted_comes_back_from_everywhere"],
    },
    // A queue is said to be frozen before it is.
    Bug {
        name: "freeze_late",
        file: "src/queue/control.rs",
        edits: &[Edit {
            old: "\
        self.post(|o| {
            o.freeze();
            frozen();
        });",
            new: "        frozen();\n        self.post(|o| o.freeze());",
        }],
        models: &["nothing_goes_into_the_device_while_it_is_reset"],
    },
    // A queue is thawed and not run.
    Bug {
        name: "thaw_quietly",
        file: "src/queue/control.rs",
        edits: &[Edit {
            old: "        self.post(|o| o.thaw());",
            new: "        if let Some(mut turn) = self.0.runner.baton.try_take() {\n            turn.thaw();\n        }",
        }],
        models: &["nothing_goes_into_the_device_while_it_is_reset"],
    },
];

/// The models of a worker that waits for its turn.
const TURNS: &[&str] = &[
    "who_waits_for_its_turn_is_told",
    "two_who_wait_for_their_turns_are_told",
    "a_greater_quota_beside_who_waits_is_told",
];
