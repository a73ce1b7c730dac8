//! The Python package as its users get it: a wheel in an environment of its own.
//!
//! maturin makes the wheel of the library that cargo has built for these tests. `make python` makes
//! the environment; without it the tests are skipped, each with the reason. Programs of Python are
//! below `tests/python`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder of this crate.
fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the folder of the environment, which `make python` has made of the same list of
/// packages.
fn environment() -> Result<PathBuf, String> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    let place = cache.ok_or("there is no home directory")?.join("txweir/python");
    let asked = fs::read(here().join("tests/requirements.txt")).map_err(|e| e.to_string())?;
    match fs::read(place.join("requirements.txt")) {
        Ok(there) if there == asked => Ok(place),
        _ => Err("there is no environment of Python for it (make python)".into()),
    }
}

/// Runs a command, and returns its output; with a failure the test fails.
fn ran(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {}\n{said}", done.status);
    said
}

/// Returns the library that cargo has built beside this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    test.parent().expect("its folder").join("lib_native.so")
}

/// Makes the wheel, once, and unpacks it into a folder, which it returns.
fn package(python: &Path) -> &'static Path {
    static PACKAGE: OnceLock<PathBuf> = OnceLock::new();
    PACKAGE.get_or_init(|| {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (wheels, unpacked) = (out.join("wheels"), out.join("package"));
        for folder in [&wheels, &unpacked] {
            let _ = fs::remove_dir_all(folder);
        }
        let mut maturin = Command::new(python.join("bin/maturin"));
        maturin.args(["build", "--offline", "--compatibility", "linux", "--auditwheel", "skip"]);
        maturin.arg("--interpreter").arg(python.join("bin/python")).arg("--out").arg(&wheels);
        maturin.arg("--manifest-path").arg(here().join("Cargo.toml"));
        // The stand-in answers with the library that is there, where cargo would build another one.
        maturin.env("CARGO", here().join("tests/cargo-of-maturin"));
        maturin.env("TXWEIR_CARGO", env!("CARGO")).env("TXWEIR_LIBRARY", library());
        ran(&mut maturin);
        let wheel = fs::read_dir(&wheels).expect("wheels").flatten().next().expect("a wheel").path();
        let mut pip = Command::new(python.join("bin/python"));
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--no-index",
        ]);
        ran(pip.arg("--root-user-action=ignore").arg("--target").arg(&unpacked).arg(wheel));
        unpacked
    })
}

/// Runs tests of Python, and shows how many there were.
fn tests(words: &[&str]) {
    let python = match environment() {
        Ok(python) => python,
        Err(why) => {
            eprintln!("the Python package: skipped, because {why}");
            return;
        }
    };
    let package = package(&python);
    let mut pytest = Command::new(python.join("bin/python"));
    pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=5", "-rs"]).args(words);
    pytest.env("PYTHONPATH", package).env("PYTHONDONTWRITEBYTECODE", "1").env("TXWEIR_PACKAGE", package);
    println!("{}", ran(pytest.current_dir(here().join("tests/python"))));
}

#[test]
fn the_package_does_what_its_pages_say() {
    tests(&["--ignore=test_types.py", "--ignore=test_notebooks.py"]);
}

#[test]
fn types_and_notebooks_are_right() {
    tests(&["test_types.py", "test_notebooks.py"]);
}
