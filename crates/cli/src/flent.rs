//! Files of flent: runs of real lines beside the policies, and the runs of the policies.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use txweir::lab::flent::{FILE_BYTES_MAX, LINES_MAX, Line};
use txweir::lab::trial::{Trial, written};

use crate::Failure;

/// Options for files of flent.
#[derive(Debug, clap::Args)]
pub struct Files {
    /// A run of a real line by flent (.flent.gz, .flent or .json), beside the policies; up to four
    ///
    /// The time in which TCP sent is compared: throughput, and the round trips of the pings.
    #[arg(long, value_name = "FILE")]
    flent: Vec<PathBuf>,

    /// Write the run shown of each policy into this directory, as NAME.flent.gz for flent
    #[arg(long, value_name = "DIR")]
    write_flent: Option<PathBuf>,
}

impl Files {
    /// Reads the runs of real lines.
    pub fn read(&self) -> Result<Vec<Line>, Failure> {
        if self.flent.len() > LINES_MAX {
            let given = self.flent.len();
            return Err(Failure::usage(format!(
                "--flent: expected at most {LINES_MAX} files, given {given}"
            )));
        }
        self.flent.iter().map(|path| line(path)).collect()
    }

    /// Makes the directory, before a long run.
    pub fn make_folder(&self) -> Result<(), Failure> {
        let Some(folder) = &self.write_flent else { return Ok(()) };
        let made = fs::create_dir_all(folder);
        made.map_err(|e| Failure::usage(format!("--write-flent {}: {e}", folder.display())))
    }

    /// Writes the run of each policy.
    pub fn write(&self, trial: &Trial) -> Result<(), Failure> {
        let Some(folder) = &self.write_flent else { return Ok(()) };
        let mut taken: Vec<String> = Vec::new();
        for policy in &trial.policies {
            let plain = file_name(&policy.name);
            let numbered = (2..).map(|n| format!("{plain}-{n}"));
            let free = std::iter::once(plain.clone()).chain(numbered).find(|name| !taken.contains(name));
            let name = free.unwrap_or(plain);
            let path = folder.join(format!("{name}.flent.gz"));
            taken.push(name);
            fs::write(&path, written(trial, policy))
                .map_err(|e| Failure::failed(format!("{}: {e}", path.display())))?;
        }
        Ok(())
    }
}

fn line(path: &Path) -> Result<Line, Failure> {
    let wrong = |e: &dyn std::fmt::Display| Failure::usage(format!("--flent {}: {e}", path.display()));
    let mut bytes = Vec::new();
    // One byte more than a file may have tells that there are more.
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
    read.map_err(|e| wrong(&e))?;
    let name =
        path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
    Line::read(&bytes, &name).map_err(|e| wrong(&e))
}

/// Returns the name of a policy as that of a file.
fn file_name(policy: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = policy.chars().take(80).map(plain).collect();
    match name.trim_start_matches('.') {
        "" => "policy".into(),
        some => some.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_names_of_files() {
        assert_eq!(file_name("fq codel.tc"), "fq_codel.tc");
        assert_eq!(file_name("../a/b (2)"), "_a_b__2_");
        assert_eq!(file_name("..."), "policy");
        assert_eq!(file_name(&"x".repeat(200)).len(), 80);
    }
}
