//! Markings that a user gives to the traffic of a trial: the code point of its packets, or their
//! firewall mark, of all groups or of those of one name.

use txweir_core::packet::headers::tos_priority;

use super::mix::{Loads, Traffic};
use crate::scenario::code_point;

/// A marking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marking {
    /// A code point of the DS field (RFC 2474), 0 to 63. The packets get the priority too that
    /// Linux gives a socket with such a TOS field (ip(7)).
    Dscp(u8),
    /// A firewall mark, at the host that sends the packets.
    Mark(u32),
}

/// Markings of a line: the group, if one is named, and its marking.
type Said<'a> = (Option<&'a str>, Marking);

impl Marking {
    /// Reads `[GROUP=]DSCP`: the name of a code point (`ef`, `cs1`, `af41`, `le`), or 0 to 63.
    ///
    /// # Errors
    /// The value is neither.
    pub fn dscp(text: &str) -> Result<Said<'_>, String> {
        let (group, value) = parts(text);
        let number = || value.parse().ok().filter(|n| *n < 64);
        let found = code_point(value).or_else(number);
        let expected = "expected the name of a code point (ef, cs1, af41, le), or 0 to 63";
        found.map(|n| (group, Self::Dscp(n))).ok_or_else(|| format!("{expected}, given \"{value}\""))
    }

    /// Reads `[GROUP=]MARK`: a number of 32 bits, decimal or `0x` hexadecimal.
    ///
    /// # Errors
    /// The value is no such number.
    pub fn mark(text: &str) -> Result<Said<'_>, String> {
        let (group, value) = parts(text);
        let found = match value.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => value.parse(),
        };
        let expected = "expected a mark, 0 to 4294967295 or 0x0 to 0xffffffff";
        found.map(|n| (group, Self::Mark(n))).map_err(|_| format!("{expected}, given \"{value}\""))
    }
}

/// Splits the group from a value. The last `=` parts them, because a group may have one in its
/// name.
fn parts(text: &str) -> (Option<&str>, &str) {
    text.rsplit_once('=').map_or((None, text), |(group, value)| (Some(group), value))
}

impl Traffic {
    /// Returns the same traffic with a marking on the packets, both ways, of the groups of this
    /// name, or of all groups. A later marking of the same sort replaces an earlier one.
    ///
    /// # Errors
    /// Fails for a capture, whose packets are as they are, and where no group has the name.
    pub fn marked(mut self, name: Option<&str>, marking: Marking) -> Result<Self, String> {
        let Loads::Groups(groups) = &mut self.load else {
            return Err(format!("expected a mix or [[traffic]], given a capture, {}", self.name));
        };
        let mut found = false;
        for (group, _) in groups.iter_mut().filter(|(group, _)| name.is_none_or(|name| group.name == name)) {
            found = true;
            match marking {
                Marking::Dscp(n) => {
                    // The two lower bits of the field are those of ECN.
                    group.ds = n << 2;
                    group.priority = tos_priority(group.ds);
                }
                Marking::Mark(n) => group.mark = n,
            }
        }
        let name = name.unwrap_or("all");
        if !found {
            let mut names: Vec<&str> = groups.iter().map(|(group, _)| group.name.as_str()).collect();
            names.dedup();
            return Err(format!("expected a group of {}: {}, given \"{name}\"", self.name, names.join(", ")));
        }
        let said = match marking {
            Marking::Dscp(n) => format!(", {name} with code point {n}"),
            Marking::Mark(n) => format!(", {name} with mark {n}"),
        };
        self.about += &said;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_values_are_read() {
        for (text, read) in [
            ("cs1", Some((None, Marking::Dscp(8)))),
            ("up=EF", Some((Some("up"), Marking::Dscp(46)))),
            ("up be=10", Some((Some("up be"), Marking::Dscp(10)))),
            ("a=b=63", Some((Some("a=b"), Marking::Dscp(63)))),
            ("64", None),
            ("up=", None),
            ("", None),
        ] {
            assert_eq!(Marking::dscp(text).ok(), read, "{text:?}");
        }
        for (text, read) in [
            ("5", Some((None, Marking::Mark(5)))),
            ("rr=0xff", Some((Some("rr"), Marking::Mark(255)))),
            ("4294967296", None),
            ("0x", None),
            ("-1", None),
        ] {
            assert_eq!(Marking::mark(text).ok(), read, "{text:?}");
        }
    }

    #[test]
    fn a_marking_is_of_the_named_group_or_of_all() {
        let groups = |traffic: &Traffic| match &traffic.load {
            Loads::Groups(all) => {
                all.iter().map(|(g, _)| (g.name.clone(), g.ds, g.mark, g.priority)).collect::<Vec<_>>()
            }
            Loads::Replay(_) => Vec::new(),
        };
        let mix = || Traffic::mix("bulk+rr").expect("a mix");
        let one = mix().marked(Some("bulk"), Marking::Dscp(8)).expect("a group");
        assert_eq!(groups(&one), [("bulk".into(), 32, 0, 0), ("rr".into(), 0, 0, 0)]);
        let all = one.marked(None, Marking::Mark(7)).expect("all groups");
        assert_eq!(groups(&all), [("bulk".into(), 32, 7, 0), ("rr".into(), 0, 7, 0)]);
        // The priority is that of a socket with such a TOS field.
        let ef = mix().marked(None, Marking::Dscp(46)).expect("all groups");
        assert_eq!(groups(&ef), [("bulk".into(), 184, 0, 4), ("rr".into(), 184, 0, 4)]);
        assert!(all.about.ends_with(", bulk with code point 8, all with mark 7"), "{}", all.about);
        assert_eq!(
            mix().marked(Some("up"), Marking::Mark(1)).map(|_| ()),
            Err("expected a group of bulk+rr: bulk, rr, given \"up\"".into())
        );
    }
}
