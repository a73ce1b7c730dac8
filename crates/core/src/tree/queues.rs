//! A tree on a device that gets more or fewer transmit queues.

use alloc::vec::Vec;

use crate::cx::Cx;
use crate::error::{ConfigError, ErrorKind};
use crate::handle::Handle;
use crate::port::{made_anew, stands_for_queues};
use crate::queues::QueueSet;
use crate::spec::Env;
use crate::tree::Tree;

impl Tree {
    /// Whether the device could have so many transmit queues: an mq or mqprio at the root must hold there too.
    pub fn check_queues(&self, queues: u16) -> Result<(), ConfigError> {
        if !(1..=QueueSet::QUEUES_MAX).contains(&queues) {
            let expected = alloc::format!("1 to {} transmit queues", QueueSet::QUEUES_MAX);
            return Err(ConfigError::new(ErrorKind::OutOfRange, "device", expected, queues).key("queues"));
        }
        match self.has_class_of_queue() {
            true => made_anew(&self.root, &Env { queues, ..self.env }).map(|_| ()),
            false => Ok(()),
        }
    }

    /// Tells the tree of another number of transmit queues. An mq or mqprio at the root has a class for each; those that
    /// stay keep what is grafted in them, and what waits in those that go is dropped, or in a swap queued again. All other
    /// kinds stay as they are, as in the reference.
    pub fn set_queues(&mut self, queues: u16, cx: &mut Cx) -> Result<(), ConfigError> {
        self.check_queues(queues)?;
        let env = Env { queues, ..self.env };
        self.env = env;
        if !self.has_class_of_queue() {
            return Ok(());
        }
        self.disturb();
        let gone = self.root.qdisc().classes().iter().map(|c| c.minor).filter(|minor| *minor > queues);
        let gone: Vec<u16> = gone.collect();
        let major = self.root.handle().major();
        gone.iter().for_each(|minor| self.orphan_below(Handle::new(major, *minor)));
        self.root.with(cx, |qdisc, cx| qdisc.fit(&env, cx));
        Ok(())
    }

    fn has_class_of_queue(&self) -> bool {
        stands_for_queues(self.root.qdisc().spec().kind)
    }
}
