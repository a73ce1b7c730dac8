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
use std::process::ExitCode;

/// Returns the repository's root.
fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or_else(|| here.clone(), PathBuf::from)
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
