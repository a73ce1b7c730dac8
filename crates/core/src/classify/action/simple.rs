//! simple: has a line written for each packet, with its number (tc-simple(8)). The line is the outlet's
//! ([`Outlet::say`](crate::classify::packet::Outlet::say)).

use alloc::string::String;

use super::{Control, Memory};
use crate::classify::action::Run;
use crate::classify::packet::Packet;
use crate::text::error::{ConfigError, ErrorKind, Object};

/// Bytes of a line, at most, as in the reference.
pub const TEXT_MAX: usize = 31;

/// Parameters of simple.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simple {
    text: String,
}

impl Simple {
    /// With this line.
    ///
    /// # Errors
    /// It is longer than `TEXT_MAX`.
    pub fn new(text: String) -> Result<Self, ConfigError> {
        match text.len() > TEXT_MAX {
            true => {
                let expected = alloc::format!("at most {TEXT_MAX} bytes");
                Err(ConfigError::new(ErrorKind::OutOfRange, Object::ActionOptions("simple"), expected, text)
                    .key("sdata"))
            }
            false => Ok(Self { text }),
        }
    }

    /// The line.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn run(
        &self,
        control: Control,
        _: &mut Packet<'_>,
        mine: &mut Memory,
        run: &mut Run<'_>,
    ) -> Control {
        run.outlet.say(&self.text, mine.packets);
        control
    }
}
