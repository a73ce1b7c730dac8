//! The lists of mutants.
//!
//! A line is a word and a text. `file` names a source file below `crates`, and the `by` lines after
//! it the tests that meet its mutants first: a test program and filters. `- name` begins a mutant:
//! `old` and `new` are its change (any white space in `old` matches any in the source); `at` is a
//! text of the source after which `old` is looked for, where it is there more than once; `by` names
//! tests before those of the file; `equivalent` is the reason why no test can fail. `strip` after
//! `file` names functions that are not `const` in the copy, because they call one with a mutant.

use std::fmt;

/// A change of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The text of the source after which `old` is looked for.
    pub at: Option<String>,
    pub old: String,
    pub new: String,
}

/// A fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mutant {
    /// The name of the list.
    pub area: String,
    pub name: String,
    /// The source file, below `crates`.
    pub file: String,
    /// Functions of that file that are not `const` in the copy.
    pub strip: Vec<String>,
    /// The tests that meet it first.
    pub by: Vec<Suite>,
    pub changes: Vec<Change>,
    /// The reason why no test can fail.
    pub equivalent: Option<String>,
}

/// Tests of a program: those whose names contain one of the filters, or all.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Suite {
    pub program: String,
    pub filters: Vec<String>,
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.program, self.filters.join(" "))
    }
}

impl Suite {
    /// Returns the folder of its crate, below `crates`.
    pub fn krate(&self) -> &str {
        self.program.split('/').next().unwrap_or_default()
    }
}

impl Mutant {
    /// Returns its name with that of its list.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.area, self.name)
    }
    /// Returns the folder of its crate, below `crates`.
    pub fn krate(&self) -> &str {
        self.file.split('/').next().unwrap_or_default()
    }
    /// Returns the tests that it meets: those that the list names, then all of its crate.
    pub fn suites(&self) -> Vec<Suite> {
        let all = |program: String| Suite { program, filters: Vec::new() };
        let whole = [all(self.krate().to_owned()), all(format!("{}/it", self.krate()))];
        self.by.iter().cloned().chain(whole).collect()
    }
}

/// Reads a list.
pub fn parse(area: &str, text: &str) -> Result<Vec<Mutant>, String> {
    let mut all: Vec<Mutant> = Vec::new();
    // The lines of a file apply to the mutants after them.
    let mut file = Mutant { area: area.into(), ..Mutant::default() };
    let mut inside = false;
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = |what: &str| Err(format!("{area}.txt:{number}: {what}: {line}"));
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        let suite = || {
            let mut words = rest.split(' ').map(String::from);
            Suite { program: words.next().unwrap_or_default(), filters: words.collect() }
        };
        let mutant = all.last_mut().filter(|_| inside);
        match (word, mutant) {
            ("file", _) => {
                file = Mutant { area: area.into(), file: rest.into(), ..Mutant::default() };
                inside = false;
            }
            ("by", None) => file.by.push(suite()),
            ("strip", None) => file.strip.extend(rest.split(' ').map(String::from)),
            ("-", _) => {
                all.push(Mutant { name: rest.into(), ..file.clone() });
                inside = true;
            }
            ("by", Some(mutant)) => mutant.by.insert(0, suite()),
            ("at", Some(mutant)) => {
                mutant.changes.push(Change { at: Some(rest.into()), ..Change::default() });
            }
            ("old", Some(mutant)) => match mutant.changes.last_mut().filter(|c| c.old.is_empty()) {
                Some(change) => change.old = rest.into(),
                None => mutant.changes.push(Change { old: rest.into(), ..Change::default() }),
            },
            ("new", Some(mutant)) => match mutant.changes.last_mut() {
                Some(change) => change.new = rest.into(),
                None => return wrong("no old text"),
            },
            ("equivalent", Some(mutant)) => mutant.equivalent = Some(rest.into()),
            _ => return wrong("not a line of a list"),
        }
    }
    match all
        .iter()
        .find(|m| m.file.is_empty() || m.changes.iter().any(|c| c.old.is_empty()) || m.changes.is_empty())
    {
        Some(mutant) => Err(format!("{area}.txt: {} has no file or no old text", mutant.name)),
        None => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read() {
        let text = "\
# A comment.
file core/src/a.rs
by core a::
strip f g
- one
old x < y
new x <= y
- two
at fn late
old z;
new
by core/it b c
equivalent for a reason
";
        let all = parse("dql", text).unwrap();
        let suite = |program: &str, filters: &[&str]| Suite {
            program: program.into(),
            filters: filters.iter().map(|f| (*f).into()).collect(),
        };
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].full_name(), all[0].krate()), ("dql/one".into(), "core"));
        assert_eq!(all[0].changes, [Change { at: None, old: "x < y".into(), new: "x <= y".into() }]);
        assert_eq!(all[0].strip, ["f", "g"]);
        let whole = [suite("core", &[]), suite("core/it", &[])];
        assert_eq!(all[0].suites(), [&[suite("core", &["a::"])][..], &whole].concat());
        assert_eq!(all[1].suites()[0], suite("core/it", &["b", "c"]));
        assert_eq!(all[1].changes, [Change { at: Some("fn late".into()), old: "z;".into(), new: "".into() }]);
        assert_eq!(all[1].equivalent.as_deref(), Some("for a reason"));
    }

    #[test]
    fn a_list_with_a_fault_is_refused() {
        assert!(parse("a", "old x").unwrap_err().starts_with("a.txt:1: not a line of a list"));
        assert!(parse("a", "file f\n- one\nnew x").unwrap_err().starts_with("a.txt:3: no old text"));
        assert!(parse("a", "file f\n- one\n").unwrap_err().contains("one has no file or no old text"));
    }
}
