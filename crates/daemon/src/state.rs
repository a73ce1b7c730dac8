//! The state of a daemon as a file: the text of `tc save` with a last line that proves it whole.
//!
//! A [`Keeper`] writes it some time after each change, on a thread of its own, because the disk may
//! take long and packets go on meanwhile. The file is replaced whole ([`crate::whole`]).

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;

use txweir_core::{Instant, Nanos};

use crate::daemon::Daemon;
use crate::whole::write_whole;

/// The name of the file in its directory.
pub const NAME: &str = "state.tc";
/// Most bytes of the file: those of some million circuits. The file is the daemon's own, so that it
/// may be longer than a configuration.
const BYTES_MAX: u64 = 1 << 30;
/// Least time between two saves: changes of one moment are one save.
const GAP: Nanos = Nanos::from_millis(200);
/// Time from a save that failed to the next one.
const RETRY: Nanos = Nanos::from_secs(1);
/// Share of the loop's time that making the text may take: one in so many.
const SHARE: u64 = 20;
/// Time between two looks at a save that is under way.
const LOOK: Nanos = Nanos::from_millis(50);

/// Returns the text of a file for these lines: them, and the line that proves them whole.
#[must_use]
pub fn sealed(lines: &str) -> String {
    format!("{lines}{}", seal(lines))
}

/// Returns the last line of the file.
fn seal(lines: &str) -> String {
    format!("# whole: {} bytes, checksum {:016x}\n", lines.len(), checksum(lines))
}

/// Returns the checksum FNV-1a, 64 bits: it finds damage, and no forgery.
fn checksum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, b| (sum ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the lines of a file.
///
/// # Errors
/// One sentence: the file is not whole.
pub fn opened(text: &str) -> Result<&str, String> {
    let damaged = |expected: &str, given: &str| {
        Err(format!(
            "expected {expected}, given {given}: the file is damaged; bring a copy back, or remove it"
        ))
    };
    let Some(start) = text.rfind("# whole: ").filter(|start| *start == 0 || text[..*start].ends_with('\n'))
    else {
        return damaged("a last line \"# whole: ...\"", "none");
    };
    let (lines, last) = text.split_at(start);
    let expected = seal(lines);
    if last != expected {
        return damaged(&format!("a last line {expected:?}"), &format!("{last:?}"));
    }
    Ok(lines)
}

/// Checks that a file of so many bytes would be read again.
fn check_length(bytes: usize) -> io::Result<()> {
    if u64::try_from(bytes).is_ok_and(|bytes| bytes <= BYTES_MAX) {
        return Ok(());
    }
    Err(io::Error::other(format!("expected at most {BYTES_MAX} bytes, given {bytes}")))
}

/// Returns the lines of the file in this directory, with the name of the file; `None` if there is
/// no file.
///
/// # Errors
/// One sentence that names the file: it cannot be read, is too long, or is not whole.
pub fn restore(dir: &Path) -> Result<Option<(String, String)>, String> {
    let path = dir.join(NAME);
    let name = path.display().to_string();
    let says = |what: String| format!("{name}: {what}");
    match fs::metadata(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(says(e.to_string())),
        Ok(there) if !there.is_file() => return Err(says("expected an ordinary file".to_owned())),
        Ok(there) if there.len() > BYTES_MAX => {
            return Err(says(format!("expected at most {BYTES_MAX} bytes, given {}", there.len())));
        }
        Ok(_) => {}
    }
    let text = fs::read_to_string(&path).map_err(|e| says(e.to_string()))?;
    let lines = opened(&text).map_err(says)?;
    Ok(Some((name.clone(), lines.to_owned())))
}

/// Saves the state of a daemon after each change.
#[derive(Debug)]
pub struct Keeper {
    /// The number of changes that the last text has.
    saved: u64,
    /// The earliest time of the next save.
    next: Instant,
    /// The checksum of the last text that the writer got.
    text: Option<u64>,
    /// True while the writer has a text.
    busy: bool,
    /// True if the last save has failed, which is tried again.
    failed: bool,
    texts: Option<SyncSender<String>>,
    results: Receiver<io::Result<()>>,
    writer: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Begins to keep the state in this directory. The thread that writes has the privileges that
    /// the process has now.
    ///
    /// # Errors
    /// The directory does not exist or cannot be written to, or there is no thread.
    pub fn start(dir: &Path, daemon: &Daemon) -> io::Result<Self> {
        Self::writing(dir.join(NAME), daemon)
    }

    fn writing(path: PathBuf, daemon: &Daemon) -> io::Result<Self> {
        // A text at a time: the loop hands over no other one before it has the result.
        let (texts, orders) = sync_channel::<String>(1);
        let (done, results) = sync_channel(1);
        let writer = std::thread::Builder::new().name("state".to_owned()).spawn(move || {
            while let Ok(text) = orders.recv() {
                if done.send(write_whole(&path, &text)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self {
            saved: daemon.changes(),
            next: Instant::ZERO,
            text: None,
            busy: false,
            failed: false,
            texts: Some(texts),
            results,
            writer: Some(writer),
        })
    }

    /// Returns the time at which [`look`](Self::look) has something to do.
    pub(crate) fn deadline(&self, daemon: &Daemon, now: Instant) -> Option<Instant> {
        match self.busy {
            true => Some(now + LOOK),
            false => (self.failed || self.saved != daemon.changes()).then_some(self.next),
        }
    }

    /// Takes the result of a save, and begins the next one if it is due. Returns a line for the log
    /// if saving begins to fail, or to succeed again.
    pub(crate) fn look(&mut self, daemon: &mut Daemon, clock: &dyn Fn() -> Instant) -> Option<String> {
        let mut said = None;
        if self.busy {
            let result = match self.results.try_recv() {
                Ok(result) => result,
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => Err(io::Error::other("the thread that writes has ended")),
            };
            self.busy = false;
            said = self.note(result, clock());
        }
        let now = clock();
        if self.next <= now && (self.failed || self.saved != daemon.changes()) {
            said = self.begin(daemon, clock).or(said);
        }
        said
    }

    /// Notes the result of a save, which is known at `now`.
    fn note(&mut self, result: io::Result<()>, now: Instant) -> Option<String> {
        let failed = result.is_err();
        if failed {
            self.next = self.next.max(now + RETRY);
        }
        let before = std::mem::replace(&mut self.failed, failed);
        match result {
            Err(e) if !before => Some(format!("state: not saved, and tried again: {e}")),
            Ok(()) if before => Some("state: saved again".to_owned()),
            _ => None,
        }
    }

    /// Hands the present state to the writer, which has none. Returns a line for the log, as
    /// [`look`](Self::look) does, if the state is too long.
    fn begin(&mut self, daemon: &mut Daemon, clock: &dyn Fn() -> Instant) -> Option<String> {
        let before = clock();
        self.saved = daemon.changes();
        let lines = daemon.state();
        let after = clock();
        let pause = Nanos(after.saturating_since(before).0.saturating_mul(SHARE));
        self.next = after + pause.max(GAP);
        let text = Some(checksum(&lines));
        if !self.failed && text == self.text {
            // A request such as `link send` leaves the lines as they were.
            return None;
        }
        self.text = text;
        let text = sealed(&lines);
        if let Err(error) = check_length(text.len()) {
            return self.note(Err(error), after);
        }
        let sent = self.texts.as_ref().map_or(Ok(()), |texts| texts.try_send(text));
        // A writer that has ended is reported at the next look.
        self.busy = !matches!(sent, Err(TrySendError::Full(_)));
        None
    }

    /// Saves the state for the last time, and returns once it is on the disk.
    ///
    /// # Errors
    /// Those of the system.
    pub fn finish(mut self, daemon: &mut Daemon) -> io::Result<()> {
        let gone = |_| io::Error::other("the thread that writes has ended");
        let mut last = Ok(());
        if self.busy {
            last = self.results.recv().unwrap_or_else(|e| Err(gone(e)));
        }
        if last.is_err() || self.failed || self.saved != daemon.changes() {
            let text = sealed(&daemon.state());
            check_length(text.len())?;
            if let Some(texts) = &self.texts {
                texts.send(text).map_err(|_| io::Error::other("the thread that writes has ended"))?;
                last = self.results.recv().unwrap_or_else(|e| Err(gone(e)));
            }
        }
        drop(self.texts.take());
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
        last
    }
}

/// Checks that files can be made in a directory.
///
/// # Errors
/// One sentence that names the directory.
pub fn check(dir: &Path) -> Result<(), String> {
    let says = |e: io::Error| format!("{}: {e}", dir.display());
    if !fs::metadata(dir).map_err(says)?.is_dir() {
        return Err(format!("{}: expected a directory", dir.display()));
    }
    let probe = dir.join(format!(".{NAME}.{}.probe", std::process::id()));
    File::create_new(&probe).map_err(says)?;
    fs::remove_file(&probe).map_err(says)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Ask;
    use crate::whole::{Folder, replace};
    use std::io::Write;

    const OLD: &str = "link replace a --type null --mtu 1500 --txqueuelen 1000\n";
    const NEW: &str = "link replace a --type null --mtu 1400 --txqueuelen 1000\nlink replace b --type null\n";

    #[test]
    fn any_damage_is_found() {
        let text = sealed(OLD);
        assert_eq!(opened(&text), Ok(OLD));
        assert_eq!(opened(&sealed("")), Ok(""));
        for at in 0..text.len() {
            assert!(opened(&text[..at]).is_err(), "cut at {at}");
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let flipped = String::from_utf8(bytes).expect("ASCII");
            assert!(opened(&flipped).is_err(), "{at}: {flipped}");
        }
        assert!(opened(&format!("{text}link add b\n")).is_err());
        let refused = opened("link add a\n").expect_err("no last line");
        assert_eq!(
            refused,
            "expected a last line \"# whole: ...\", given none: the file is damaged; bring a copy back, or remove it"
        );
    }

    /// A state may be longer than a configuration, and one that is written is read.
    #[test]
    fn a_long_state_is_read_again() {
        let dir = std::env::temp_dir().join(format!("txw-long-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let lines = "# x\n".repeat(5 << 20);
        assert!(check_length(sealed(&lines).len()).is_ok());
        fs::write(dir.join(NAME), sealed(&lines)).expect("written");
        let restored = restore(&dir).expect("whole").expect("a file").1;
        fs::remove_dir_all(&dir).expect("removed");
        assert!(restored == lines);
        let most = usize::try_from(BYTES_MAX).expect("a length");
        assert!(check_length(most).is_ok());
        let said = check_length(most + 1).expect_err("too long").to_string();
        assert_eq!(said, "expected at most 1073741824 bytes, given 1073741825");
    }

    /// A folder on a disk that stops at a step, and loses what was not synced: any length of the
    /// contents may be left, and the new name or the old one.
    #[derive(Default)]
    struct Disk {
        /// The bytes under the name, and whether the name is on the disk.
        named: (Vec<u8>, bool),
        /// The file that had the name before the last rename.
        before: Vec<u8>,
        beside: Vec<u8>,
        synced: bool,
        /// Steps that are still done.
        left: usize,
    }

    impl Disk {
        fn step(&mut self) -> io::Result<()> {
            self.left = self.left.checked_sub(1).ok_or(ErrorKind::Other)?;
            Ok(())
        }
        /// Returns the texts that the name may lead to after a loss of power.
        fn after_power(&self) -> Vec<Vec<u8>> {
            let mut all = vec![self.named.0.clone()];
            if !self.named.1 {
                all.push(self.before.clone());
                if !self.synced {
                    all.extend((0..self.beside.len()).map(|n| self.beside[..n].to_vec()));
                }
            }
            all
        }
    }

    /// The file beside, which the disk shares with the one who writes.
    struct Beside(std::rc::Rc<std::cell::RefCell<Disk>>);

    impl Write for Beside {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut disk = self.0.borrow_mut();
            disk.step()?;
            // A byte at a time: a kill may come between any two.
            disk.beside.push(bytes[0]);
            Ok(1)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Saver(std::rc::Rc<std::cell::RefCell<Disk>>);

    impl Folder for Saver {
        type File = Beside;
        fn sweep(&mut self) {}
        fn make(&mut self) -> io::Result<Beside> {
            let mut disk = self.0.borrow_mut();
            disk.step()?;
            (disk.beside, disk.synced) = (Vec::new(), false);
            Ok(Beside(self.0.clone()))
        }
        fn sync(&mut self, _: &Beside) -> io::Result<()> {
            let mut disk = self.0.borrow_mut();
            disk.step()?;
            disk.synced = true;
            Ok(())
        }
        fn rename(&mut self, _: &Beside) -> io::Result<()> {
            let mut disk = self.0.borrow_mut();
            disk.step()?;
            let new = disk.beside.clone();
            disk.before = std::mem::replace(&mut disk.named, (new, false)).0;
            Ok(())
        }
        fn remove(&mut self, _: &Beside) {}
        fn sync_names(&mut self) -> io::Result<()> {
            let mut disk = self.0.borrow_mut();
            disk.step()?;
            disk.named.1 = true;
            Ok(())
        }
    }

    #[test]
    fn a_stop_at_any_step_leaves_the_old_state_or_the_new_one() {
        let mut ends = Vec::new();
        for left in 0.. {
            let disk = Disk { named: (sealed(OLD).into_bytes(), true), left, ..Disk::default() };
            let disk = std::rc::Rc::new(std::cell::RefCell::new(disk));
            let done = replace(&mut Saver(disk.clone()), &sealed(NEW)).is_ok();
            for bytes in disk.borrow().after_power() {
                let text = String::from_utf8(bytes).expect("text");
                let lines = opened(&text).unwrap_or_else(|e| panic!("after {left} steps: {e}"));
                assert!([OLD, NEW].contains(&lines), "after {left} steps: {lines}");
                assert!(!done || lines == NEW, "after {left} steps it was done");
                ends.push(lines == NEW);
            }
            if done {
                break;
            }
        }
        assert!(ends.contains(&true) && ends.iter().filter(|is_new| !**is_new).count() > NEW.len());
    }

    #[test]
    fn each_change_is_saved_and_a_failure_is_said_once() {
        let dir = std::env::temp_dir().join(format!("txw-state-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let mut daemon = Daemon::new();
        let ask = |daemon: &mut Daemon, line: &str| {
            let args = line.split(' ').map(String::from).collect();
            assert_eq!(daemon.answer(Instant(1), &Ask::Link { args }).status, 0, "{line}");
        };
        let mut keeper = Keeper::start(&dir, &daemon).expect("a thread");
        assert_eq!(keeper.deadline(&daemon, Instant(5)), None, "nothing has changed");
        // Time goes on as fast as the test asks for it.
        let now = std::cell::Cell::new(1);
        let clock = || {
            now.set(now.get() + 1_000_000);
            Instant(now.get())
        };
        let settle = |keeper: &mut Keeper, daemon: &mut Daemon| {
            let mut said = Vec::new();
            while keeper.busy || keeper.saved != daemon.changes() {
                said.extend(keeper.look(daemon, &clock));
                std::thread::yield_now();
            }
            said
        };
        ask(&mut daemon, "add a");
        assert_eq!(settle(&mut keeper, &mut daemon), Vec::<String>::new());
        let restored = restore(&dir).expect("whole").expect("a file").1;
        assert_eq!(restored, daemon.state());
        // The directory goes and comes back.
        fs::remove_dir_all(&dir).expect("removed");
        ask(&mut daemon, "add b");
        let said = settle(&mut keeper, &mut daemon);
        assert!(said.len() == 1 && said[0].starts_with("state: not saved, and tried again: "), "{said:?}");
        let pause = keeper.next.saturating_since(Instant(now.get()));
        assert!(pause > Nanos::from_millis(900), "the first retry comes as late as the others: {pause:?}");
        fs::create_dir_all(&dir).expect("a directory");
        let mut said = Vec::new();
        while keeper.failed {
            said.extend(keeper.look(&mut daemon, &clock));
            std::thread::yield_now();
        }
        assert_eq!(said, ["state: saved again"]);
        ask(&mut daemon, "del a");
        keeper.finish(&mut daemon).expect("saved");
        assert_eq!(restore(&dir).expect("whole").expect("a file").1, daemon.state());
        assert_eq!(daemon.state().lines().count(), 1);
        fs::remove_dir_all(&dir).expect("removed");
    }
}
