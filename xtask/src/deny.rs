//! `cargo deny` over the workspace and `fuzz/`: licences, bans, sources and advisories. Installs it
//! where it is missing.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The version of cargo-deny that `deny.toml` is written for.
const VERSION: &str = "0.20.2";
/// Longest download, seconds.
const PATIENCE: &str = "60";
/// The checks that need no database.
const CHECKS: [&str; 3] = ["licenses", "bans", "sources"];
/// The manifests that are checked; the second is a workspace of its own.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "fuzz/Cargo.toml"];

/// Checks all manifests. The advisories are skipped, with the reason, if their database cannot be
/// fetched; so is everything if cargo-deny cannot be installed.
pub fn run() -> Result<(), String> {
    let Some(tool) = installed() else {
        println!("cargo deny: skipped, because cargo-deny {VERSION} cannot be installed");
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

/// Returns the binary of cargo-deny: of the user, if it has this version, or of the cache, which is
/// filled first if it is empty.
fn installed() -> Option<PathBuf> {
    let has_version = |tool: &Path| {
        let said = Command::new(tool).arg("--version").stderr(Stdio::null()).output();
        said.is_ok_and(|said| is_version(&String::from_utf8_lossy(&said.stdout)))
    };
    let own = PathBuf::from("cargo-deny");
    if has_version(&own) {
        return Some(own);
    }
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
    let dir = cache.join(format!("txweir/cargo-deny-{VERSION}"));
    let tool = dir.join("bin/cargo-deny");
    if has_version(&tool) {
        return Some(tool);
    }
    fs::create_dir_all(dir.join("bin")).ok()?;
    if !download(&dir.join("bin")) || !has_version(&tool) {
        println!(
            "cargo deny: no prebuilt binary can be fetched: builds {VERSION} once, into {}",
            dir.display()
        );
        build(&dir);
    }
    has_version(&tool).then_some(tool)
}

/// True if the output of `--version` names the pinned version.
fn is_version(said: &str) -> bool {
    said.split_whitespace().nth(1) == Some(VERSION)
}

/// Fetches the binary of the project's release into a folder.
fn download(bin: &Path) -> bool {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return false;
    }
    let name = format!("cargo-deny-{VERSION}-x86_64-unknown-linux-musl");
    let url =
        format!("https://github.com/EmbarkStudios/cargo-deny/releases/download/{VERSION}/{name}.tar.gz");
    let archive = bin.join("archive.tar.gz");
    let mut fetch = Command::new("curl");
    fetch
        .args(["--silent", "--fail", "--location", "--max-time", PATIENCE, "--output"])
        .arg(&archive)
        .arg(url);
    let mut unpack = Command::new("tar");
    unpack
        .arg("-xzf")
        .arg(&archive)
        .arg("-C")
        .arg(bin)
        .args(["--strip-components=1", &format!("{name}/cargo-deny")]);
    let done = is_done(&mut fetch) && is_done(&mut unpack);
    // The archive serves no purpose any more; it may be missing.
    let _ = fs::remove_file(&archive);
    done
}

/// Builds it from the registry. It runs for a second: the build is fast rather than its result.
fn build(dir: &Path) -> bool {
    let mut install = Command::new("cargo");
    install
        .args(["install", "--quiet", "--locked", "cargo-deny", "--version", VERSION, "--root"])
        .arg(dir)
        .env("CARGO_TARGET_DIR", dir.join("target"))
        .envs(
            [("LTO", "off"), ("OPT_LEVEL", "0"), ("CODEGEN_UNITS", "16"), ("DEBUG", "false")]
                .map(|(key, value)| (format!("CARGO_PROFILE_RELEASE_{key}"), value)),
        )
        .env_remove("RUSTFLAGS");
    let done = is_done(&mut install);
    // The intermediate files are some hundred megabytes; they may be missing.
    let _ = fs::remove_dir_all(dir.join("target"));
    done
}

fn is_done(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_not_the_pinned_one() {
        assert!(is_version(&format!("cargo-deny {VERSION}\n")));
        assert!(!is_version("cargo-deny 0.1.0\n") && !is_version(""));
    }
}
