//! The kernel of hosts with `stack = "linux"`: the choice of it, and its start.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use txweir::device::cpu;
use txweir::kernel::{Kernel, Program};
use txweir::lab::run::Boot;

use crate::Failure;

/// The option that names a kernel.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Chosen {
    /// User-Mode Linux for hosts with `stack = "linux"` [default: $TXWEIR_KERNEL]
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
}

/// The program that hosts boot, if there is one. Its process 1 is this program.
#[derive(Clone, Debug, Default)]
pub struct Kernels(Option<Program>);

impl Kernels {
    /// Finds the kernel of the option, or else of the environment.
    ///
    /// # Errors
    /// The file does not exist, or the path of this program is not known.
    pub fn find(chosen: Chosen) -> Result<Self, Failure> {
        let kernel = chosen.kernel.or_else(|| std::env::var_os("TXWEIR_KERNEL").map(PathBuf::from));
        let Some(kernel) = kernel else { return Ok(Self(None)) };
        let path = |e| Failure::usage(format!("--kernel {}: {e}", kernel.display()));
        let kernel = kernel.canonicalize().map_err(path)?;
        let init =
            std::env::current_exe().map_err(|e| Failure::failed(format!("the path of this program: {e}")))?;
        Ok(Self(Some(Program { kernel, init, words: vec!["kernel-init".to_owned()] })))
    }

    /// Returns the function that boots the kernel. The kernels of a run and the lab take turns: on
    /// one processor no turn waits for another processor to wake.
    pub fn boot(&self) -> Boot {
        let Some(program) = self.0.clone() else {
            let none = "no kernel is given for stack = \"linux\": expected --kernel FILE or TXWEIR_KERNEL";
            return Box::new(move |_| Err(none.to_owned()));
        };
        Box::new(move |plan| {
            // A processor that may not be chosen costs time and nothing else.
            let _ = cpu::pin(rustix::thread::sched_getcpu());
            Ok(Box::new(Kernel::boot(&program, plan)?))
        })
    }

    /// Returns what tells the results of this kernel from those of another one: its release as it
    /// says it, and the length of its file.
    pub fn identity(&self) -> Value {
        let Some(program) = &self.0 else { return Value::Null };
        let said = Command::new(&program.kernel).arg("--version").stdin(Stdio::null()).output().ok();
        let release = said.map(|said| String::from_utf8_lossy(&said.stdout).trim().to_owned());
        let bytes = std::fs::metadata(&program.kernel).ok().map(|file| file.len());
        json!({ "release": release, "bytes": bytes })
    }
}
