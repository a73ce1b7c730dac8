//! Workspace chores: `cargo xtask test | mutants | tidy | gen | gate | header | deny | book | deb`,
//! and those of a release: `api | package | msrv | semver`.

mod api;
mod binaries;
mod book;
mod deb;
mod deny;
mod docs;
mod errors;
mod files;
mod gate;
mod header;
mod layers;
mod links;
mod loops;
mod models;
mod msrv;
mod mutants;
mod pack;
mod package;
mod pinned;
mod programs;
mod prose;
mod published;
mod semver;
mod stages;
mod test;
mod tidy;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Returns the repository's root.
fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or_else(|| here.clone(), PathBuf::from)
}

/// Returns a command of cargo in the environment that a shell gives to it. `cargo xtask` has set
/// variables of this package; build scripts that read them (ring's) would run again, with all that
/// stands on them, whenever a `cargo test` and a `cargo xtask test` take turns.
fn cargo() -> Command {
    let mut command = Command::new("cargo");
    let of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(of_package) {
            command.env_remove(name);
        }
    }
    command
}

const USAGE: &str = "usage: cargo xtask test [models | ARG ...] | mutants [--named] [NAME ...] | tidy | \
                     gen [--check] | gate [--bless | --stages JOB ...] | header | deny | book | deb | \
                     api [--bless] | package | msrv | semver [REVISION]";

fn main() -> ExitCode {
    if let Some(status) = api::stand_in() {
        return status;
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["test", "models"] => test::only_models(),
        ["test", rest @ ..] => test::run(rest),
        ["mutants", names @ ..] => mutants::run(names),
        ["tidy"] => tidy::run(),
        ["gen"] => docs::run(false),
        ["gen", "--check"] => docs::run(true),
        ["gate"] => gate::run(false),
        ["gate", "--bless"] => gate::run(true),
        ["gate", "--stages", jobs @ ..] => stages::run(jobs),
        ["header"] => header::run(),
        ["deny"] => deny::run(),
        ["book"] => book::run(),
        ["deb"] => deb::run(),
        ["api"] => api::run(false),
        ["api", "--bless"] => api::run(true),
        ["package"] => pack::run(),
        ["msrv"] => msrv::run(),
        ["semver"] => semver::run(None),
        ["semver", revision] => semver::run(Some(revision)),
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xtask: {e}");
            ExitCode::FAILURE
        }
    }
}
