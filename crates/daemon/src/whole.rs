//! A file that is written whole or not at all.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

/// A folder in which one file is replaced by another that lies beside it until then.
pub trait Folder {
    /// The file beside.
    type File: Write;

    /// Removes files beside that killed processes have left behind. One that cannot be removed
    /// stays.
    fn sweep(&mut self);

    /// Makes an empty file beside, with the mode and owner of the file that it is to replace.
    ///
    /// # Errors
    /// Those of the system; there is no file beside then.
    fn make(&mut self) -> io::Result<Self::File>;

    /// Returns once the contents of the file are on the disk.
    ///
    /// # Errors
    /// Those of the system; the contents may be lost then.
    fn sync(&mut self, file: &Self::File) -> io::Result<()>;

    /// Gives the file beside the name of the file that it replaces.
    ///
    /// # Errors
    /// Those of the system; both files are as they were then.
    fn rename(&mut self, file: &Self::File) -> io::Result<()>;

    /// Removes the file beside, if that is possible.
    fn remove(&mut self, file: &Self::File);

    /// Returns once the names of the folder are on the disk.
    ///
    /// # Errors
    /// Those of the system; a new name may be lost then.
    fn sync_names(&mut self) -> io::Result<()>;
}

/// Replaces the file of a folder by one with this text, whole or not at all.
///
/// # Errors
/// Those of the system. The file is unchanged then, unless only [`Folder::sync_names`] has failed:
/// the text is there, and a loss of power may bring the old one back.
pub fn replace<F: Folder>(folder: &mut F, text: &str) -> io::Result<()> {
    folder.sweep();
    let mut beside = folder.make()?;
    let written = beside
        .write_all(text.as_bytes())
        // The contents are there before the name: after a loss of power the name leads to a whole
        // text.
        .and_then(|()| folder.sync(&beside))
        .and_then(|()| folder.rename(&beside));
    if written.is_err() {
        folder.remove(&beside);
    }
    written?;
    // The new name lasts only once the folder is on the disk as well.
    folder.sync_names()
}

/// Writes a file whole or not at all: a reader finds the old text or the new one, also after a
/// crash. Mode, owner and group of the file stay. A symbolic link is followed. A device or a pipe
/// is written to and not replaced.
///
/// The text goes into a file `.NAME.PID` first, in the same directory, which this function then
/// renames. It removes such files of processes that were killed.
///
/// # Errors
/// As [`replace`].
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return fs::write(path, text);
    }
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    // The directory of a bare name is the present one.
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    replace(&mut Place { path, dir, name }, text)
}

/// A file of this machine, and its folder.
struct Place<'a> {
    path: &'a Path,
    dir: &'a Path,
    name: &'a OsStr,
}

/// A file beside another one, locked while it is open.
struct Beside {
    path: PathBuf,
    file: File,
}

impl Write for Beside {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Folder for Place<'_> {
    type File = Beside;

    fn sweep(&mut self) {
        sweep(self.dir, self.name);
    }
    fn make(&mut self) -> io::Result<Beside> {
        let (path, file) = make_beside(self.dir, self.name)?;
        let beside = Beside { path, file };
        let kept = keep_owner(&beside.file, self.path);
        if kept.is_err() {
            self.remove(&beside);
        }
        kept.map(|()| beside)
    }
    fn sync(&mut self, beside: &Beside) -> io::Result<()> {
        beside.file.sync_all()
    }
    fn rename(&mut self, beside: &Beside) -> io::Result<()> {
        fs::rename(&beside.path, self.path)
    }
    fn remove(&mut self, beside: &Beside) {
        let _ = fs::remove_file(&beside.path);
    }
    fn sync_names(&mut self) -> io::Result<()> {
        File::open(self.dir)?.sync_all()
    }
}

/// Returns the beginning of the names of files beside `name`.
fn stem(name: &OsStr) -> OsString {
    let mut stem = OsString::from(".");
    stem.push(name);
    stem.push(".");
    stem
}

fn inode(of: &fs::Metadata) -> (u64, u64) {
    (of.dev(), of.ino())
}

/// Number of attempts to make a file that another process removes in between.
const TRIES: usize = 100;

/// Makes a file beside `name`, and locks it while this process works at it.
fn make_beside(dir: &Path, name: &OsStr) -> io::Result<(PathBuf, File)> {
    let mut beside = stem(name);
    beside.push(std::process::id().to_string());
    let beside = dir.join(beside);
    for _ in 0..TRIES {
        // Not readable by others before it has the mode of the file that it replaces.
        let mode = if dir.join(name).exists() { 0o600 } else { 0o666 };
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
        file.lock()?;
        // A sweep by another process may have come before the lock.
        let mine = inode(&file.metadata()?);
        if fs::symlink_metadata(&beside).is_ok_and(|there| inode(&there) == mine) {
            return Ok((beside, file));
        }
    }
    Err(ErrorKind::ResourceBusy.into())
}

/// Gives a new file the owner, group and mode of the file that it is to replace, if there is one.
fn keep_owner(file: &File, path: &Path) -> io::Result<()> {
    let Ok(old) = fs::metadata(path) else { return Ok(()) };
    let new = file.metadata()?;
    let differs = |old: u32, new: u32| (old != new).then_some(old);
    let (uid, gid) = (differs(old.uid(), new.uid()), differs(old.gid(), new.gid()));
    if uid.is_some() || gid.is_some() {
        let kept = fchown(file, uid, gid);
        kept.map_err(|e| io::Error::new(e.kind(), format!("cannot keep its owner and group: {e}")))?;
    }
    file.set_permissions(old.permissions())
}

/// Removes the files beside `name` whose processes were killed: nobody has them locked. A file that
/// cannot be removed stays.
fn sweep(dir: &Path, name: &OsStr) {
    let stem = stem(name);
    let Ok(all) = fs::read_dir(dir) else { return };
    for entry in all.flatten() {
        let found = entry.file_name();
        let rest = found.as_encoded_bytes().strip_prefix(stem.as_encoded_bytes());
        let is_ours = rest.is_some_and(|pid| !pid.is_empty() && pid.iter().all(u8::is_ascii_digit));
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if !is_ours || !is_file {
            continue;
        }
        let path = entry.path();
        let Ok(file) = File::open(&path) else { continue };
        match file.try_lock() {
            Ok(()) => drop(fs::remove_file(&path)),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A directory that is removed with the test.
    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("txw-save-{}-{name}", std::process::id()));
            fs::create_dir_all(&dir).expect("a directory");
            Self(dir)
        }
        fn count(&self) -> usize {
            fs::read_dir(&self.0).expect("list").count()
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_is_replaced_whole() {
        let dir = Dir::new("whole");
        let path = dir.0.join("s.tc");
        for text in ["one\n", "two\n"] {
            write_whole(&path, text).expect("write");
            assert_eq!(fs::read_to_string(&path).expect("text"), text);
        }
        assert_eq!(dir.count(), 1);
        assert!(write_whole(&dir.0.join("none/s.tc"), "x").is_err());
        let link = dir.0.join("link.tc");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        write_whole(&link, "three\n").expect("write");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::read_to_string(&path).expect("text"), "three\n");
        // A socket cannot be written to, and is not replaced either.
        let socket = dir.0.join("socket");
        let _kept = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        assert!(write_whole(&socket, "x").is_err() && !fs::metadata(&socket).expect("there").is_file());
    }

    #[test]
    fn mode_and_owner_stay() {
        let dir = Dir::new("owner");
        let path = dir.0.join("s.tc");
        fs::write(&path, "old").expect("write");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("the mode");
        // Only root may give a file away.
        let owner = std::os::unix::fs::chown(&path, Some(12345), Some(54321)).is_ok();
        write_whole(&path, "new").expect("write");
        let now = fs::metadata(&path).expect("there");
        assert_eq!(now.permissions().mode() & 0o7777, 0o640);
        assert!(!owner || (now.uid(), now.gid()) == (12345, 54321), "{now:?}");
        assert_eq!(fs::read_to_string(&path).expect("text"), "new");
    }

    #[test]
    fn the_rest_of_a_killed_process_goes_and_that_of_a_living_one_stays() {
        let dir = Dir::new("rest");
        let path = dir.0.join("s.tc");
        let dead = dir.0.join(".s.tc.999999");
        fs::write(&dead, "half").expect("write");
        let alive = dir.0.join(".s.tc.999998");
        let working = File::create(&alive).expect("make");
        working.lock().expect("lock");
        let others = [".s.tc.old", ".other.7"].map(|name| dir.0.join(name));
        others.iter().for_each(|path| fs::write(path, "x").expect("write"));
        write_whole(&path, "new").expect("write");
        assert!(!dead.exists() && alive.exists() && others.iter().all(|path| path.exists()));
        assert_eq!(dir.count(), 4);
    }
}
