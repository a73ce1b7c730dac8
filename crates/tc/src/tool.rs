//! tc as a function: the words of a command line, or the lines of a batch, done to devices; what it prints and its exit
//! status come back. The words, the text, the JSON and the status are those of tc(8), so that what calls tc can call this.
//! What tc lacks comes on top: `--dry-run` says what would change and where queued packets would go, `--atomic` does a
//! whole batch in one step for each device, and what is wrong is said with a caret.
//!
//! No I/O: the caller reads the batch, and owns the devices.

mod device;
mod flags;

pub use device::{Device, Devices, Hook, LinkLine, SwapDone};
pub use flags::Flags;

use crate::source::Source;

/// A call of tc.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The words after `tc`, flags included.
    pub args: Vec<String>,
    /// The batch that `-b` names, read by the caller (see [`Flags::read`]); named as it was given, or `<stdin>`.
    pub batch: Option<Source>,
}

/// What tc prints and exits with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The exit status: 0; 1 for what cannot be parsed; 2 for what is refused; 255 for wrong usage.
    pub status: u8,
    /// What goes to standard output.
    pub stdout: String,
    /// What goes to standard error.
    pub stderr: String,
}
