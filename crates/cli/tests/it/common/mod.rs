//! The helpers that the tests of `txweir run` share: the program, as a process that does not
//! outlive its test, and a client and a server in network namespaces of their own with the program
//! between them.

pub mod lateness;
pub mod machine;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use txweir::core::text::stats::Counters as _;
use txweir::runtime::Ledger;
pub use txweir_bench::live::PATIENCE;
pub use txweir_bench::live::hosts::{Net, address};
pub use txweir_bench::live::process::{Process, Running, Temp, bound, confined, median};
use txweir_device::testnet::NetNs;

/// The program.
pub const TXWEIR: &str = env!("CARGO_BIN_EXE_txweir");

/// Makes hosts with TAP devices, and the program between them.
pub fn taps() -> Net {
    Net::with_taps(TXWEIR)
}

/// Makes hosts with veth pairs, and the program between them.
pub fn veths() -> Net {
    Net::with_veths(TXWEIR)
}

/// Starts `txweir run` in a namespace, and waits until it forwards.
pub fn run_in(middle: &NetNs, args: &[&str]) -> Running {
    Running::start(TXWEIR, middle, args)
}

/// A folder that ends with its value.
pub struct Folder(pub PathBuf);

impl Folder {
    /// Creates a folder for the files of a test.
    pub fn new(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("txw-test-{}-{next}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("make a folder");
        Self(path)
    }

    /// Returns the path of a file in it.
    pub fn at(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file of this text that can be executed. Returns its path.
    pub fn script(&self, text: &str) -> String {
        let path = self.at("script");
        fs::write(&path, text).expect("write a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("make it executable");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Prints the reason and ends the test if namespaces cannot be made.
macro_rules! skip_unless_possible {
    () => {
        if let Some(reason) = txweir_device::testnet::skip_reason() {
            println!("skipped, because {reason}");
            return;
        }
    };
}
pub(crate) use skip_unless_possible;

/// Returns the reference kernel, or ends the test with the reason.
macro_rules! kernel_or_skip {
    () => {
        match crate::common::kernel() {
            Ok(kernel) => kernel,
            Err(reason) => {
                println!("skipped, because {reason}");
                return;
            }
        }
    };
}
pub(crate) use kernel_or_skip;

/// Returns the reference kernel; the reason if there is none.
pub fn kernel() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let said = Command::new(root.join("oracle/build")).arg("--path").output();
    let said = said.map_err(|error| format!("oracle/build cannot be run: {error}"))?;
    let path = PathBuf::from(String::from_utf8_lossy(&said.stdout).trim());
    match path.is_file() {
        true => Ok(path),
        false => Err("there is no reference kernel (oracle/build makes it)".to_owned()),
    }
}

/// Returns the number at a place of a report.
pub fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}: {value}"))
}

/// Returns the frames of a report by their fate or place: the numbers below `pointer`.
pub fn ledger(value: &Value, pointer: &str) -> Ledger {
    let mut keys = Ledger::TABLE.iter();
    let next = || keys.next().map_or(0, |counter| number(value, &format!("{pointer}/{}", counter.key)));
    Ledger::read(&mut { next })
}

/// Makes a `txweir run` command with these arguments.
pub fn txweir(args: &[&str]) -> Command {
    let mut command = Command::new(TXWEIR);
    command.arg("run").args(args);
    command
}
