//! Output of filters and actions for people: samples of packets, into a capture file, and lines,
//! into a log.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use txweir_core::packet::pcapng::{Block, OPT_COMMENT};
use txweir_core::{Instant, Meta};

use crate::log::{Level, Log, Stamp};

/// Default bound of a file of samples, bytes.
pub const SAMPLES_MAX: u64 = 64 << 20;
/// Most groups of samples: each is an interface of the file.
const GROUPS_MAX: usize = 256;

/// The destinations of samples and lines. Several threads may have them together
/// ([`share`](Self::share)): samples and lines are rare, and each is written whole.
pub struct Notes(Arc<Mutex<Out>>);

/// The file of samples, and the log.
struct Out {
    samples: Option<Samples>,
    log: Log,
}

/// The fates of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleCounts {
    /// Samples written.
    pub written: u64,
    /// Samples not written: the file had no room, there was a group too many, or writing failed.
    pub dropped: u64,
}

/// A file of samples.
struct Samples {
    file: Box<dyn Write + Send>,
    /// Bytes that the file may still grow.
    left: u64,
    /// Nanoseconds to add to a time of the loop's clock for a time of day.
    day: u64,
    /// Interface and number of packets of each group.
    groups: BTreeMap<u32, (u32, u64)>,
    counts: SampleCounts,
}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notes").field("samples", &self.sampled()).finish_non_exhaustive()
    }
}

impl Default for Notes {
    /// Returns notes whose lines go to the standard error, and whose samples are discarded.
    fn default() -> Self {
        Self::new(Box::new(io::stderr()))
    }
}

impl Notes {
    /// Makes notes whose lines go to `log`, and whose samples are discarded.
    #[must_use]
    pub fn new(log: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(Out { samples: None, log: Log::new(log) })))
    }

    /// Returns the same destinations, for another thread.
    #[must_use]
    pub fn share(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    fn out(&self) -> MutexGuard<'_, Out> {
        // A panic of another thread leaves at most one line unfinished.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Directs samples into a new file of that name, of at most `max` bytes. The loop's clock shows
    /// `now`.
    ///
    /// # Errors
    /// The file cannot be made, or it is no ordinary file, for which a loop might have to wait.
    pub fn samples_to(&mut self, path: &Path, max: u64, now: Instant) -> io::Result<()> {
        // The check comes before the open: opening a pipe would wait for its reader.
        if path.metadata().is_ok_and(|there| !there.is_file()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected an ordinary file"));
        }
        let file = File::create(path)?;
        let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let day = u64::try_from(day).unwrap_or(u64::MAX).saturating_sub(now.0);
        self.samples_into(Box::new(file), max, day)
    }

    /// Directs samples into `file`, at most `max` bytes. A time of day is the loop's time plus
    /// `day_ns`.
    ///
    /// # Errors
    /// Those of writing.
    pub fn samples_into(&mut self, mut file: Box<dyn Write + Send>, max: u64, day_ns: u64) -> io::Result<()> {
        let section = Block::section("txweir").bytes();
        file.write_all(&section)?;
        let left = max.saturating_sub(section.len() as u64);
        let (groups, counts) = (BTreeMap::new(), SampleCounts::default());
        self.out().samples = Some(Samples { file, left, day: day_ns, groups, counts });
        Ok(())
    }

    /// Returns the fates of samples, if they are written anywhere.
    #[must_use]
    pub fn sampled(&self) -> Option<SampleCounts> {
        self.out().samples.as_ref().map(|samples| samples.counts)
    }

    /// Takes a sample.
    pub fn sample(&mut self, now: Instant, group: u32, rate: u32, frame: &[u8], m: &Meta) {
        let mut out = self.out();
        let Some(samples) = &mut out.samples else { return };
        match samples.write(now, group, rate, frame, m) {
            true => samples.counts.written += 1,
            false => samples.counts.dropped += 1,
        }
    }

    /// Takes a line of a `simple` action, with the number of the packet, as Linux writes it.
    pub fn say(&mut self, now: Instant, text: &str, count: u64) {
        self.line(now, Level::Info, "simple", &format!("{text}_{count}"));
    }

    /// Takes a line of the log: see [`Log::line`].
    pub fn line(&mut self, now: Instant, level: Level, origin: &str, text: &str) {
        self.out().log.line(now, level, origin, text);
    }

    /// Takes a text of several lines: see [`Log::text`].
    pub fn text(&mut self, level: Level, text: &str) {
        self.out().log.text(level, text);
    }

    /// Sets the text ahead of each line of the log.
    pub fn set_stamp(&mut self, stamp: Stamp) {
        self.out().log.set_stamp(stamp);
    }
}

impl Samples {
    /// Writes a sample. Returns true if it was written.
    fn write(&mut self, now: Instant, group: u32, rate: u32, frame: &[u8], m: &Meta) -> bool {
        let (interface, number) = match self.groups.get(&group) {
            Some(known) => *known,
            None if self.groups.len() >= GROUPS_MAX => return false,
            None => {
                let interface = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
                if !self.put(&Block::interface(&format!("group {group}"), 0).bytes()) {
                    return false;
                }
                self.groups.insert(group, (interface, 0));
                (interface, 0)
            }
        };
        let comment = format!("group {group} rate 1/{rate} seq {number}");
        let at = self.day.saturating_add(now.0);
        let block = Block::packet(interface, at, frame, m.len).option(OPT_COMMENT, comment.as_bytes());
        let written = self.put(&block.bytes());
        if written && let Some(known) = self.groups.get_mut(&group) {
            known.1 += 1;
        }
        written
    }

    /// Writes all bytes or, if they exceed the room, none. After an error it writes nothing more.
    fn put(&mut self, bytes: &[u8]) -> bool {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else { return false };
        let written = self.file.write_all(bytes).is_ok();
        // A reader could not parse anything behind a part of a block.
        self.left = if written { left } else { 0 };
        written
    }
}
