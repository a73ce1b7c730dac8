//! bpf: a program of the classic Berkeley Packet Filter decides whether a packet matches
//! (tc-bpf(8)).
//!
//! The machine: S. McCanne, V. Jacobson, "The BSD Packet Filter", USENIX 1993, with the remainder
//! and exclusive-or operations that Linux has added. Two registers of 32 bits, 16 words of memory,
//! loads from the packet in network byte order.
//!
//! A program is checked when its filter is added: its operations are known, it jumps forward and to
//! an existing instruction, it ends with a return on every path, divides by no constant zero, and
//! reads no word of memory that it has not written. So a run takes at most as many steps as there
//! are instructions. The remaining faults, a load beyond the packet or a division by zero, end the
//! run with 0.
//!
//! Cost: a step for each instruction that runs. Memory: 8 bytes per instruction.
//!
//! Return values of a program: 0 does not match; 0xffffffff matches; any other value matches and is
//! the class of the packet. Offsets are from the link header. Of a packet that has arrived,
//! offsets, the length and the protocol are those without its outermost tag, as in Linux, which has
//! taken it off.
//!
//! Differs from Linux: `bpf-ancillary`, `bpf-ebpf`, `vlan-in-place`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::ordered::{Entry, Ordered};
use super::{Bound, Decision, Existence, Filtering};
use crate::base::handle::Handle;
use crate::classify::action::Control;
use crate::classify::action::Run;
use crate::classify::counters::Counters;
use crate::classify::packet::Packet;
use crate::text::error::{ConfigError, ErrorKind, Object};

use crate::classify::machine::run as run_program;
pub use crate::classify::machine::{Instruction, PROGRAM_MAX, check};

/// Value of a program for a packet that matches and goes to the filter's class.
const MATCH: u32 = u32::MAX;

/// Parameters of bpf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bpf {
    /// The program.
    pub program: Vec<Instruction>,
    /// True if the return value is a decision about the packet, and not whether it matches
    /// (`direct-action`).
    pub direct: bool,
    /// True if the command asked not to offload to hardware; nothing is ever offloaded.
    pub skip_hw: bool,
}

/// The filters of a priority. The newest is tried first.
#[derive(Clone, Debug, Default)]
pub struct Table {
    filters: Ordered<Box<Bpf>>,
}

impl Filtering for Table {
    type Rule = Bpf;

    fn put(
        &mut self,
        handle: Option<u32>,
        rule: &Bpf,
        goal: Bound,
        existence: Existence,
        ids: &mut Counters,
    ) -> Result<(u32, Option<Bound>), (ConfigError, Bound)> {
        let there = handle.is_some_and(|handle| self.filters.get(handle).is_some());
        let hits = if there { 0 } else { ids.take(1) };
        let acts = !goal.actions.is_empty();
        let done = self.filters.put("bpf", handle, Bound { hits, ..goal }, existence, |_| {
            check(&rule.program)?;
            if rule.direct && acts {
                let object = Object::Filter(Some("bpf"));
                let err =
                    ConfigError::new(ErrorKind::Conflict, object, "a program or actions to decide", "both");
                return Err(err.key("direct-action"));
            }
            Ok(Box::new(rule.clone()))
        });
        if done.is_err() && !there {
            ids.give(hits);
        }
        done
    }

    fn delete(&mut self, handle: u32) -> Result<Vec<Bound>, ConfigError> {
        self.filters.delete("bpf", handle)
    }

    fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    fn visit(&self, f: &mut dyn FnMut(u32, &Bpf, &Bound, u32)) {
        for filter in self.filters.iter().rev() {
            f(filter.handle, &filter.rule, &filter.goal, filter.goal.hits);
        }
    }

    fn classify(&self, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Decision {
        for filter in self.filters.iter().rev() {
            let answer = run_program(&filter.rule.program, packet);
            let made = match (filter.rule.direct, answer) {
                (true, answer) => direct(filter, answer),
                (false, 0) => continue,
                (false, MATCH) => filter.goal.decide(packet, run),
                (false, class) => match filter.goal.decide(packet, run) {
                    Decision::Made(control, _) => Decision::Made(control, Handle(class)),
                    Decision::Next => Decision::Next,
                },
            };
            run.state.hit(filter.goal.hits);
            if made != Decision::Next {
                return made;
            }
        }
        Decision::Next
    }
}

/// Translates the decision of a program (`direct-action`), by Linux's numbers. The class is that of
/// the filter's qdisc. A redirection has no target, because a program of this machine cannot name
/// one.
fn direct(filter: &Entry<Box<Bpf>>, answer: u32) -> Decision {
    let control = match answer {
        0 => Control::Pass,
        2 | 7 => Control::Drop,
        4 => Control::Stolen,
        8 => Control::Trap,
        _ => return Decision::Next,
    };
    Decision::Made(control, Handle::new(filter.goal.class.major(), 0))
}
