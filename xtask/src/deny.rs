//! `cargo deny` over the workspace and `fuzz/`: licences, bans, sources and advisories. Installs it
//! where it is missing.

use std::process::Command;

use crate::pinned::{PATIENCE, Tool, is_done};

/// cargo-deny, of the version that `deny.toml` is written for.
const TOOL: Tool = Tool {
    name: "cargo-deny",
    version: "0.20.2",
    archive: "https://github.com/EmbarkStudios/cargo-deny/releases/download/VERSION/\
              cargo-deny-VERSION-x86_64-unknown-linux-musl.tar.gz",
    folder: "cargo-deny-VERSION-x86_64-unknown-linux-musl",
    features: &[],
};

/// The checks that need no database.
const CHECKS: [&str; 3] = ["licenses", "bans", "sources"];
/// The manifests that are checked; the second is a workspace of its own.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "fuzz/Cargo.toml"];

/// Checks all manifests. The advisories are skipped, with the reason, if their database cannot be
/// fetched; so is everything if cargo-deny cannot be installed.
pub fn run() -> Result<(), String> {
    let Some(tool) = TOOL.installed() else {
        println!("cargo deny: skipped, because cargo-deny {} cannot be installed", TOOL.version);
        return Ok(());
    };
    let mut checks = CHECKS.to_vec();
    if is_done(Command::new("timeout").arg(PATIENCE).arg(&tool).args(["--log-level", "off", "fetch", "db"])) {
        checks.push("advisories");
    } else {
        println!("cargo deny advisories: skipped, because their database cannot be fetched");
    }
    for manifest in MANIFESTS {
        let mut check = Command::new(&tool);
        check
            .args(["--manifest-path", manifest, "--config", "deny.toml", "--log-level", "error"])
            .args(["--locked", "check", "--hide-inclusion-graph"])
            .args(&checks)
            .current_dir(crate::root());
        let status = check.status().map_err(|e| format!("{}: {e}", tool.display()))?;
        if !status.success() {
            return Err(format!("cargo deny refuses {manifest}"));
        }
    }
    Ok(())
}
