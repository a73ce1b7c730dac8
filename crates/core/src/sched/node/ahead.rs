//! `Ahead`: how far the memory that a packet will touch has been asked for, on its way down the
//! qdiscs, and the same on the way of the next packet out of a class.

use super::{Class, Node};
use crate::packet::meta::Meta;
use crate::packet::pool::Pool;
use crate::packet::scouts::Way;

/// Answer of a qdisc to a step.
#[derive(Clone, Copy, Debug)]
pub enum Soon<'a> {
    /// The packet will wait in this class, of which the first line has been asked for.
    Class(&'a Class),
    /// The qdisc has another step.
    More,
    /// Nothing further is known.
    Nothing,
}

/// The next thing to ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ahead<'a> {
    /// That of a step of a qdisc (`Discipline::expect`).
    Step(&'a Node, u32),
    /// The qdisc of a class.
    Qdisc(&'a Class),
    Nothing,
}

impl<'a> Ahead<'a> {
    /// Asks for it. Returns what comes next, which reads the memory that was asked for now: the
    /// caller takes this step for other packets before.
    #[inline]
    pub(crate) fn ask(self, m: &Meta, pool: &Pool) -> Self {
        match self {
            Self::Step(node, step) => match node.expect(m, step, pool) {
                Soon::Class(class) => Self::Qdisc(class),
                Soon::More => Self::Step(node, step + 1),
                Soon::Nothing => Self::Nothing,
            },
            Self::Qdisc(class) => {
                class.node.qdisc().ask();
                Self::Step(&class.node, 0)
            }
            Self::Nothing => Self::Nothing,
        }
    }
}

impl Class {
    /// Asks for the memory of a step on the way to the packet that leaves this class next: that of
    /// the class in step 0, of its qdisc in step 1, then what that one knows. With `queue` above 0
    /// it is the first packet of the queue that has its turn so many turns later.
    pub(crate) fn way_out(&self, step: u8, queue: u8, pool: &mut Pool) -> Way {
        match step {
            0 => txweir_ahead::first_line(self),
            1 => self.node.qdisc().ask(),
            step => return self.node.qdisc().way_out(step - 2, queue, pool),
        }
        Way::More
    }
}
