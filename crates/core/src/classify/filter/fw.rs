//! fw: matches the mark (tc-fw(8)). The handle of a filter is the mark that it matches; a priority
//! has one mask for all its filters.
//!
//! Cost: one look-up by hash, in buckets as in Linux, so that filters are listed in its order.
//! Memory: 256 lists per priority, about 80 bytes per filter.
//!
//! Differs from Linux: `fw-alone`.

use alloc::boxed::Box;
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

/// Buckets of a priority: one per value of a mark folded to a byte.
const BUCKETS: usize = 256;

/// The filters of a priority.
#[derive(Clone, Debug, Default)]
pub struct Table {
    mask: u32,
    /// Empty, or `BUCKETS` lists, each with the newest filter first.
    buckets: Box<[Vec<Filter>]>,
    filters: usize,
}

#[derive(Clone, Debug)]
struct Filter {
    mark: u32,
    rule: Fw,
    goal: Bound,
}

/// Returns the bucket of a mark: all its bytes count.
#[inline]
fn bucket(mark: u32) -> usize {
    mark.to_le_bytes().iter().fold(0u8, |fold, byte| fold ^ byte).into()
}

impl Table {
    fn at(&self, mark: u32) -> Option<(usize, usize)> {
        let bucket = bucket(mark);
        Some((bucket, self.buckets.get(bucket)?.iter().position(|f| f.mark == mark)?))
    }
    fn check(&self, handle: Option<u32>, rule: &Fw, goal: &Bound) -> Result<u32, ConfigError> {
        let Some(mark) = handle.filter(|mark| *mark != 0) else {
            return Err(
                ConfigError::new(ErrorKind::Missing, Object::Filter(Some("fw")), "a mark", "").key("handle")
            );
        };
        if self.filters > 0 && self.mask != rule.mask {
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
        let there = handle.and_then(|mark| self.at(mark));
        let mark = match (self.check(handle, rule, &goal), there, existence) {
            (_, Some(_), Existence::Add) => return Err((exists("fw", handle.unwrap_or(0)), goal)),
            (_, None, Existence::Change) => return Err((not_found("fw", handle.unwrap_or(0)), goal)),
            (Err(err), ..) => return Err((err, goal)),
            (Ok(mark), ..) => mark,
        };
        if let Some(filter) = there.and_then(|(bucket, at)| self.buckets.get_mut(bucket)?.get_mut(at)) {
            // The port stays unless the command names one.
            let before = filter.rule.indev.take();
            filter.rule = Fw { indev: rule.indev.clone().or(before), ..*rule };
            return Ok((mark, Some(filter.goal.replace(goal))));
        }
        if self.buckets.is_empty() {
            self.buckets = (0..BUCKETS).map(|_| Vec::new()).collect();
        }
        if let Some(filters) = self.buckets.get_mut(bucket(mark)) {
            let goal = Bound { hits: ids.take(1), ..goal };
            filters.insert(0, Filter { mark, rule: rule.clone(), goal });
        }
        self.mask = rule.mask;
        self.filters += 1;
        Ok((mark, None))
    }

    fn delete(&mut self, handle: u32) -> Result<Vec<Bound>, ConfigError> {
        let filter = self.at(handle).and_then(|(bucket, at)| Some(self.buckets.get_mut(bucket)?.remove(at)));
        self.filters -= usize::from(filter.is_some());
        filter.map(|filter| vec![filter.goal]).ok_or_else(|| not_found("fw", handle))
    }

    fn is_empty(&self) -> bool {
        self.filters == 0
    }

    fn visit(&self, f: &mut dyn FnMut(u32, &Fw, &Bound, u32)) {
        for filter in self.buckets.iter().flatten() {
            f(filter.mark, &filter.rule, &filter.goal, filter.goal.hits);
        }
    }

    #[inline]
    fn classify(&self, packet: &mut Packet<'_>, run: &mut Run<'_>) -> Decision {
        let mark = packet.meta.mark & self.mask;
        let Some(filters) = self.buckets.get(bucket(mark)) else { return Decision::Next };
        let Some(filter) = filters.iter().find(|f| f.mark == mark) else { return Decision::Next };
        let elsewhere = |device: &Device| packet.iif == PortId::NONE || packet.iif != device.port;
        if filter.rule.indev.as_ref().is_some_and(elsewhere) {
            return Decision::Next;
        }
        run.state.hit(filter.goal.hits);
        filter.goal.decide(packet, run)
    }
}
