//! The names of interfaces: the texts that the kernel accepts as one.

use std::fmt;
use std::str::FromStr;

/// The name of a network interface: 1 to 15 bytes, as the kernel allows them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IfName(String);

/// The reason for which a text is not the name of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameError {
    /// No byte, or more than 15 bytes (`IFNAMSIZ` - 1); the number of bytes is given.
    Length(usize),
    /// A character that the kernel does not accept (white space, `/`, `:`), or that has another
    /// meaning (`%`, by which the kernel numbers new interfaces).
    Character(char),
    /// `.` or `..`.
    Dots,
}

impl IfName {
    /// Checks a name. It does not look for an interface of this name.
    ///
    /// # Errors
    /// [`NameError`] for a text that can never be the name of an interface.
    pub fn new(name: &str) -> Result<Self, NameError> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ {
            return Err(NameError::Length(name.len()));
        }
        if matches!(name, "." | "..") {
            return Err(NameError::Dots);
        }
        let wrong = |c: &char| matches!(c, '/' | ':' | '%') || c.is_whitespace() || c.is_control();
        match name.chars().find(wrong) {
            Some(c) => Err(NameError::Character(c)),
            None => Ok(Self(name.to_owned())),
        }
    }

    /// Returns a name that the caller knows to be one.
    pub(crate) const fn known(name: String) -> Self {
        Self(name)
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IfName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for IfName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(0) => write!(f, "an interface name cannot be empty"),
            Self::Length(len) => write!(f, "an interface name has at most 15 bytes, this one has {len}"),
            Self::Character(c) => write!(f, "an interface name cannot contain {c:?}"),
            Self::Dots => write!(f, "`.` and `..` cannot be interface names"),
        }
    }
}

impl std::error::Error for NameError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "eth0", "tap-client", "enp0s31f6.100", "fifteen-bytes-0", "übertragung"] {
            assert_eq!(IfName::new(good).unwrap().as_str(), good);
        }
        let message = |name: &str| IfName::new(name).unwrap_err().to_string();
        assert_eq!(message(""), "an interface name cannot be empty");
        assert_eq!(message("sixteen-bytes-00"), "an interface name has at most 15 bytes, this one has 16");
        assert_eq!(message("tap%d"), "an interface name cannot contain '%'");
        assert_eq!(message("tap 0"), "an interface name cannot contain ' '");
        assert_eq!(message("tap\0"), "an interface name cannot contain '\\0'");
        assert_eq!(message(".."), "`.` and `..` cannot be interface names");
    }
}
