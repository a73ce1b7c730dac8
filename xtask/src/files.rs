//! Copies of folders: a file that is the same already keeps its time, so that cargo does not build
//! it again.

use std::fs;
use std::path::Path;

/// Makes a folder the same as another: every file, and no other one. `other` gives the text of a
/// file that is not to be the same.
pub fn mirror(from: &Path, to: &Path, other: &dyn Fn(&Path) -> Option<String>) -> Result<(), String> {
    let names = |folder: &Path| -> Result<Vec<_>, String> {
        let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(entries.flatten().map(|entry| entry.file_name()).collect())
    };
    fs::create_dir_all(to).map_err(|e| format!("{}: {e}", to.display()))?;
    for name in names(to)? {
        let (old, new) = (from.join(&name), to.join(&name));
        let gone = match (old.is_dir(), new.is_dir()) {
            (false, true) => fs::remove_dir_all(&new),
            (_, false) if !old.is_file() => fs::remove_file(&new),
            _ => Ok(()),
        };
        gone.map_err(|e| format!("{}: {e}", new.display()))?;
    }
    for name in names(from)? {
        let (old, new) = (from.join(&name), to.join(&name));
        match old.is_dir() {
            true => mirror(&old, &new, other)?,
            false => copy_file(&old, &new, other)?,
        }
    }
    Ok(())
}

/// Copies a file, which may be no text, or writes its other text.
fn copy_file(old: &Path, new: &Path, other: &dyn Fn(&Path) -> Option<String>) -> Result<(), String> {
    if let Some(text) = other(old) {
        return write(new, &text);
    }
    let bytes = fs::read(old).map_err(|e| format!("{}: {e}", old.display()))?;
    if fs::read(new).is_ok_and(|now| now == bytes) {
        return Ok(());
    }
    make_folder_of(new)?;
    fs::write(new, bytes).map_err(|e| format!("{}: {e}", new.display()))
}

/// Makes a link to a folder or a file.
pub fn link(folder: &Path, at: &Path) -> Result<(), String> {
    make_folder_of(at)?;
    if fs::read_link(at).is_ok_and(|now| now == folder) {
        return Ok(());
    }
    let _ = fs::remove_file(at);
    std::os::unix::fs::symlink(folder, at).map_err(|e| format!("{}: {e}", at.display()))
}

/// Reads a text; the error names the file.
pub fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))
}

/// Writes a file, unless it has this text already.
pub fn write(file: &Path, text: &str) -> Result<(), String> {
    if fs::read_to_string(file).is_ok_and(|now| now == text) {
        return Ok(());
    }
    make_folder_of(file)?;
    fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()))
}

/// Makes the folder in which a file is to be.
fn make_folder_of(file: &Path) -> Result<(), String> {
    let folder = file.parent().unwrap_or(file);
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))
}
