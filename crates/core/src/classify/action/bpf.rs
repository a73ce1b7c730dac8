//! bpf: a program of the classic Berkeley Packet Filter decides about a packet (tc-bpf(8)). The
//! machine and its bounds are those of the [filter](crate::classify::filter::bpf); the program is
//! checked when the action is made.
//!
//! The value that it returns is a control, by Linux's numbers: 0 pass, 1 reclassify, 2 drop, 3
//! pipe; 0xffffffff is the control of the action. A redirection, 7, is a drop, because a program of
//! this machine names no target. Any other value is `continue`, as in Linux.
//!
//! Cost: a step for each instruction that runs. Memory: 8 bytes per instruction.
//!
//! Differs from Linux (PARITY.md: bpf-ancillary, bpf-ebpf, vlan-in-place).

use alloc::vec::Vec;

use super::{Control, Memory};
use crate::classify::action::Run;
use crate::classify::machine::{self, Instruction};
use crate::classify::packet::Packet;
use crate::text::error::{ConfigError, Object};

/// The value for the control of the action.
const OWN: u32 = u32::MAX;

/// Parameters of bpf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bpf {
    program: Vec<Instruction>,
}

impl Bpf {
    /// Returns an action that runs a program.
    ///
    /// # Errors
    /// The machine does not take the program: see [`machine::check`].
    pub fn new(program: Vec<Instruction>) -> Result<Self, ConfigError> {
        match machine::check(&program) {
            Ok(()) => Ok(Self { program }),
            Err(err) => Err(ConfigError { object: Object::ActionOptions("bpf"), ..err }),
        }
    }

    /// Returns the program.
    pub fn program(&self) -> &[Instruction] {
        &self.program
    }

    pub(super) fn run(
        &self,
        control: Control,
        packet: &mut Packet<'_>,
        mine: &mut Memory,
        _: &mut Run<'_>,
    ) -> Control {
        match machine::run(&self.program, packet) {
            0 => Control::Pass,
            1 => Control::Reclassify,
            2 => {
                mine.drops += 1;
                Control::Drop
            }
            3 => Control::Pipe,
            7 => Control::Drop,
            OWN => control,
            _ => Control::Continue,
        }
    }
}
