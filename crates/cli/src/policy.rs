//! Policies from files.

use std::path::Path;

use txweir::tc::Policy;

use crate::{Failure, failure};

/// Reads a policy, and warns on stderr of likely mistakes in it. `-` is stdin.
pub fn load(path: &Path) -> Result<Policy, Failure> {
    let (name, text) = text(path)?;
    let policy = Policy::parse(&text, &name)?;
    policy.warnings().iter().for_each(failure::say);
    Ok(policy)
}

/// Returns the name of a file and its text. `-` is stdin.
pub fn text(path: &Path) -> Result<(String, String), Failure> {
    let (name, text) = match path.to_str() {
        Some("-") => ("<stdin>".to_string(), std::io::read_to_string(std::io::stdin())),
        _ => (path.display().to_string(), std::fs::read_to_string(path)),
    };
    let text = text.map_err(|e| Failure::usage(format!("{name}: {e}")))?;
    Ok((name, text))
}
