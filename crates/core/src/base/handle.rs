//! `Handle`: the name of a qdisc or class, `major:minor`, two 16-bit hexadecimal numbers (tc(8),
//! "CLASSES").

use core::fmt;
use core::str::FromStr;

/// A qdisc (`8001:`, minor 0) or class (`1:10`) name. Both halves are hexadecimal in text.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u32);

/// The name of a class: the same number, used where a class is meant (`flowid`, `classid`).
pub type ClassId = Handle;

impl Handle {
    /// "No handle": the default qdisc's name, and an unset class.
    pub const NONE: Self = Self(0);
    /// The word `root`.
    pub const ROOT: Self = Self(u32::MAX);

    /// Returns `major:minor`.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self((major as u32) << 16 | minor as u32)
    }
    /// Returns the part before the colon, the number of the qdisc.
    pub const fn major(self) -> u16 {
        (self.0 >> 16) as u16
    }
    /// Returns the part after the colon, the number of the class; 0 is the qdisc itself.
    pub const fn minor(self) -> u16 {
        self.0 as u16
    }
    /// Returns the qdisc of this class: the same major, minor 0.
    pub const fn qdisc(self) -> Self {
        Self(self.0 & 0xffff_0000)
    }
    /// True for `0:`, the unset handle.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Handle {
    /// Writes the handle as tc does: `root`, `none`, `1:` for a qdisc, `1:a` for a class, `:2`
    /// without a major.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (*self, self.major(), self.minor()) {
            (Self::ROOT, ..) => f.write_str("root"),
            (Self::NONE, ..) => f.write_str("none"),
            (_, 0, minor) => write!(f, ":{minor:x}"),
            (_, major, 0) => write!(f, "{major:x}:"),
            (_, major, minor) => write!(f, "{major:x}:{minor:x}"),
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Error for a text that is not a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandleError;

impl fmt::Display for HandleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MAJOR:MINOR, two hexadecimal numbers of at most four digits")
    }
}

impl core::error::Error for HandleError {}

impl FromStr for Handle {
    type Err = HandleError;

    /// Parses `root`, `none`, `1:`, `1:a`, `:a`, or `1` (a qdisc's major alone, as tc accepts for
    /// `handle`).
    fn from_str(s: &str) -> Result<Self, HandleError> {
        fn half(s: &str) -> Result<u16, HandleError> {
            match s {
                "" => Ok(0),
                _ if s.len() > 4 || !s.bytes().all(|b| b.is_ascii_hexdigit()) => Err(HandleError),
                _ => u16::from_str_radix(s, 16).map_err(|_| HandleError),
            }
        }
        match s {
            "" | ":" => Err(HandleError),
            "root" => Ok(Self::ROOT),
            "none" => Ok(Self::NONE),
            _ => {
                let (major, minor) = s.split_once(':').unwrap_or((s, ""));
                Ok(Self::new(half(major)?, half(minor)?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn text_round_trips_in_hexadecimal() {
        for (text, h) in [
            ("1:", Handle::new(1, 0)),
            ("1:10", Handle::new(1, 0x10)),
            ("8001:a", Handle::new(0x8001, 10)),
            (":2", Handle::new(0, 2)),
            ("root", Handle::ROOT),
            ("none", Handle::NONE),
        ] {
            assert_eq!(text.parse::<Handle>(), Ok(h));
            assert_eq!(h.to_string(), text);
        }
        assert_eq!("1".parse::<Handle>(), Ok(Handle::new(1, 0)));
    }

    #[test]
    fn refuses_what_is_not_a_handle() {
        for text in ["", ":", "1:2:3", "12345:", "1:12345", "g:", "0x1:", "-1:", "1 :"] {
            assert_eq!(text.parse::<Handle>(), Err(HandleError), "{text:?}");
        }
    }
}
