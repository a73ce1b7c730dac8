//! tcpctl: TCP segments that carry control and no data (`Headers::is_tcp_control`): SYN, SYN-ACK, pure ACK. One filter
//! in a table.
//! Linux has no such kind; its u32 and flower can match flags, but not that a segment is empty where headers vary.
//!
//! It looks at the packet's bytes as the actions before have left them, not at its mark (`Meta::tcp_control`): where marking is
//! switched off, a policy can still say what becomes of such segments.
//!
//! Cost: what has been read of the headers already. Memory: a class and a number for each action.
//!
//! Differs from Linux: `tcpctl-filter`.

use alloc::vec;
use alloc::vec::Vec;

use super::chain::{exists, not_found};
use super::{Bound, Counters, Decision, Filtering, Run, Visit, What};
use crate::error::ConfigError;
use crate::packet::Packet;

/// Parameters of tcpctl: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcpctl {}

/// The one filter of a table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    only: Option<Only>,
}

#[derive(Clone, Debug)]
struct Only {
    handle: u32,
    goal: Bound,
}

impl Filtering for Table {
    type Rule = Tcpctl;

    fn put(
        &mut self,
        handle: Option<u32>,
        _rule: &Tcpctl,
        goal: Bound,
        what: What,
        ids: &mut Counters,
    ) -> Result<(u32, Option<Bound>), (ConfigError, Bound)> {
        match &mut self.only {
            Some(there) if what == What::Add || handle.is_some_and(|h| h != there.handle) => {
                Err((exists("tcpctl", there.handle), goal))
            }
            Some(there) => Ok((there.handle, Some(there.goal.replace(goal)))),
            None if what == What::Change => Err((not_found("tcpctl", handle.unwrap_or(1)), goal)),
            None => {
                let handle = handle.filter(|h| *h != 0).unwrap_or(1);
                let goal = Bound { hits: ids.take(2), ..goal };
                self.only = Some(Only { handle, goal });
                Ok((handle, None))
            }
        }
    }

    fn delete(&mut self, handle: u32) -> Result<Vec<Bound>, ConfigError> {
        match self.only.take_if(|only| only.handle == handle) {
            Some(only) => Ok(vec![only.goal]),
            None => Err(not_found("tcpctl", handle)),
        }
    }

    fn is_empty(&self) -> bool {
        self.only.is_none()
    }

    fn visit(&self, f: Visit<'_, Tcpctl>) {
        if let Some(only) = &self.only {
            f(only.handle, &Tcpctl {}, &only.goal, only.goal.hits);
        }
    }

    #[inline]
    fn classify(&self, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Decision {
        let Some(only) = &self.only else { return Decision::Next };
        run.state.hit(only.goal.hits);
        if !packet.headers.is_tcp_control() {
            return Decision::Next;
        }
        run.state.hit(only.goal.hits + 1);
        only.goal.decide(packet, run)
    }
}
