//! The place and the filters that a `filter` or `chain` line is about.

use std::ops::Range;
use std::sync::Arc;

use txweir_core::Handle;
use txweir_core::classify::filter::{BlockId, Named};

use super::blocks;
use super::places::place;
use super::session::{Session, no_device};
use crate::action::CHAIN_MAX;
use crate::ast::{At, FilterCommand, Place, Target, Verb};
use crate::diagnostic::{Diagnostic, code};
use crate::failure::{Failure, USAGE};
use crate::filter;
use crate::kernel;
use crate::protocol;
use crate::sentence::Sentence;
use crate::source::Source;

/// A line about filters.
pub(super) struct Line<'a> {
    pub(super) source: &'a Arc<Source>,
    pub(super) span: &'a Range<usize>,
    pub(super) place: Option<&'a At<Place>>,
}

/// The place of filters.
pub(super) struct Found {
    /// The device; `None` if the line is about a block that devices share.
    pub(super) dev: Option<String>,
    /// The name by which the tree knows the place.
    pub(super) at: Handle,
    /// The place as the line named it.
    pub(super) said: Handle,
    /// The filters at the place.
    pub(super) block: Option<BlockId>,
}

impl Line<'_> {
    pub(super) fn error(
        &self,
        code: &'static str,
        span: &Range<usize>,
        message: impl Into<String>,
    ) -> Diagnostic {
        Diagnostic::error(code, self.source, span.clone(), message)
    }
    pub(super) fn refused(
        &self,
        code: &'static str,
        span: &Range<usize>,
        message: impl Into<String>,
    ) -> Failure {
        Failure::refused(self.error(code, span, message))
    }
    pub(super) fn usage(&self, span: &Range<usize>, message: &str, expected: &str) -> Failure {
        let diagnostic = self.error(code::MISSING, span, message).expected(expected);
        Failure { status: USAGE, diagnostic }
    }

    /// Returns the device and the place that a line is about.
    pub(super) fn find(&self, session: &mut Session<'_>, target: Option<&Target>) -> Result<Found, Failure> {
        let dev = match target {
            Some(Target::Dev(dev)) => dev,
            Some(Target::Block(block)) if block.value == 0 => return Err(blocks::none(self.source, block)),
            Some(Target::Block(number)) => {
                let block = session.devices.filters().shared(number.value);
                if block.is_none() {
                    return Err(Failure::refused(blocks::missing(self.source, number)));
                }
                return Ok(Found { dev: None, at: Handle::NONE, said: Handle::NONE, block });
            }
            None => {
                let err = self.error(code::MISSING, self.span, "this does not say on which device");
                let err = err.expected("dev NAME").linux(kernel::NO_DEVICE_TALKING);
                return Err(Failure::refused(err));
            }
        };
        session.find(self.source, dev)?;
        let Some(device) = session.devices.device(&dev.text) else {
            return Err(no_device(self.source, dev, None));
        };
        let (at, said) = place(device, self.place.map(|p| p.value)).map_err(|no| {
            let span = self.place.map_or(self.span, |p| &p.span);
            Failure::refused(self.error(code::NOT_FOUND, span, no.message).linux(no.linux))
        })?;
        let block = device.tree().block(at);
        if let Some(number) = block.and_then(|block| session.devices.filters().block(block)?.number()) {
            let message = format!("the filters of {} are those of block {number} there", dev.text);
            let err = self.error(code::CONFLICT, &dev.span, message);
            let err = err.hint(Some(format!("say block {number} in place of the device")));
            return Err(Failure::refused(err.linux(kernel::SHARED_BLOCK)));
        }
        Ok(Found { dev: Some(dev.text.clone()), at, said, block })
    }

    /// Returns the filters that a line names.
    pub(super) fn named(&self, cmd: &FilterCommand) -> Result<Named, Failure> {
        let chain = self.chain(cmd.chain.as_ref())?;
        let prio = cmd.prio.as_ref().and_then(|p| u16::try_from(p.value).ok()).filter(|p| *p != 0);
        let protocol =
            cmd.protocol.as_ref().and_then(|word| protocol::number(&word.text)).filter(|n| *n != 0);
        let handle = match (&cmd.handle, &cmd.kind) {
            (Some(handle), None) => {
                let failure = self.usage(&handle.span, "a handle is a kind's own", "the kind of the filter");
                return Err(failure.linux(match cmd.verb {
                    Verb::Get => Sentence::MustSpecify("type"),
                    _ => Sentence::MustSpecify("type when using \"handle\""),
                }));
            }
            (Some(word), Some(kind)) => Some(filter::handle(&kind.text, &word.text).ok_or_else(|| {
                let message = format!("\"{}\" is not the handle of a {} filter", word.text, kind.text);
                let err = self.error(code::BAD_VALUE, &word.span, message);
                let linux = filter::illegal_handle(&kind.text, &word.text);
                Failure::unparsable(Diagnostic { linux, ..err })
            })?),
            (None, _) => None,
        };
        Ok(Named { chain, prio, protocol, handle: handle.filter(|h| *h != 0) })
    }

    pub(super) fn chain(&self, chain: Option<&At<u32>>) -> Result<u32, Failure> {
        match chain {
            Some(At { value, span }) if *value > CHAIN_MAX => {
                let err = self.error(code::OUT_OF_RANGE, span, format!("chain {value} is out of range"));
                let err = err.expected(format!("at most {CHAIN_MAX}"));
                Err(Failure::refused(err.linux(kernel::CHAIN_ABOVE)))
            }
            chain => Ok(chain.map_or(0, |c| c.value)),
        }
    }
}
