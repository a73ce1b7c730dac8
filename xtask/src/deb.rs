//! `cargo xtask deb`: a Debian package of what `make install` put below `target/deb`, by cargo-deb
//! of one version.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The version of cargo-deb that `[package.metadata.deb]` is written for.
const VERSION: &str = "3.8.0";
/// The binary among the package's contents, as they are installed.
const BINARY: &str = "target/deb/usr/bin/txweir";
/// The folder of the units, which is there if there are any.
const UNITS: &str = "target/deb/usr/lib/systemd/system";

/// Makes the package, in `target/debian`.
pub fn run() -> Result<(), String> {
    let root = crate::root();
    if !root.join(BINARY).exists() {
        return Err(format!("{BINARY} is not there: `make deb` installs what belongs into the package"));
    }
    let tool = installed().ok_or_else(|| format!("cargo-deb {VERSION} cannot be installed"))?;
    let mut deb = Command::new(&tool);
    // The binary is built and stripped already.
    deb.args(["--package", "txweir-cli", "--no-build", "--no-strip", "--locked", "--quiet"])
        .args(["--output", "target/debian/"])
        .current_dir(&root);
    if root.join(UNITS).exists() {
        deb.args(["--variant", "unit"]);
    }
    match deb.status().map_err(|e| format!("{}: {e}", tool.display()))?.success() {
        true => Ok(()),
        false => Err("cargo-deb makes no package".into()),
    }
}

/// Returns the binary of cargo-deb: of the user, if it has this version, or of the cache, which is
/// filled first if it is empty.
fn installed() -> Option<PathBuf> {
    let own = PathBuf::from("cargo-deb");
    if has_version(&own) {
        return Some(own);
    }
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
    let dir = cache.join(format!("txweir/cargo-deb-{VERSION}"));
    let tool = dir.join("bin/cargo-deb");
    if !has_version(&tool) {
        println!("cargo deb: builds cargo-deb {VERSION} once, into {}", dir.display());
        let mut install = Command::new("cargo");
        install
            .args(["install", "--quiet", "--locked", "cargo-deb", "--version", VERSION, "--root"])
            .arg(&dir)
            .env("CARGO_TARGET_DIR", dir.join("target"))
            .envs(
                [("LTO", "off"), ("OPT_LEVEL", "0")].map(|(k, v)| (format!("CARGO_PROFILE_RELEASE_{k}"), v)),
            )
            .env_remove("RUSTFLAGS");
        install.status().ok()?;
        // The intermediate files are some hundred megabytes; they may be missing.
        let _ = std::fs::remove_dir_all(dir.join("target"));
    }
    has_version(&tool).then_some(tool)
}

fn has_version(tool: &Path) -> bool {
    let said = Command::new(tool).arg("--version").stderr(Stdio::null()).output();
    said.is_ok_and(|said| is_version(&String::from_utf8_lossy(&said.stdout)))
}

/// True if the output of `--version` names the pinned version.
fn is_version(said: &str) -> bool {
    said.split_whitespace().nth(1) == Some(VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_not_the_pinned_one() {
        assert!(is_version(&format!("cargo-deb {VERSION}\n")));
        assert!(!is_version("cargo-deb 0.1.0\n") && !is_version(""));
    }
}
