//! Bugs that others have made, planted one at a time so that the models can be seen to find them.

use std::sync::atomic::{AtomicU32, Ordering};

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Bug {
    /// None.
    None,
    /// The flag is set before the packet is in the list.
    FlagFirst,
    /// A failed try-lock leaves the packet in the list and tells nobody.
    NoFlag,
    /// Flags are cleared after the list was looked at.
    ClearLate,
    /// No full barrier between publishing and looking whether the other side rests.
    NoBarrier,
    /// A lone packet goes directly past those in the list.
    Overtake,
    /// Whoever leaves puts the queue down whatever flags are set.
    BlindLeave,
    /// The last numbers are published without a version.
    Torn,
    /// A sender that waits says so before it can be found.
    WaitFirst,
    /// The owner's plain stores are not followed by a barrier.
    NoLightBarrier,
    /// Who takes the bias away does not have the owner pass a barrier.
    LightRevoke,
    /// Who finds the owner in does not leave word that the turn is the owner's.
    OwnerForgotten,
    /// A worker says that it waits for its turn before it has left word how to tell it.
    TurnFirst,
    /// A worker looks whether it may send, and only then says that it waits.
    LookFirst,
    /// What a worker was counted for a packet that was given back stays counted.
    DebtKept,
    /// A queue is said to be frozen before it is.
    FreezeLate,
    /// A queue is thawed and not run.
    ThawQuietly,
}

static PLANTED: AtomicU32 = AtomicU32::new(0);

/// Plants a bug, for all models that run from now on.
pub fn plant(bug: Bug) {
    PLANTED.store(bug as u32, Ordering::SeqCst);
}

pub(crate) fn is(bug: Bug) -> bool {
    PLANTED.load(Ordering::SeqCst) == bug as u32
}
