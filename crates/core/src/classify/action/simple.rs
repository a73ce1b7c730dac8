//! simple: writes a line for each packet, with the number of the packet (tc-simple(8)). The outlet
//! writes it ([`Outlet::say`](crate::classify::packet::Outlet::say)).

use alloc::string::String;

use super::{Control, Memory};
use crate::classify::action::Run;
use crate::classify::packet::Packet;
use crate::text::error::{ConfigError, ErrorKind, Object};

/// Largest number of bytes of a line, as in the reference.
pub const TEXT_MAX: usize = 31;

/// Parameters of simple.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simple {
    text: String,
}

impl Simple {
    /// Returns an action that writes this line.
    ///
    /// # Errors
    /// The line is longer than `TEXT_MAX`.
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

    /// Returns the line.
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
