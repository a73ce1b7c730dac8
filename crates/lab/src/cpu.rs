//! A host's processor as one server in virtual time: work waits for the work before it.

use txweir_core::base::time::{Instant, Nanos};

/// A processor with a cost per message and per byte. Both are zero by default, which disables it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    /// Time per message.
    pub per_message: Nanos,
    /// Time per byte, in picoseconds.
    pub per_byte_ps: u64,
    free_at: Instant,
    /// Picoseconds not yet charged.
    remainder_ps: u64,
    busy: Nanos,
}

impl Cpu {
    /// Returns a processor with these costs: time per message, picoseconds per byte.
    pub const fn new(per_message: Nanos, per_byte_ps: u64) -> Self {
        Self { per_message, per_byte_ps, free_at: Instant::ZERO, remainder_ps: 0, busy: Nanos::ZERO }
    }

    /// Charges a message of `bytes` that arrives at `now`, and returns the time at which it is
    /// done, after all messages before it.
    pub fn run(&mut self, now: Instant, bytes: u64) -> Instant {
        let ps = bytes.saturating_mul(self.per_byte_ps).saturating_add(self.remainder_ps);
        self.remainder_ps = ps % 1000;
        let cost = self.per_message + Nanos(ps / 1000);
        self.busy = self.busy + cost;
        self.free_at = self.free_at.max(now) + cost;
        self.free_at
    }

    /// Returns the time spent working.
    pub const fn busy(&self) -> Nanos {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_wait_for_those_before_them() {
        let mut cpu = Cpu::new(Nanos(100), 500);
        assert_eq!(cpu.run(Instant(1000), 3), Instant(1101));
        // The half nanosecond left over by three bytes at 500 ps is charged here.
        assert_eq!(cpu.run(Instant(1000), 1), Instant(1202));
        assert_eq!(cpu.run(Instant(5000), 0), Instant(5100));
        assert_eq!(cpu.busy(), Nanos(302));
        assert_eq!(Cpu::default().run(Instant(7), 1 << 20), Instant(7));
    }
}
