//! `cargo xtask package`: the packages as a registry would get them, and a program that uses them.
//!
//! `cargo package --workspace` verifies each package apart, and builds what it depends on anew for
//! each. Here all packages are unpacked into one workspace, whose crates find each other there and
//! not in this repository, and are checked together: what a package lacks is missing here as well.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::files::{read, write};
use crate::published::{self, Crate};

/// Largest package that crates.io takes, bytes.
const PACKAGE_MAX: u64 = 10 << 20;
/// Folder of the unpacked packages, below the folder in which cargo builds.
const UNPACKED: &str = "unpacked";
/// Folder of the program, below that of the packages.
const PROGRAM: &str = "program";
/// The page that lists the kinds of a program without the feature `kinds`.
const PAGE: &str = "docs/embed.md";
/// The program: the smallest that takes the crate and a policy of tc.
const MAIN: &str = r#"use txweir::core::qdisc::Registry;
use txweir::{Admitted, Instant, Meta, PathConfig, TxPath, testing::VecDevice};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut device = VecDevice::with_slots(4);
    let mut path = TxPath::new(PathConfig::default())?.with_qdisc("fq_codel", &["limit", "8"])?;
    for frame in ["a", "b"] {
        assert_ne!(path.submit(Instant::ZERO, frame, Meta::new(1500), &mut device), Admitted::Full(frame));
    }
    device.finish(1);
    path.reap(Instant::ZERO, &mut device, |_frame| {});
    let _ = path.drain(Instant::ZERO, 64, &mut device);
    println!("sent {:?}", device.sent());
    let kinds: Vec<&str> = Registry::BUILT_IN.iter().map(|spec| spec.kind).collect();
    print!("{}", kinds.join(", "));
    Ok(())
}
"#;
/// Its first line. The second one has the kinds of qdiscs.
const SENT: &str = "sent [\"a\", \"b\"]\n";

/// Makes the packages, checks them, and builds the program.
pub fn run() -> Result<(), String> {
    let root = crate::root();
    let target = published::target(&root);
    let all = published::all(&root)?;
    let mut package = cargo(&root, "package");
    package.args(["--no-verify", "--allow-dirty", "--locked", "--quiet"]);
    all.iter().for_each(|one| _ = package.args(["--package", &one.name]));
    succeed(&mut package, "cargo package")?;

    let version = read(&root.join("Cargo.toml"))?;
    let version = published::value(&version, "version").ok_or("Cargo.toml: no version")?;
    let unpacked = target.join(UNPACKED);
    let _ = fs::remove_dir_all(&unpacked);
    fs::create_dir_all(&unpacked).map_err(|e| format!("{}: {e}", unpacked.display()))?;
    let mut sizes = Vec::new();
    for one in &all {
        let file = target.join(format!("package/{}-{version}.crate", one.name));
        let size = fs::metadata(&file).map_err(|e| format!("{}: {e}", file.display()))?.len();
        sizes.push((size, one.name.as_str()));
        // Every file of a package has the same time, of which cargo would not see a change: `-m`.
        succeed(Command::new("tar").arg("-xmzf").arg(&file).arg("-C").arg(&unpacked), "tar")?;
    }
    let (largest, name) = sizes.iter().max().copied().unwrap_or_default();
    let sum: u64 = sizes.iter().map(|(size, _)| size).sum();
    println!("{} packages, {} KiB; the largest, {name}, {} KiB", all.len(), sum >> 10, largest >> 10);
    if largest > PACKAGE_MAX {
        return Err(format!("{name}: a package of {largest} bytes, of which a registry takes {PACKAGE_MAX}"));
    }
    check(&root, &unpacked, &all, version)?;
    use_it(&unpacked, &all, version, true)?;
    let few = use_it(&unpacked, &all, version, false)?;
    let page = read(&root.join(PAGE))?;
    match names(&page, &few) {
        true => Ok(()),
        false => Err(format!("{PAGE}: expected the kinds without the feature `kinds`: {few}")),
    }
}

/// True if a page lists these kinds, in this order and no others: `there are a, b and c, `.
fn names(page: &str, kinds: &str) -> bool {
    let Some((all, last)) = kinds.rsplit_once(", ") else { return false };
    let words: Vec<&str> = page.split_whitespace().collect();
    words.join(" ").contains(&format!("there are {all} and {last}, "))
}

/// Checks all packages in one workspace. It has the versions and the profile of this repository, so
/// that crates of others are the same as here, and are not checked again.
fn check(root: &Path, unpacked: &Path, all: &[Crate], version: &str) -> Result<(), String> {
    let own = read(&root.join("Cargo.toml"))?;
    let profile = table(&own, "[profile.dev]").ok_or("Cargo.toml: no [profile.dev]")?;
    let members: String = all.iter().map(|one| format!("    \"{}-{version}\",\n", one.name)).collect();
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\n{members}]\nexclude = [\"{PROGRAM}\"]\n\n{}\n{profile}",
        patch(unpacked, all, version)
    );
    write(&unpacked.join("Cargo.toml"), &manifest)?;
    write(&unpacked.join("Cargo.lock"), &read(&root.join("Cargo.lock"))?)?;
    let mut check = cargo(unpacked, "check");
    check.args(["--workspace", "--all-features", "--offline", "--quiet"]);
    succeed(check.env("CARGO_TARGET_DIR", published::target(root)), "the packages")
}

/// Builds a program outside of the workspace from nothing, with all kinds of qdiscs or the few that
/// there are without the feature, says how long that takes, and runs it. Returns the kinds.
fn use_it(unpacked: &Path, all: &[Crate], version: &str, kinds: bool) -> Result<String, String> {
    let folder = unpacked.join(PROGRAM);
    let _ = fs::remove_dir_all(&folder);
    let manifest = format!(
        "[package]\nname = \"{PROGRAM}\"\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n\
         [dependencies]\ntxweir = {{ version = \"{version}\", default-features = {kinds} }}\n\n{}\n[workspace]\n",
        patch(unpacked, all, version)
    );
    write(&folder.join("Cargo.toml"), &manifest)?;
    write(&folder.join("Cargo.lock"), &read(&unpacked.join("Cargo.lock"))?)?;
    write(&folder.join("src/main.rs"), MAIN)?;
    let target = folder.join("target");
    let (start, before) = (Instant::now(), spent());
    let mut build = cargo(&folder, "build");
    succeed(build.args(["--offline", "--quiet"]).env("CARGO_TARGET_DIR", &target), "the program")?;
    let (wall, used) = (start.elapsed().as_secs_f64(), spent() - before);
    let said = Command::new(target.join("debug").join(PROGRAM)).output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&said.stdout);
    let Some(found) = said.strip_prefix(SENT) else {
        return Err(format!("a program with the crate: expected {SENT:?} first, found {said:?}"));
    };
    let (number, built) = (found.split(", ").count(), "built from nothing in");
    println!("a program with the crate and {number} kinds: {built} {wall:.1} s, {used:.1} s of processors");
    Ok(found.into())
}

/// Returns the table that gives each package's folder in place of the registry.
fn patch(unpacked: &Path, all: &[Crate], version: &str) -> String {
    let line = |one: &Crate| {
        let folder = unpacked.join(format!("{}-{version}", one.name));
        format!("{} = {{ path = \"{}\" }}\n", one.name, folder.display())
    };
    format!("[patch.crates-io]\n{}", all.iter().map(line).collect::<String>())
}

/// Returns a table of a manifest with its head.
fn table<'a>(manifest: &'a str, head: &str) -> Option<&'a str> {
    let from = manifest.find(&format!("{head}\n"))?;
    let rest = &manifest[from..];
    Some(&rest[..rest.find("\n[").map_or(rest.len(), |end| end + 1)])
}

fn cargo(folder: &Path, verb: &str) -> Command {
    let mut cargo = crate::cargo();
    cargo.arg(verb).current_dir(folder);
    cargo
}

fn succeed(command: &mut Command, name: &str) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("{name}: {e}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{name}: {status}")),
    }
}

/// Returns the processor time of all commands that have ended, seconds: proc(5), fields 16 and 17
/// of `/proc/self/stat`, in hundredths; 0 where there is no such file.
fn spent() -> f64 {
    let text = fs::read_to_string(PathBuf::from("/proc/self/stat")).unwrap_or_default();
    let fields = text.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').skip(13).take(2);
    fields.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_ends_where_the_next_begins() {
        let manifest = "[a]\nx = 1\n[profile.dev]\nopt-level = 1\n\n[b]\ny = 2\n";
        assert_eq!(table(manifest, "[profile.dev]"), Some("[profile.dev]\nopt-level = 1\n\n"));
        assert_eq!(table(manifest, "[b]"), Some("[b]\ny = 2\n"));
        assert_eq!(table(manifest, "[c]"), None);
    }

    #[test]
    fn a_page_lists_all_kinds_and_no_others() {
        let page = "Without it there are bfifo,\ncodel and tbf, and the rest.";
        assert!(names(page, "bfifo, codel, tbf"));
        for kinds in ["bfifo, tbf", "codel, tbf", "bfifo, codel", "bfifo, codel, prio, tbf", ""] {
            assert!(!names(page, kinds), "{kinds}");
        }
    }

    #[test]
    fn each_package_takes_the_place_of_the_registry() {
        let one = Crate { name: "a".into(), folder: PathBuf::new(), manifest: String::new() };
        assert_eq!(
            patch(Path::new("/p"), &[one], "0.1.0"),
            "[patch.crates-io]\na = { path = \"/p/a-0.1.0\" }\n"
        );
    }
}
