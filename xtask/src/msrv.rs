//! `cargo xtask msrv`: the workspace builds with the oldest toolchain that it names
//! (`rust-version`).

use std::process::Command;

use crate::files::read;
use crate::pinned::is_done;
use crate::published;

/// Checks every crate with that toolchain. Says so if it is the one of this run, which the other
/// checks use, or the reason if it cannot be had.
pub fn run() -> Result<(), String> {
    let root = crate::root();
    let manifest = read(&root.join("Cargo.toml"))?;
    let oldest = published::value(&manifest, "rust-version").ok_or("Cargo.toml: no rust-version")?;
    let said = Command::new("rustc").arg("--version").output().map_err(|e| format!("rustc: {e}"))?;
    if is_of(&String::from_utf8_lossy(&said.stdout), oldest) {
        println!("msrv: {oldest} is the toolchain of this run");
        return Ok(());
    }
    if !is_done(Command::new("rustup").args(["toolchain", "install", oldest, "--profile", "minimal"])) {
        println!("msrv: skipped, because rustup cannot install {oldest}");
        return Ok(());
    }
    let status = crate::cargo()
        .args(["check", "--workspace", "--all-features", "--locked", "--quiet"])
        .env("RUSTUP_TOOLCHAIN", oldest)
        // Cargo's own choice of a compiler would win over the toolchain.
        .env_remove("RUSTC")
        .env("CARGO_TARGET_DIR", published::target(&root).join("msrv"))
        .current_dir(&root)
        .status()
        .map_err(|e| format!("cargo: {e}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("the workspace does not build with Rust {oldest}, its rust-version")),
    }
}

/// True if `rustc --version` names this version, of which the last number may be left open.
fn is_of(said: &str, version: &str) -> bool {
    let word = said.split_whitespace().nth(1).unwrap_or("");
    let released = !word.contains('-');
    released && (word == version || word.strip_prefix(version).is_some_and(|rest| rest.starts_with('.')))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_patch_release_is_of_its_version() {
        assert!(super::is_of("rustc 1.95.0 (59807616e 2026-04-14)", "1.95"));
        assert!(super::is_of("rustc 1.95.1", "1.95.1"));
        assert!(!super::is_of("rustc 1.950.0", "1.95") && !super::is_of("rustc 1.96.0", "1.95"));
        assert!(!super::is_of("rustc 1.95.0-nightly (e50aa6fba 2026-05-19)", "1.95"));
    }
}
