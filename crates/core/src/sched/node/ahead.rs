//! `Ahead`: how far the memory that a packet will touch has been asked for, on its way down the
//! qdiscs.

use super::{Class, Node};
use crate::packet::meta::Meta;
use crate::packet::pool::Pool;

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
                txweir_ahead::value(class.node.qdisc());
                Self::Step(&class.node, 0)
            }
            Self::Nothing => Self::Nothing,
        }
    }
}
