//! Policies and other texts from files.

use std::path::Path;

use txweir::tc::Policy;

use crate::{Failure, failure, input};

/// Reads a policy, and warns on stderr of likely mistakes in it. `-` is stdin.
pub fn load(path: &Path) -> Result<Policy, Failure> {
    let (name, text) = text(path)?;
    let policy = Policy::parse(&text, &name)?;
    policy.warnings().iter().for_each(failure::say);
    Ok(policy)
}

/// Returns the name of a file and its text. `-` is stdin.
pub fn text(path: &Path) -> Result<(String, String), Failure> {
    input::text(path).map_err(Failure::usage)
}
