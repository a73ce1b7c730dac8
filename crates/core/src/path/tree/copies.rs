//! The rule for qdiscs that copy packets.

use crate::base::handle::Handle;
use crate::path::tree::Tree;
use crate::sched::erased::Resolved;
use crate::sched::spec::Spec;
use crate::text::error::{ConfigError, ErrorKind, Object};

impl Tree {
    /// One that makes copies must be the only one of its kind: copies enter at the root, where another one would copy
    /// them again, and again. What is at `parent` is not counted, and with `whole` nothing below it either.
    pub(super) fn check_copies(
        &self,
        parent: Handle,
        whole: bool,
        spec: &Spec,
        candidate: &dyn Resolved,
    ) -> Result<(), ConfigError> {
        let (mut others, mut copies) = (0, false);
        let mut below = None;
        self.visit(&mut |place, node| {
            below = below.filter(|depth| place.depth > *depth);
            let here = place.parent == parent;
            if here && whole {
                below = Some(place.depth);
            }
            if !here && below.is_none() && node.qdisc().spec().kind == spec.kind {
                others += 1;
                copies |= node.qdisc().copies();
            }
        });
        if others > 0 && (copies || candidate.copies()) {
            let expected = "no other one in the tree: one that duplicates is alone";
            return Err(ConfigError::new(
                ErrorKind::Conflict,
                Object::Kind(spec.kind),
                expected,
                "a second one",
            ));
        }
        Ok(())
    }
}
