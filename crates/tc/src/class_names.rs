//! `ClassNames`: the names of classes, which `-nm` prints in front of their numbers.

use std::cmp::Ordering;
use std::sync::Arc;

use txweir_core::Handle;

/// Names of classes, in the order of the classes. A copy shares them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassNames(Arc<[(Handle, String)]>);

impl ClassNames {
    /// Reads the names in a text as tc has it in `/etc/iproute2/tc_cls`: on each line a class and
    /// its name; `#` begins a comment. Other lines are ignored, and so are further names of a
    /// class.
    pub fn read(text: &str) -> Self {
        let line = |line: &str| {
            let mut words = line.split('#').next()?.split_whitespace();
            Some((words.next()?.parse().ok()?, words.next()?.to_string()))
        };
        let mut names: Vec<(Handle, String)> = text.lines().filter_map(line).collect();
        // This sort keeps the order of the names of one class.
        names.sort_by_key(|(class, _)| *class);
        names.dedup_by_key(|(class, _)| *class);
        Self(names.into())
    }

    /// Returns a class as it is printed: `voice#1:2`, or `1:2` without a name.
    pub(crate) fn shown(&self, class: Handle) -> String {
        match self.find(|named| named.cmp(&class)) {
            Some(name) => format!("{name}#{class}"),
            None => class.to_string(),
        }
    }

    /// Returns the name of the class that `order` finds equal. It is asked about few of the
    /// classes: at most about the logarithm of their number.
    fn find(&self, mut order: impl FnMut(Handle) -> Ordering) -> Option<&str> {
        let at = self.0.binary_search_by(|(named, _)| order(*named)).ok()?;
        self.0.get(at).map(|(_, name)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_of_a_class_is_printed() {
        let names = ClassNames::read("2:1 b # a comment\n\n1:1 a\n# 1:3 c\nx y\n1:2\n1:1 z\n");
        let shown = |major, minor| names.shown(Handle::new(major, minor));
        assert_eq!([shown(1, 1), shown(2, 1), shown(1, 2), shown(1, 3)], ["a#1:1", "b#2:1", "1:2", "1:3"]);
    }

    /// The names that are compared for all classes of a file grow with their number, to n log n.
    #[test]
    fn a_name_is_found_among_many_as_among_few() {
        let compared = |classes: u16| {
            let text: String = (1..=classes).rev().map(|minor| format!("1:{minor:x} n{minor}\n")).collect();
            let names = ClassNames::read(&text);
            let mut compared = 0;
            for minor in 1..=classes {
                let class = Handle::new(1, minor);
                let found = names.find(|named| {
                    compared += 1;
                    named.cmp(&class)
                });
                assert_eq!(found, Some(format!("n{minor}").as_str()));
            }
            compared
        };
        let (few, many) = (compared(4096), compared(8192));
        assert!(few > 0 && many * 10 <= few * 25, "{few} {many}");
    }
}
