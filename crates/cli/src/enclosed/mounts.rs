//! The files that a script sees: those of the machine, read-only; the current directory and those
//! for temporary files on a copy, which ends with the run; and stand-ins in place of commands.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change, mount_remount,
};

/// The directories with commands.
const COMMANDS: [&str; 8] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/opt/sbin", "/opt/bin"];

/// The directories for temporary files.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// The devices that a script has. A user that is root owns the disks too.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// The names in `/dev` that are links.
const LINKS: [(&str, &str); 4] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// The settings of the network, which a script may write.
const SETTINGS: &str = "/proc/sys/net";

/// Most files of settings, and most levels of their directories.
const SETTINGS_MAX: usize = 10_000;
const SETTINGS_DEEP: usize = 8;

/// The directories of running services: they are empty for the script, so that it finds no socket
/// of a service.
const RUNNING: [&str; 4] = ["/run", "/var/run", "/var/lock", "/run/lock"];

/// Most bytes that a script may write.
const WRITTEN: &str = "mode=755,size=256m";

/// Makes the mounts; returns the parts that this system does not have.
pub fn make(directory: &Path, cwd: &Path, script: &Path) -> io::Result<Vec<String>> {
    let mut notes = Vec::new();
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let own = rustix::fs::open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    read_only()?;
    let program = std::env::current_exe()?;
    let upper = directory.join("upper");
    mount(
        "tmpfs",
        &upper,
        "tmpfs",
        MountFlags::NOSUID | MountFlags::NODEV,
        Some(c_text(WRITTEN)?.as_c_str()),
    )?;
    // The copy of the directory for temporary files hides the path.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let kept = rustix::fs::open(&upper, flags, Mode::empty())?;
    let upper = PathBuf::from(format!("/proc/self/fd/{}", kept.as_raw_fd()));
    let bin = directory.join("bin");
    if !commands(&bin) {
        notes.push(covered(&bin, &program));
    }
    devices(&upper.join("dev"))?;
    let needed = [cwd, script, &program, directory];
    for at in RUNNING {
        if is_plain_directory(at) && !needed.iter().any(|path| path.starts_with(at)) {
            mount(
                "tmpfs",
                at,
                "tmpfs",
                MountFlags::NOSUID | MountFlags::NODEV,
                Some(c_text(WRITTEN)?.as_c_str()),
            )?;
        }
    }
    let mut copied: Vec<PathBuf> = Vec::new();
    let mut missing: Vec<String> = Vec::new();
    for at in TEMPORARY.map(PathBuf::from).into_iter().chain([cwd.to_path_buf()]) {
        let plain = at.to_str().is_some_and(is_plain_directory) && at != Path::new("/");
        if !plain || copied.iter().any(|above| at.starts_with(above)) {
            continue;
        }
        let copy = upper.join(copied.len().to_string());
        match copied_on_write(&at, &copy) {
            Ok(()) => copied.push(at),
            Err(_) => missing.push(at.display().to_string()),
        }
    }
    if !missing.is_empty() {
        notes.push(format!(
            "the script cannot write in {}: the system allows no overlay there",
            missing.join(", ")
        ));
    }
    // The copy of the directory for temporary files has no socket.
    mount_bind(format!("/proc/self/fd/{}", own.as_raw_fd()), directory)?;
    if mount_bind(directory.join("net"), "/sys/class/net").is_err() {
        notes.push("/sys/class/net has no devices: the system allows no mount there".into());
    }
    Ok(notes)
}

/// Makes a `/dev` of few devices in a directory, and puts it in place of the other one.
fn devices(at: &Path) -> io::Result<()> {
    for part in ["shm", "pts"] {
        fs::create_dir_all(at.join(part))?;
    }
    for name in DEVICES {
        fs::write(at.join(name), "")?;
        // A system without this device has none for the script.
        let _ = mount_bind(Path::new("/dev").join(name), at.join(name));
    }
    for (name, to) in LINKS {
        std::os::unix::fs::symlink(to, at.join(name))?;
    }
    Ok(mount_bind_recursive(at, "/dev")?)
}

/// Gives the new process numbers their `/proc`, read-only but for settings of the network, which
/// are a copy. A system that hides parts of `/proc` allows no new one: then the old one stays,
/// read-only.
pub fn processes(directory: &Path) {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    let _ = mount("proc", "/proc", "proc", flags, None::<&std::ffi::CStr>);
    let copy = directory.join("upper");
    let made = c_text(WRITTEN).and_then(|options| {
        Ok(mount("tmpfs", &copy, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, Some(options.as_c_str()))?)
    });
    if made.is_ok() {
        copied(Path::new(SETTINGS), &copy, SETTINGS_DEEP, &mut 0);
        let _ = mount_bind(&copy, SETTINGS);
    }
}

/// Copies files and directories, as far as they can be read; `count` is the number of files.
fn copied(from: &Path, to: &Path, depth: usize, count: &mut usize) {
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        *count += 1;
        if depth == 0 || *count > SETTINGS_MAX {
            return;
        }
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true if fs::create_dir(&to).is_ok() => copied(&from, &to, depth - 1, count),
            true => {}
            // A file of a setting tells no size.
            false => drop(fs::write(&to, fs::read(&from).unwrap_or_default())),
        }
    }
}

fn c_text(text: &str) -> io::Result<std::ffi::CString> {
    std::ffi::CString::new(text).map_err(io::Error::from)
}

/// True for a directory that no link stands for.
fn is_plain_directory(path: &str) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| about.is_dir())
}

/// Makes each mount read-only.
fn read_only() -> io::Result<()> {
    for line in fs::read_to_string("/proc/self/mountinfo")?.lines() {
        let mut words = line.split(' ').skip(4);
        let (Some(at), Some(options)) = (words.next(), words.next()) else { continue };
        let mut flags = MountFlags::BIND | MountFlags::RDONLY;
        for option in options.split(',') {
            // The kernel refuses to take these away.
            flags |= match option {
                "nosuid" => MountFlags::NOSUID,
                "nodev" => MountFlags::NODEV,
                "noexec" => MountFlags::NOEXEC,
                "noatime" => MountFlags::NOATIME,
                "nodiratime" => MountFlags::NODIRATIME,
                "relatime" => MountFlags::RELATIME,
                _ => MountFlags::empty(),
            };
        }
        match mount_remount(unescaped(at), flags, c"") {
            Ok(()) => {}
            // A mount that another one covers, or that this user cannot reach.
            Err(Errno::INVAL | Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Returns a path without the octal escapes of mountinfo.
fn unescaped(path: &str) -> PathBuf {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    PathBuf::from(escapes.iter().fold(path.to_string(), |path, (code, c)| path.replace(code, c)))
}

/// True if a path can be an option of an overlay.
fn is_option(path: &Path) -> bool {
    path.to_str().is_some_and(|path| !path.contains([':', ',', '\\', '"']))
}

/// Puts the stand-ins before the commands of the system's directories; returns false if the system
/// does not allow it.
fn commands(bin: &Path) -> bool {
    let plain = COMMANDS.iter().filter(|at| is_plain_directory(at));
    let mut done = is_option(bin);
    for at in plain {
        let layers = format!("lowerdir={}:{at}", bin.display());
        let over = c_text(&layers).map(|layers| {
            mount("overlay", *at, "overlay", MountFlags::NOSUID | MountFlags::RDONLY, Some(layers.as_c_str()))
        });
        done &= matches!(over, Ok(Ok(())));
    }
    done
}

/// Puts the program over each command that there is; returns a note about the others.
fn covered(bin: &Path, program: &Path) -> String {
    let names = fs::read_dir(bin).into_iter().flatten().flatten().map(|entry| entry.file_name());
    for name in names {
        for at in COMMANDS.map(|at| Path::new(at).join(&name)) {
            if let Ok(at) = fs::canonicalize(at) {
                let _ = mount_bind(program, at);
            }
        }
    }
    "absolute paths of commands that this machine does not have are not found".into()
}

/// Makes a directory that shows its files, and keeps what is written to it in `copy`.
fn copied_on_write(at: &Path, copy: &Path) -> io::Result<()> {
    if !is_option(at) || !is_option(copy) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let (upper, work) = (copy.join("upper"), copy.join("work"));
    fs::create_dir_all(&upper)?;
    fs::create_dir_all(&work)?;
    let layers = format!("lowerdir={},upperdir={},workdir={}", at.display(), upper.display(), work.display());
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("overlay", at, "overlay", flags, Some(c_text(&layers)?.as_c_str()))?;
    Ok(())
}
