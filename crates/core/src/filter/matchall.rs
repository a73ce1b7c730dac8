//! matchall: every packet (tc-matchall(8)). One filter in a table.

use alloc::vec;
use alloc::vec::Vec;

use super::chain::{exists, not_found};
use super::{Bound, Counters, Decision, Filtering, Run, What};
use crate::error::ConfigError;
use crate::packet::Packet;

/// Parameters of matchall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matchall {
    /// It was said not to be done in hardware; it never is.
    pub skip_hw: bool,
}

/// The one filter of a table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    only: Option<Only>,
}

#[derive(Clone, Debug)]
struct Only {
    handle: u32,
    rule: Matchall,
    goal: Bound,
}

impl Filtering for Table {
    type Rule = Matchall;

    fn put(
        &mut self,
        handle: Option<u32>,
        rule: &Matchall,
        goal: Bound,
        what: What,
        ids: &mut Counters,
    ) -> Result<(u32, Option<Bound>), (ConfigError, Bound)> {
        match &mut self.only {
            Some(there) if what == What::Add || handle.is_some_and(|h| h != there.handle) => {
                Err((exists("matchall", there.handle), goal))
            }
            Some(there) => {
                there.rule = *rule;
                Ok((there.handle, Some(there.goal.replace(goal))))
            }
            None if what == What::Change => Err((not_found("matchall", handle.unwrap_or(1)), goal)),
            None => {
                let handle = handle.filter(|h| *h != 0).unwrap_or(1);
                let goal = Bound { hits: ids.take(1), ..goal };
                self.only = Some(Only { handle, rule: *rule, goal });
                Ok((handle, None))
            }
        }
    }

    fn delete(&mut self, handle: u32) -> Result<Vec<Bound>, ConfigError> {
        match self.only.take_if(|only| only.handle == handle) {
            Some(only) => Ok(vec![only.goal]),
            None => Err(not_found("matchall", handle)),
        }
    }

    fn is_empty(&self) -> bool {
        self.only.is_none()
    }

    fn visit(&self, f: &mut dyn FnMut(u32, &Matchall, &Bound, u32)) {
        if let Some(only) = &self.only {
            f(only.handle, &only.rule, &only.goal, only.goal.hits);
        }
    }

    #[inline]
    fn classify(&self, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Decision {
        let Some(only) = &self.only else { return Decision::Next };
        run.state.hit(only.goal.hits);
        only.goal.decide(packet, run)
    }
}
