//! The number and the form of a parameter in Linux's messages (rtnetlink(7), `linux/pkt_sched.h`),
//! declared beside the parameter.

/// A parameter as an attribute of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its number among the options of the kind, at least 1.
    pub number: u16,
    /// The form of its value.
    pub form: Form,
}

/// Width and unit of an attribute's value, in the byte order of the machine. Sizes are bytes, rates
/// bytes per second, a flag is 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "`params!` has these words, which are those of widths")]
pub enum Form {
    /// A number of 8 bits.
    u8,
    /// A number of 32 bits.
    u32,
    /// A number of 64 bits.
    u64,
    /// Microseconds, 32 bits.
    us32,
    /// Nanoseconds, 32 bits.
    ns32,
}

impl Form {
    /// Returns the bytes of a value.
    #[must_use]
    pub const fn width(self) -> usize {
        match self {
            Self::u8 => 1,
            Self::u32 | Self::us32 | Self::ns32 => 4,
            Self::u64 => 8,
        }
    }
}
