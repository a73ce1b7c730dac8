//! `Log`: lines about events, for people. A line is written at once, and their number is bounded.

use std::fmt;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use txweir_core::{Instant, Nanos};

/// Most lines about events in one second: people read them, and the loop waits while they are
/// written.
const LINES_MAX: u32 = 100;
const SECOND: Nanos = Nanos::from_secs(1);

/// The importance of a line, by the numbers of syslog(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Something does not work.
    Error = 3,
    /// Something was refused, lost or left out.
    Warning = 4,
    /// Something has changed.
    Notice = 5,
    /// Anything else.
    Info = 6,
}

/// The text ahead of each line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stamp {
    /// None.
    #[default]
    None,
    /// The level, as `<5>`: the journal of systemd reads it (sd-daemon(3)), and has the time.
    Level,
    /// The time of day in UTC, as `2026-11-24T02:28:00.123Z` (RFC 3339).
    Time,
}

/// A log, its stamp, and the number of lines of this second.
pub struct Log {
    out: Box<dyn Write + Send>,
    stamp: Stamp,
    /// The start of the second in which lines are counted, the number of its lines, and the number
    /// of lines left out.
    second: Instant,
    lines: u32,
    left_out: u64,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("stamp", &self.stamp)
            .field("left_out", &self.left_out)
            .finish_non_exhaustive()
    }
}

impl Log {
    /// Makes a log that is written to `out`.
    #[must_use]
    pub fn new(out: Box<dyn Write + Send>) -> Self {
        Self { out, stamp: Stamp::None, second: Instant::ZERO, lines: 0, left_out: 0 }
    }

    /// Sets the text ahead of each line.
    pub const fn set_stamp(&mut self, stamp: Stamp) {
        self.stamp = stamp;
    }

    /// Takes a line about an event, below a word for its origin. Of more than a hundred lines in a
    /// second the others are left out: a line tells it at once, and one in a later second, or at
    /// the end, their number. The origin of both is `log`.
    pub fn line(&mut self, now: Instant, level: Level, origin: &str, text: &str) {
        if now.saturating_since(self.second) >= SECOND {
            self.tell_left_out();
            (self.second, self.lines) = (now, 0);
        }
        if self.lines >= LINES_MAX {
            if self.left_out == 0 {
                let text = format!("log: more than {LINES_MAX} lines in a second: others are left out");
                self.write(Level::Warning, &text);
            }
            self.left_out += 1;
            return;
        }
        self.lines += 1;
        self.write(level, &format!("{origin}: {}", text.replace(char::is_control, " ")));
    }

    /// Takes a text of several lines, such as a diagnosis. The caller bounds it.
    pub fn text(&mut self, level: Level, text: &str) {
        text.lines().for_each(|line| self.write(level, &line.replace(char::is_control, " ")));
    }

    fn write(&mut self, level: Level, line: &str) {
        let stamp = match self.stamp {
            Stamp::None => String::new(),
            Stamp::Level => format!("<{}>", level as u8),
            Stamp::Time => time_of(SystemTime::now()) + " ",
        };
        // The log may have no reader; that must not stop the loop. One call writes a line whole.
        let _ = self.out.write_all(format!("{stamp}{line}\n").as_bytes());
    }

    fn tell_left_out(&mut self) {
        if self.left_out > 0 {
            self.write(Level::Warning, &format!("log: {} lines left out", self.left_out));
            self.left_out = 0;
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.tell_left_out();
    }
}

/// Returns a time of day in UTC.
fn time_of(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = date_of(days);
    let [hour, minute] = [second / 3600, second / 60 % 60];
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}.{millis:03}Z", second % 60)
}

/// Returns year, month and day of a number of days since 1970. Years begin in March here, so that
/// the day that a leap year has is its last (H. Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms", `civil_from_days`).
const fn date_of(days: u64) -> (u64, u64, u64) {
    // Days since 1 March of the year 0; 400 years have 146 097.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    /// A writer that a test reads.
    #[derive(Clone, Default)]
    struct Out(Arc<Mutex<Vec<u8>>>);

    impl Write for Out {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no test panics here").extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_journal_gets_levels_and_no_time() {
        let out = Out::default();
        let mut log = Log::new(Box::new(out.clone()));
        log.line(Instant(1), Level::Notice, "txweir", "a\nb");
        log.set_stamp(Stamp::Level);
        log.line(Instant(2), Level::Warning, "txweir", "c");
        log.text(Level::Error, "d\n  e\n");
        let text = String::from_utf8(out.0.lock().expect("no panic").clone()).expect("text");
        assert_eq!(text, "txweir: a b\n<4>txweir: c\n<3>d\n<3>  e\n");
    }

    /// The lines that are left out are told at once, and counted later, whatever their origin.
    #[test]
    fn lines_that_are_left_out_are_told() {
        let out = Out::default();
        let lines = || {
            let text = String::from_utf8(out.0.lock().expect("no panic").clone()).expect("text");
            text.lines().map(String::from).collect::<Vec<_>>()
        };
        let mut log = Log::new(Box::new(out.clone()));
        (0..103).for_each(|n| log.line(Instant(n), Level::Info, "txweir", "a"));
        assert_eq!(lines().len(), 101);
        assert_eq!(lines()[99], "txweir: a");
        assert_eq!(lines()[100], "log: more than 100 lines in a second: others are left out");
        log.line(Instant(1_000_000_000), Level::Info, "simple", "b");
        assert_eq!(lines()[101..], ["log: 3 lines left out", "simple: b"]);
        drop(log);
        assert_eq!(lines().len(), 103, "each line is counted once");
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        // `date -u -d @SECONDS +%FT%TZ` prints them.
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (1_795_487_280, "2026-11-24T02:28:00.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(time_of(UNIX_EPOCH + Duration::from_secs(seconds)), date);
        }
        assert!(time_of(UNIX_EPOCH + Duration::from_millis(1007)).ends_with(":01.007Z"));
    }
}
