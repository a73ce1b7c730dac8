//! Tools of one pinned version: taken from the path, fetched, or built once into a cache.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Longest download, seconds.
pub const PATIENCE: &str = "60";

/// A tool of crates.io; its project may publish binaries.
pub struct Tool {
    /// The name of the package and of its binary.
    pub name: &'static str,
    /// The only version that is used.
    pub version: &'static str,
    /// The address of the project's archive for Linux on x86_64 (tar.gz), with `VERSION` in place
    /// of the version; empty if there is none.
    pub archive: &'static str,
    /// The folder of the binary in the archive, written in the same way; empty if there is none.
    pub folder: &'static str,
    /// The words that choose features when it is built.
    pub features: &'static [&'static str],
}

impl Tool {
    /// Returns the binary: of the user, if it has this version, or of the cache, which is filled
    /// first if it is empty; `None` if it cannot be had.
    pub fn installed(&self) -> Option<PathBuf> {
        let own = PathBuf::from(self.name);
        if self.has_version(&own) {
            return Some(own);
        }
        let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
        let dir = cache.join(format!("txweir/{}-{}", self.name, self.version));
        let tool = dir.join("bin").join(self.name);
        if self.has_version(&tool) {
            return Some(tool);
        }
        fs::create_dir_all(dir.join("bin")).ok()?;
        if !self.download(&dir.join("bin")) || !self.has_version(&tool) {
            let Self { name, version, .. } = self;
            println!(
                "{name}: no prebuilt binary can be fetched: builds {version} once, into {}",
                dir.display()
            );
            self.build(&dir);
        }
        self.has_version(&tool).then_some(tool)
    }

    fn has_version(&self, tool: &Path) -> bool {
        let said = Command::new(tool).arg("--version").stderr(Stdio::null()).output();
        said.is_ok_and(|said| self.is_version(&String::from_utf8_lossy(&said.stdout)))
    }

    /// True if the output of `--version` names the pinned version, with a `v` before it or without.
    fn is_version(&self, said: &str) -> bool {
        said.split_whitespace().nth(1).map(|word| word.trim_start_matches('v')) == Some(self.version)
    }

    /// Fetches the binary of the project's release into a folder.
    fn download(&self, bin: &Path) -> bool {
        if self.archive.is_empty() || !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return false;
        }
        let archive = bin.join("archive.tar.gz");
        let mut fetch = Command::new("curl");
        fetch
            .args(["--silent", "--fail", "--location", "--max-time", PATIENCE, "--output"])
            .arg(&archive)
            .arg(self.archive.replace("VERSION", self.version));
        let mut unpack = Command::new("tar");
        unpack.arg("-xzf").arg(&archive).arg("-C").arg(bin);
        match self.folder {
            "" => unpack.arg(self.name),
            folder => unpack
                .arg("--strip-components=1")
                .arg(format!("{folder}/{}", self.name).replace("VERSION", self.version)),
        };
        let done = is_done(&mut fetch) && is_done(&mut unpack);
        // The archive serves no purpose any more; it may be missing.
        let _ = fs::remove_file(&archive);
        done
    }

    /// Builds it from the registry. It runs for seconds: the build is fast rather than its result.
    fn build(&self, dir: &Path) -> bool {
        let mut install = crate::cargo();
        install
            .args(["install", "--quiet", "--locked", self.name, "--version", self.version])
            .args(self.features)
            .arg("--root")
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
}

/// True if a command ends with success; its output is dropped.
pub fn is_done(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_not_the_pinned_one() {
        let tool = Tool { name: "some", version: "0.20.2", archive: "", folder: "", features: &[] };
        assert!(tool.is_version("some 0.20.2\n") && tool.is_version("some v0.20.2"));
        assert!(!tool.is_version("some 0.1.0\n") && !tool.is_version(""));
    }
}
