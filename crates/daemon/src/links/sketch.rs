//! `Sketch`: all links in outline, on which the lines of a dry run are run. A dry run refuses a
//! line for the reasons for which the line itself would be refused behind those before it.

use txweir_core::Instant;
use txweir_device::IfName;
use txweir_tc::tool::{Device, LinkLine};

use super::Links;
use crate::grammar::{Make, Verb};

/// Links that are drawn before packets have their turn.
const DRAWN: usize = 16;

/// Links of the same parameters and peers, without interfaces, qdiscs, and room for packets
/// ([`Link::sketch`](crate::link::Link::sketch)).
#[derive(Debug)]
pub(crate) struct Sketch(Box<Links>);

impl Links {
    /// Runs a link command in outline, behind those of the dry run so far, and changes nothing.
    ///
    /// # Errors
    /// As [`change`](Self::change).
    pub(crate) fn try_out(&mut self, now: Instant, verb: &Verb) -> Result<LinkLine, String> {
        let mut sketch = match self.sketch.take() {
            Some(sketch) => sketch,
            None => Sketch::of(self)?,
        };
        let tried = sketch.run(self, now, verb);
        self.sketch = Some(sketch);
        tried
    }
}

impl Sketch {
    /// Draws all links.
    fn of(links: &mut Links) -> Result<Self, String> {
        let mut drawn = Links::hollow();
        // Bound: the links, none of which is added or removed while packets have their turn.
        while let Some(link) = links.all.get(drawn.all.len()) {
            drawn.all.push(link.sketch()?);
            if drawn.all.len().is_multiple_of(DRAWN) {
                links.make_way();
            }
        }
        Ok(Self(Box::new(drawn)))
    }

    /// Runs a command, with interfaces of the machine of these links.
    fn run(&mut self, links: &mut Links, now: Instant, verb: &Verb) -> Result<LinkLine, String> {
        if let Verb::Set(change) | Verb::Replace(Make { change, .. }) = verb
            && let Some(link) = links.find(change.name.as_str())
        {
            // Its root may not be possible with other queues. An outline has the default one.
            link.check(change)?;
        }
        self.0.configures = links.configures;
        std::mem::swap(&mut links.machine, &mut self.0.machine);
        let done = self.perform(now, verb);
        std::mem::swap(&mut links.machine, &mut self.0.machine);
        done
    }

    fn perform(&mut self, now: Instant, verb: &Verb) -> Result<LinkLine, String> {
        let links = &mut *self.0;
        let Some(name) = made_or_changed(verb) else {
            return Ok(LinkLine { changes: links.change(now, verb, false)?, would_be: None });
        };
        let before = links.find(name.as_str()).map(|link| *link.env());
        let changes = links.change(now, verb, false)?;
        let Some(link) = links.find_mut(name.as_str()) else {
            return Ok(LinkLine { changes, would_be: None });
        };
        let device = match before {
            // The new link itself, with its interface, goes to the caller.
            None => {
                let outline = link.sketch()?;
                Some(std::mem::replace(link, outline))
            }
            Some(before) if before != *link.env() => Some(link.sketch()?),
            Some(_) => None,
        };
        if link.io().is_some() {
            // An interface that has come back is closed again.
            *link = link.sketch()?;
        }
        Ok(LinkLine { changes, would_be: device.map(|link| Box::new(link) as Box<dyn Device>) })
    }

    /// Frees it, with turns for packets.
    pub(crate) fn free(mut self, links: &mut Links) {
        while self.0.all.pop().is_some() {
            if self.0.all.len().is_multiple_of(DRAWN) {
                links.make_way();
            }
        }
    }

    /// True if one of these links would have another number of queues.
    pub(crate) fn reshapes(&self, links: &Links) -> bool {
        links.all.iter().zip(&self.0.all).any(|(link, drawn)| link.queues != drawn.queues)
    }
}

/// Returns the link that a command makes or changes.
fn made_or_changed(verb: &Verb) -> Option<&IfName> {
    match verb {
        Verb::Add(make) | Verb::Replace(make) => Some(&make.change.name),
        Verb::Set(change) => Some(&change.name),
        Verb::Del(_) | Verb::Show(_) | Verb::Send(_) => None,
    }
}
