//! The law of reasons: every node counts why packets were dropped and marked in it and below.

use txweir_core::sched::node::Node;
use txweir_core::{DropReason, MarkReason, Reasons, TxPath};

use crate::Law;
use crate::device::Frame;

/// A fault in the reasons as the checker reads them, which the law must detect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planted {
    #[default]
    Nothing,
    /// The count by reason omits one drop in ten.
    Forgets,
    /// Packets dropped because a limit was reached count as dropped by an AQM.
    Confuses,
    /// A node with classes forgets half of its drops, in its books too.
    LosesOnTheWayUp,
    /// Marks are counted only in leaves.
    MarksStayBelow,
    /// Every mark is counted at the root twice.
    MarksTwice,
}

impl Planted {
    /// Returns the reasons of a node, with the planted fault, and the drops by its books.
    fn read(self, node: &Node, root: bool) -> (Reasons, u64) {
        let (mut reasons, mut dropped) = (*node.account().reasons(), node.books().dropped.packets);
        let leaf = node.qdisc().classes().is_empty();
        match self {
            Self::Nothing => {}
            Self::Forgets => reasons.drops.iter_mut().for_each(|n| *n -= *n / 10),
            Self::Confuses => {
                let limit = std::mem::take(&mut reasons.drops[DropReason::Overlimit as usize]);
                reasons.drops[DropReason::Congested as usize] += limit;
            }
            Self::LosesOnTheWayUp if !leaf => {
                reasons.drops.iter_mut().for_each(|n| *n /= 2);
                dropped = reasons.dropped();
            }
            Self::MarksStayBelow if !leaf => reasons.marks = Default::default(),
            Self::MarksTwice if root => reasons.marks.iter_mut().for_each(|n| *n *= 2),
            Self::LosesOnTheWayUp | Self::MarksStayBelow | Self::MarksTwice => {}
        }
        (reasons, dropped)
    }
}

/// The state of the law between calls.
#[derive(Debug, Default)]
pub struct Told {
    pub planted: Planted,
    /// Counts of the path that its root does not have: packets refused before any qdisc, and counts
    /// of removed roots.
    outside: Reasons,
    /// Counts of the path when its nodes were last checked; `None` after a change of the tree.
    checked: Option<Reasons>,
}

/// Reasons for which a path refuses packets before any qdisc; qdiscs drop for the second one too.
const REFUSED: [DropReason; 2] = [DropReason::PoolFull, DropReason::Oversize];

impl Told {
    /// Notes that the tree was changed: its root may be another one.
    pub fn learn(&mut self, path: &TxPath<Frame>) {
        self.outside = outside(path, &self.planted.read(path.tree().root(), true).0);
        self.checked = None;
    }

    /// Checks every node after every call in which the path has counted something.
    pub fn check(&mut self, path: &TxPath<Frame>) -> Result<(), (Law, String)> {
        let counted = counted(path);
        if self.checked == Some(counted) {
            return Ok(());
        }
        self.checked = Some(counted);
        let root = path.tree().root();
        let (was, is) = (self.outside, outside(path, &self.planted.read(root, true).0));
        let may_grow = |reason| REFUSED.contains(&reason);
        for reason in DropReason::ALL {
            let [was, is] = [was, is].map(|o| o.drops[*reason as usize]);
            if was != is && !(may_grow(*reason) && was < is) {
                return Err(broken(format!("{reason} drops outside of the root were {was} and are {is}")));
            }
        }
        for reason in MarkReason::ALL {
            let [was, is] = [was, is].map(|o| o.marks[*reason as usize]);
            if was != is {
                return Err(broken(format!("{reason} marks outside of the root were {was} and are {is}")));
            }
        }
        self.outside = is;
        let mut verdict = Ok(());
        path.tree().visit(&mut |place, node| {
            if verdict.is_ok() {
                let kind = node.qdisc().spec().kind;
                verdict = self
                    .node(node, place.depth == 0)
                    .map_err(|what| broken(format!("{kind} at {}: {what}", place.parent)));
            }
        });
        verdict
    }

    fn node(&self, node: &Node, root: bool) -> Result<(), String> {
        let (reasons, dropped) = self.planted.read(node, root);
        if reasons.dropped() != dropped {
            return Err(format!("{dropped} dropped by the books, {:?} by reason", reasons.drops));
        }
        let mut below = Reasons::default();
        for class in node.qdisc().classes() {
            let (class, _) = self.planted.read(&class.node, false);
            below.drops.iter_mut().zip(class.drops).for_each(|(sum, n)| *sum += n);
            below.marks.iter_mut().zip(class.marks).for_each(|(sum, n)| *sum += n);
        }
        let mut drops = below.drops.iter().zip(&reasons.drops);
        let mut marks = below.marks.iter().zip(&reasons.marks);
        match drops.all(|(below, all)| below <= all) && marks.all(|(below, all)| below <= all) {
            true => Ok(()),
            false => Err(format!("its classes count {below:?}, the node counts {reasons:?}")),
        }
    }
}

fn broken(what: String) -> (Law, String) {
    (Law::Reasons, what)
}

/// Returns the counts of the path.
fn counted(path: &TxPath<Frame>) -> Reasons {
    let (cx, mut counted) = (path.cx(), Reasons::default());
    DropReason::ALL.iter().for_each(|reason| counted.drops[*reason as usize] = cx.drops(*reason));
    MarkReason::ALL.iter().for_each(|reason| counted.marks[*reason as usize] = cx.marks(*reason));
    counted
}

/// Returns the counts of the path that its root does not have.
fn outside(path: &TxPath<Frame>, root: &Reasons) -> Reasons {
    let mut outside = counted(path);
    outside.drops.iter_mut().zip(root.drops).for_each(|(n, root)| *n = n.wrapping_sub(root));
    outside.marks.iter_mut().zip(root.marks).for_each(|(n, root)| *n = n.wrapping_sub(root));
    outside
}
