//! The progress of a long run.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on stderr, for a run that takes more than two seconds while a terminal is there.
pub struct Bar {
    whole: u64,
    started: Instant,
    shown: Option<ProgressBar>,
    watched: bool,
}

impl Bar {
    const QUIET: Duration = Duration::from_secs(2);

    /// Creates the bar of a run whose end is at `whole`.
    pub fn new(whole: u64) -> Self {
        Self { whole, started: Instant::now(), shown: None, watched: std::io::stderr().is_terminal() }
    }

    /// Sets the progress.
    pub fn at(&mut self, now: u64) {
        let elapsed = self.started.elapsed();
        if !self.watched || elapsed <= Self::QUIET || now == 0 {
            return;
        }
        let whole = self.whole;
        let bar = self.shown.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}");
            ProgressBar::new(whole).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        // Simulated time passes evenly enough to tell when the run ends.
        let left = elapsed.as_secs_f64() * (whole - now.min(whole)) as f64 / now as f64;
        bar.set_message(format!("{left:.0} s left"));
        bar.set_position(now);
    }

    /// Removes the bar at the end of the run.
    pub fn end(self) {
        if let Some(bar) = self.shown {
            bar.finish_and_clear();
        }
    }
}
