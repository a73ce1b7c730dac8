//! `txweir completions` and `txweir man`: what a shell and a reader of manuals need to know, from
//! the declarations of the command line.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, Command, CommandFactory, ValueEnum, ValueHint};
use clap_complete::generate;
use clap_complete::shells;
use txweir::daemon::grammar;

use crate::{Cli, Failure, output};

/// Options of `txweir completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "For the present bash: source <(txweir completions bash)")]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// A shell that completes words.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    /// For /usr/share/bash-completion/completions/txweir
    Bash,
    /// For /usr/share/zsh/site-functions/_txweir
    Zsh,
    /// For /usr/share/fish/vendor_completions.d/txweir.fish
    Fish,
}

/// Options of `txweir man`.
#[derive(Debug, clap::Args)]
pub struct Man {
    /// Folder for the pages, one file a command; is created
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Prints the completions of a shell.
pub fn completions(args: &Completions) -> Result<(), Failure> {
    let (mut command, mut script) = (whole(), Vec::new());
    let name = "txweir";
    match args.shell {
        Shell::Bash => generate(shells::Bash, &mut command, name, &mut script),
        Shell::Zsh => generate(shells::Zsh, &mut command, name, &mut script),
        Shell::Fish => generate(shells::Fish, &mut command, name, &mut script),
    }
    output::exact(&String::from_utf8_lossy(&script))
}

/// Writes a page of the manual for each command.
pub fn man(args: &Man) -> Result<(), Failure> {
    let folder = &args.folder;
    let failed = |path: &Path, e: std::io::Error| Failure::usage(format!("{}: {e}", path.display()));
    fs::create_dir_all(folder).map_err(|e| failed(folder, e))?;
    clap_mangen::generate_to(whole(), folder).map_err(|e| failed(folder, e))
}

/// Returns the command line with the words of `txweir link`, which the daemon reads.
fn whole() -> Command {
    let socket = Arg::new("socket").long("socket").value_name("PATH").value_hint(ValueHint::FilePath);
    let link = grammar::command().name("link").arg(socket.help("The daemon's socket"));
    Cli::command().mut_subcommand("link", |_| link)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_whole_command_line_is_consistent() {
        super::whole().debug_assert();
    }
}
