//! fw: matches the mark (tc-fw(8)). The handle of a filter is the mark that it matches; a priority
//! has one mask for all its filters.
//!
//! Cost: one look-up in a tree of marks, however many filters there are; Linux walks one of 256
//! lists. Filters are listed in its order: by list, the newest first. Memory: 193 bytes per filter
//! (`memory::what_one_more_takes`).
//!
//! Differs from Linux: `fw-alone`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::chain::{exists, not_found};
use super::u32::Device;
use super::{Bound, Decision, Existence, Filtering};
use crate::classify::action::Run;
use crate::classify::counters::Counters;
use crate::classify::packet::{Packet, PortId};
use crate::text::error::{ConfigError, ErrorKind, Object};

/// Parameters of fw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fw {
    /// The bits of the mark that count: the same for all filters of a priority.
    pub mask: u32,
    /// Port that must have received the packet.
    pub indev: Option<Device>,
}

impl Default for Fw {
    fn default() -> Self {
        Self { mask: u32::MAX, indev: None }
    }
}

/// The filters of a priority.
#[derive(Clone, Debug, Default)]
pub struct Table {
    mask: u32,
    filters: BTreeMap<u32, Filter>,
    /// The filters in the order in which they are listed.
    listed: BTreeSet<Listed>,
    /// Filters made so far.
    made: u64,
}

#[derive(Clone, Debug)]
struct Filter {
    rule: Fw,
    goal: Bound,
    /// Its number among those made, 0 the first.
    number: u64,
}

/// The place of a filter in the list: Linux's bucket, then the newest, with its mark.
type Listed = (u8, core::cmp::Reverse<u64>, u32);

impl Filter {
    fn listed(&self, mark: u32) -> Listed {
        // The bucket of a mark: all its bytes count.
        let bucket = mark.to_le_bytes().iter().fold(0, |fold, byte| fold ^ byte);
        (bucket, core::cmp::Reverse(self.number), mark)
    }
}

impl Table {
    fn check(&self, handle: Option<u32>, rule: &Fw, goal: &Bound) -> Result<u32, ConfigError> {
        let Some(mark) = handle.filter(|mark| *mark != 0) else {
            return Err(
                ConfigError::new(ErrorKind::Missing, Object::Filter(Some("fw")), "a mark", "").key("handle")
            );
        };
        if !self.filters.is_empty() && self.mask != rule.mask {
            let expected = format!("mask {:#x}, which the filters of this priority have", self.mask);
            let err = ConfigError::new(
                ErrorKind::Conflict,
                Object::Filter(Some("fw")),
                expected,
                format!("{:#x}", rule.mask),
            );
            return Err(err.key("handle"));
        }
        if goal.class.is_none() && goal.actions.is_empty() && rule.indev.is_none() {
            let expected = "a class or an action";
            return Err(
                ConfigError::new(ErrorKind::Missing, Object::Filter(Some("fw")), expected, "").key("classid")
            );
        }
        Ok(mark)
    }
}

impl Filtering for Table {
    type Rule = Fw;

    fn put(
        &mut self,
        handle: Option<u32>,
        rule: &Fw,
        goal: Bound,
        existence: Existence,
        ids: &mut Counters,
    ) -> Result<(u32, Option<Bound>), (ConfigError, Bound)> {
        let checked = self.check(handle, rule, &goal);
        let there = handle.and_then(|mark| self.filters.get_mut(&mark));
        let mark = match (checked, &there, existence) {
            (_, Some(_), Existence::Add) => return Err((exists("fw", handle.unwrap_or(0)), goal)),
            (_, None, Existence::Change) => return Err((not_found("fw", handle.unwrap_or(0)), goal)),
            (Err(err), ..) => return Err((err, goal)),
            (Ok(mark), ..) => mark,
        };
        if let Some(filter) = there {
            // The port stays unless the command names one.
            let before = filter.rule.indev.take();
            filter.rule = Fw { indev: rule.indev.clone().or(before), ..*rule };
            return Ok((mark, Some(filter.goal.replace(goal))));
        }
        let goal = Bound { hits: ids.take(1), ..goal };
        let filter = Filter { rule: rule.clone(), goal, number: self.made };
        self.listed.insert(filter.listed(mark));
        self.filters.insert(mark, filter);
        self.made += 1;
        self.mask = rule.mask;
        Ok((mark, None))
    }

    fn delete(&mut self, handle: u32) -> Result<Vec<Bound>, ConfigError> {
        let filter = self.filters.remove(&handle).ok_or_else(|| not_found("fw", handle))?;
        self.listed.remove(&filter.listed(handle));
        Ok(vec![filter.goal])
    }

    fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    fn visit(&self, f: &mut dyn FnMut(u32, &Fw, &Bound, u32)) {
        for (_, _, mark) in &self.listed {
            if let Some(filter) = self.filters.get(mark) {
                f(*mark, &filter.rule, &filter.goal, filter.goal.hits);
            }
        }
    }

    #[inline]
    fn classify(&self, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Decision {
        let mark = packet.meta.mark & self.mask;
        let Some(filter) = self.filters.get(&mark) else { return Decision::Next };
        let elsewhere = |device: &Device| packet.iif == PortId::NONE || packet.iif != device.port;
        if filter.rule.indev.as_ref().is_some_and(elsewhere) {
            return Decision::Next;
        }
        run.state.hit(filter.goal.hits);
        filter.goal.decide(packet, run)
    }
}
