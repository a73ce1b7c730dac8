//! The options of `txweir daemon` and `txweir run` about the privileges that they give up.

use txweir::daemon::{Forbidden, Sandbox};

use crate::{Failure, output};

/// The options about privileges.
#[derive(Debug, clap::Args)]
pub struct Confine {
    /// Effect of a system call that the process does not need: it fails with EPERM, or it kills the
    /// process
    #[arg(long, value_name = "fail|kill", default_value = "fail", value_parser = forbidden)]
    seccomp: Forbidden,

    /// Keep all capabilities and system calls, to find an error
    #[arg(long)]
    no_sandbox: bool,
}

fn forbidden(text: &str) -> Result<Forbidden, String> {
    match text {
        "fail" => Ok(Forbidden::Fails),
        "kill" => Ok(Forbidden::Kills),
        _ => Err("expected fail or kill".to_owned()),
    }
}

impl Confine {
    /// Gives up the privileges that the process does not need any more, beside those that are
    /// `kept`. The log has the parts that are not possible here.
    pub fn enter(&self, kept: Sandbox) -> Result<(), Failure> {
        if self.no_sandbox {
            return Ok(());
        }
        let confined = Sandbox { forbidden: self.seccomp, ..kept }.enter();
        let confined = confined.map_err(|e| Failure::failed(format!("{e}; --no-sandbox starts without")))?;
        for missing in confined.missing() {
            output::say(format!("txweir: sandbox: {missing}\n"));
        }
        Ok(())
    }
}
