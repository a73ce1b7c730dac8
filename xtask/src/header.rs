//! The C library's header, made of the source by cbindgen.

use std::process::Command;

use crate::root;

/// Writes `crates/ffi/include/txweir.h`.
pub fn run() -> Result<(), String> {
    let folder = root().join("crates/ffi");
    let mut cbindgen = Command::new("cbindgen");
    cbindgen.args(["--quiet", "--config", "cbindgen.toml", "--output", "include/txweir.h", "src/abi.rs"]);
    let status = cbindgen.current_dir(folder).status();
    match status.map_err(|err| format!("cbindgen: {err} (cargo install cbindgen --locked)"))? {
        status if status.success() => Ok(()),
        status => Err(format!("cbindgen: {status}")),
    }
}
