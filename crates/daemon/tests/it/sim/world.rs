//! `World`: all that is outside of the daemon in virtual time, in one place behind one lock: the
//! clock, the connections, the interfaces, the disk, and the random numbers that move them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use txweir_core::base::rng::Rng;

use super::cards::Cards;
use super::clients::Client;
use super::conns::Conn;
use super::disk::Disk;
use super::plan::{Lie, Plan};

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
pub const SEC: u64 = 1_000_000_000;

/// The way in which a life of the daemon ends, or is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// SIGTERM.
    Terminate,
    /// SIGHUP, with a configuration of this sort.
    Hangup(Edit),
    /// SIGKILL: the memory of the process is gone, the files stay.
    Kill,
    /// A loss of power: files are what the disk had.
    PowerLoss,
    /// Time for a check at rest.
    Rest,
}

/// The sort of a configuration that is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The file as it is.
    Saved,
    /// New lines that are right.
    Good,
    /// Right lines, and a wrong one.
    Broken,
}

/// A handle to the world.
#[derive(Clone, Debug)]
pub struct Shared(Arc<Mutex<World>>);

impl Shared {
    pub fn new(world: World) -> Self {
        Self(Arc::new(Mutex::new(world)))
    }
    pub fn lock(&self) -> MutexGuard<'_, World> {
        // After a failed check the world is still there to be told about.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The world.
#[derive(Debug)]
pub struct World {
    pub plan: Plan,
    pub rng: Rng,
    /// The time that the daemon's clock shows.
    pub now: u64,
    /// Steps so far: events of the world, and rounds of the daemon's loop.
    pub steps: u64,
    pub rounds: u64,
    /// FNV-1a over all that happened.
    pub hash: u64,
    /// Rounds for which the clock will stand still.
    pub stopped: u32,
    /// The time until which the system has no descriptors left.
    pub exhausted_until: u64,
    /// The time until which the daemon accepts no connection, because the last one failed.
    pub no_accept_until: u64,
    /// True while nothing new happens, and all that is under way ends.
    pub calm: bool,
    /// True once the daemon waited for nothing but the end of time, while the world was calm.
    pub idle: bool,
    pub blow: Option<Blow>,
    /// Connections that wait to be accepted.
    pub backlog: VecDeque<usize>,
    pub conns: BTreeMap<usize, Conn>,
    pub next_conn: usize,
    pub clients: Vec<Client>,
    pub cards: Cards,
    pub disk: Disk,
    /// The last number for a pair of qdiscs that change together.
    pub pairs: u64,
    pub facts: Facts,
    /// Configurations that clients were given, to be saved.
    pub saves: Vec<String>,
    /// Waits in a row that ended at once for no reason.
    pub spins: u32,
    /// A lie for which the world has an occasion left.
    pub lie: Option<Lie>,
}

/// Counts of what was done, to show that a run did something.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    pub requests: u64,
    pub replies: u64,
    pub refusals: u64,
    pub frames_in: u64,
    pub frames_out: u64,
    pub ordered: u64,
    pub saves: u64,
    pub failed_saves: u64,
    pub kills: u64,
    pub power_losses: u64,
    pub reloads: u64,
    pub refused_reloads: u64,
    pub terminations: u64,
    pub rests: u64,
    pub made_way: u64,
    pub accept_faults: u64,
    pub open_faults: u64,
    pub gone: u64,
    pub back: u64,
    /// Starts at which a link waited for its interface.
    pub waited: u64,
    pub lost_sends: u64,
    pub full_sends: u64,
    /// Most bytes that the daemon and the world held.
    pub memory: i64,
    /// Packets of `link send led` that were confirmed in this life, and those in doubt.
    pub sent: u64,
    pub doubtful: u64,
}

impl World {
    /// Notes an event in the hash.
    pub fn note(&mut self, what: u64, bytes: &[u8]) {
        let mut hash = self.hash;
        for byte in what.to_le_bytes().iter().chain(bytes) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self.hash = hash;
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.rng.below(n) == 0
    }

    /// Returns a number from `low` to `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.rng.below(high - low + 1)
    }

    /// Returns true once, if the world has this lie to tell and an occasion for it.
    pub fn lies(&mut self, lie: Lie) -> bool {
        // The first occasions are left alone: there is not much to be found then.
        let told = self.lie == Some(lie) && self.steps > 2_000 && self.once_in(20);
        if told && lie.is_told_once() {
            self.lie = None;
        }
        told
    }
}
