//! `txweir tc`: sends tc's own words to a running daemon.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use txweir::daemon::protocol::Ask;
use txweir::tc::tool::{self, Flags, NoDevices, Request};

use crate::{Failure, batch, client};

/// Options of `txweir tc` itself; the rest are tc's.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// The daemon's socket
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Words of tc(8): -s qdisc show dev lan; or `save FILE`, which writes the configuration (`-`:
    /// to stdout)
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
    pub words: Vec<String>,
}

/// Runs `txweir tc`.
pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let socket = args.socket.as_deref();
    if args.words.first().is_some_and(|word| word == "save") {
        return save(socket, &args.words[1..]);
    }
    // An error in the options is reported here; the daemon reports an error in the other words.
    let Ok(flags) = Flags::read(&args.words) else { return about(args.words) };
    let asks = match args.words.get(flags.before) {
        None => true,
        Some(word) => flags.help || flags.version || word == "help",
    };
    if flags.batch.is_none() && asks {
        return about(args.words);
    }
    let class_names = match read_class_names(&flags) {
        Ok(names) => names,
        Err(said) => {
            // This is the status that tc has for it.
            eprintln!("{said}");
            return Ok(ExitCode::from(255));
        }
    };
    match &flags.batch {
        Some(name) => batch::run(socket, &flags, name, &args.words, class_names.as_ref()),
        None => client::ask(socket, &Ask::Tc { args: args.words, batch: None, class_names }),
    }
}

/// Answers the requests that need no daemon: the help and the version, for a user without a daemon
/// and for a program that asks which tc this is.
fn about(words: Vec<String>) -> Result<ExitCode, Failure> {
    let done = tool::run(&Request { args: words, ..Request::default() }, &mut NoDevices::default());
    eprint!("{}", done.stderr);
    print!("{}", done.stdout);
    Ok(ExitCode::from(done.status))
}

/// The file in which tc has the names of classes, unless `-cf` names another.
const CLASS_NAMES: &str = "/etc/iproute2/tc_cls";

/// Reads the names of classes, if they are asked for. Only a file that was named must exist.
fn read_class_names(flags: &Flags) -> Result<Option<String>, String> {
    match (flags.names, &flags.class_names) {
        (false, _) => Ok(None),
        (true, None) => Ok(fs::read_to_string(CLASS_NAMES).ok()),
        (true, Some(file)) => match fs::read_to_string(file) {
            Ok(text) => Ok(Some(text)),
            Err(e) => Err(format!("Can't open class names file: {file}: {e}")),
        },
    }
}

/// Handles `save FILE`: writes the commands that make the daemon's present configuration.
fn save(socket: Option<&Path>, words: &[String]) -> Result<ExitCode, Failure> {
    let [file] = words else {
        return Err(Failure::usage("save: expected one FILE, or `-` for stdout"));
    };
    let reply = client::reply(socket, &Ask::Save)?;
    if reply.status != 0 {
        return Err(Failure::failed(reply.stderr.trim_end()));
    }
    if file == "-" {
        print!("{}", reply.stdout);
        return Ok(ExitCode::SUCCESS);
    }
    write_whole(Path::new(file), &reply.stdout).map_err(|e| Failure::usage(format!("{file}: {e}")))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a file whole or not at all: a reader finds the old text or the new one, also after a
/// crash. A symbolic link is followed. A device or a pipe is written to and not replaced.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return fs::write(path, text);
    }
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(beside);
    let written = File::create_new(&beside).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole() {
        let dir = std::env::temp_dir().join(format!("txw-save-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let path = dir.join("s.tc");
        for text in ["one\n", "two\n"] {
            write_whole(&path, text).expect("write");
            assert_eq!(fs::read_to_string(&path).expect("text"), text);
        }
        assert_eq!(fs::read_dir(&dir).expect("list").count(), 1);
        assert!(write_whole(&dir.join("none/s.tc"), "x").is_err());
        let link = dir.join("link.tc");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        write_whole(&link, "three\n").expect("write");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::read_to_string(&path).expect("text"), "three\n");
        // A socket cannot be written to, and is not replaced either.
        let socket = dir.join("socket");
        let _kept = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        assert!(write_whole(&socket, "x").is_err() && !fs::metadata(&socket).expect("there").is_file());
        fs::remove_dir_all(&dir).expect("remove");
    }
}
