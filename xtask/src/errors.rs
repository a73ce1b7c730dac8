//! Errors are told apart by their types: no code of a crate compares their texts.
//!
//! The texts of a `ConfigError` are for people and may be reworded. Code that decides by them
//! breaks without a compiler error. It asks `kind`, `reason`, `object` or `key` instead. The type
//! of `object` has no text to compare.

/// The one file that may look into the texts: it prints them.
const HOME: &str = "crates/core/src/text/error.rs";
/// The fields that are texts.
const TEXTS: [&str; 3] = ["expected", "given", "hint"];
/// The usual names of a value that is an error.
const ERRORS: [&str; 6] = ["e", "err", "error", "refusal", "refused", "why"];
/// Code that compares a text, where it follows one.
const COMPARES: [&str; 12] = [
    " == ",
    " != ",
    ".as_deref() == ",
    ".as_str()",
    ".contains(",
    ".ends_with(",
    ".eq_ignore_ascii_case(",
    ".find(",
    ".parse",
    ".split",
    ".starts_with(",
    ".strip_",
];
/// Code that compares the whole message, or the given word with a fixed one.
const ANYWHERE: [&str; 5] = [
    ".to_string() == ",
    ".to_string().contains(",
    ".to_string().ends_with(",
    ".to_string().starts_with(",
    ".is_given(\"",
];

/// Lists the lines outside of tests that compare a text of an error. `code` is a file up to its
/// tests.
pub fn check(name: &str, code: &str, found: &mut Vec<String>) {
    let tests = name.contains("/tests/") || name.ends_with("/tests.rs");
    if !name.contains("/src/") || name == HOME || tests {
        return;
    }
    // In such a file a bare `given` may be taken out of an error.
    let about_errors = code.contains("ConfigError");
    for (i, line) in code.lines().enumerate() {
        let line = line.split("//").next().unwrap_or(line);
        if ANYWHERE.iter().any(|compare| line.contains(compare)) || compares(line, about_errors) {
            let at = format!("{name}:{}", i + 1);
            found.push(format!("{at}: compares a text of an error: decide by its kind, reason or object"));
        }
    }
}

/// True if a line compares a text of an error; with `bare`, also a text without the error before
/// it.
fn compares(line: &str, bare: bool) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    TEXTS.iter().flat_map(|text| line.match_indices(text)).any(|(at, text)| {
        let (before, after) = (&line[..at], &line[at + text.len()..]);
        let of_error = before.strip_suffix('.').is_some_and(|before| {
            let owner = before.rfind(|c| !is_name(c)).map_or(before, |end| &before[end + 1..]);
            ERRORS.contains(&owner)
        });
        let alone = bare && !before.ends_with('.') && !before.ends_with(is_name);
        (of_error || alone) && COMPARES.iter().any(|compare| after.starts_with(compare))
    })
}

#[cfg(test)]
mod tests {
    /// Returns the number of lines that break the rule.
    fn broken(name: &str, code: &str) -> usize {
        let mut found = Vec::new();
        super::check(name, code, &mut found);
        found.len()
    }

    #[test]
    fn finds_what_decides_by_a_text() {
        for line in [
            "if err.expected == \"at most 1\" {}",
            "if e.given != \"0\" {}",
            "if err.object.to_string().starts_with(\"class \") {}",
            "match err.given.as_str() {}",
            "if err.to_string().contains(\"range\") {}",
            "if err.is_given(\"0\") {}",
        ] {
            assert_eq!(broken("crates/tc/src/x.rs", line), 1, "{line}");
        }
        for line in ["if expected == \"root\" {}", "if given.starts_with(\"a \") {}"] {
            let code = format!("use txweir_core::ConfigError;\n{line}\n");
            assert_eq!(broken("crates/tc/src/x.rs", &code), 1, "{line}");
            assert_eq!(broken("crates/tc/src/x.rs", line), 0, "{line}");
        }
    }

    #[test]
    fn leaves_alone_what_does_not() {
        let code = "use txweir_core::ConfigError; // err.given == \"0\"
            if param.expected == Rate::EXPECTED {}
            if matches!(err.object, Object::Class(Some(_))) || object == Object::Root {}
            if $given == $key {}
            format!(\"{given}\")";
        assert_eq!(broken("crates/tc/src/x.rs", code), 0);
        let line = "if err.given == \"0\" {}";
        assert_eq!(broken("crates/core/src/text/error.rs", line), 0);
        assert_eq!(broken("crates/core/tests/it/red.rs", line), 0);
    }
}
