//! matchall: every packet (tc-matchall(8)). One filter in a table.

use super::chain::{exists, not_found};
use super::{Bound, Decision, Filtering, Run, What};
use crate::error::ConfigError;
use crate::packet::Packet;

/// Parameters of matchall: there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matchall;

/// The one filter of a table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    only: Option<(u32, Bound)>,
}

impl Filtering for Table {
    type Rule = Matchall;

    fn put(
        &mut self,
        handle: Option<u32>,
        _: &Matchall,
        goal: Bound,
        what: What,
        _: &mut u32,
    ) -> Result<(u32, Option<Bound>), (ConfigError, Bound)> {
        match &mut self.only {
            Some((there, _)) if what == What::Add || handle.is_some_and(|h| h != *there) => {
                Err((exists("matchall", *there), goal))
            }
            Some((there, old)) => Ok((*there, Some(core::mem::replace(old, goal)))),
            None if what == What::Change => Err((not_found("matchall", handle.unwrap_or(1)), goal)),
            None => {
                let handle = handle.filter(|h| *h != 0).unwrap_or(1);
                self.only = Some((handle, goal));
                Ok((handle, None))
            }
        }
    }

    fn delete(&mut self, handle: u32) -> Result<Option<Bound>, ConfigError> {
        match self.only.take_if(|(there, _)| *there == handle) {
            Some((_, goal)) => Ok(Some(goal)),
            None => Err(not_found("matchall", handle)),
        }
    }

    fn is_empty(&self) -> bool {
        self.only.is_none()
    }

    fn visit(&self, f: &mut dyn FnMut(u32, &Matchall, &Bound)) {
        if let Some((handle, goal)) = &self.only {
            f(*handle, &Matchall, goal);
        }
    }

    #[inline]
    fn classify(&self, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Decision {
        self.only.as_ref().map_or(Decision::Next, |(_, goal)| goal.decide(packet, run))
    }
}
