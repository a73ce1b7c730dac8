//! `cargo xtask deb`: a Debian package of what `make install` put below `target/deb`, by cargo-deb
//! of one version.

use std::process::Command;

use crate::pinned::Tool;

/// cargo-deb, of the version that `[package.metadata.deb]` is written for.
const TOOL: Tool = Tool { name: "cargo-deb", version: "3.8.0", archive: "", folder: "", features: &[] };
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
    let tool = TOOL.installed().ok_or_else(|| format!("cargo-deb {} cannot be installed", TOOL.version))?;
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
