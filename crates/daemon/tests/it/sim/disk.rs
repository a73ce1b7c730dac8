//! A disk with one folder: contents and names are on it once they were synced, and a loss of power
//! leaves any part of the rest.

use std::collections::BTreeMap;
use std::io::{self, Write};

use txweir_core::base::rng::Rng;
use txweir_daemon::whole::Folder;

use super::conns::{EIO, ENOSPC, errno};
use super::plan::Lie;
use super::world::Shared;

/// The name of the file with the configuration.
pub const CONFIG: &str = "c.tc";

/// The contents of a file.
#[derive(Clone, Debug, Default)]
struct Inode {
    bytes: Vec<u8>,
    /// True if the bytes are on the disk.
    synced: bool,
}

/// A change of names that is not on the disk yet.
#[derive(Clone, Debug)]
enum Change {
    Make(String, usize),
    Rename(String, String),
    Remove(String),
}

/// The disk.
#[derive(Debug, Default)]
pub struct Disk {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    /// The names that a loss of power leaves, and the changes since.
    lasting: BTreeMap<String, usize>,
    changes: Vec<Change>,
    /// Steps before the process that writes is killed.
    pub killed_after: Option<u32>,
    /// True if the disk is full, or fails.
    pub fails: bool,
}

fn apply(names: &mut BTreeMap<String, usize>, change: &Change) {
    match change {
        Change::Make(name, inode) => drop(names.insert(name.clone(), *inode)),
        Change::Remove(name) => drop(names.remove(name)),
        Change::Rename(from, to) => {
            if let Some(inode) = names.remove(from) {
                names.insert(to.clone(), inode);
            }
        }
    }
}

impl Disk {
    /// Makes a disk that has this configuration.
    pub fn with(text: &str) -> Self {
        let inode = Inode { bytes: text.as_bytes().to_vec(), synced: true };
        let names = BTreeMap::from([(CONFIG.to_owned(), 0)]);
        Self { inodes: vec![inode], lasting: names.clone(), names, ..Self::default() }
    }

    /// Returns the configuration.
    pub fn config(&self) -> String {
        let bytes = self.names.get(CONFIG).map_or(&[][..], |inode| &self.inodes[*inode].bytes);
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Returns the number of files.
    pub fn files(&self) -> usize {
        self.names.len()
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.names, &change);
        self.changes.push(change);
    }

    /// Leaves what a loss of power leaves: the first changes of names, and a part of all contents
    /// that were not synced.
    pub fn lose_power(&mut self, rng: &mut Rng) {
        let kept = rng.below(self.changes.len() as u64 + 1) as usize;
        for change in self.changes.drain(..).take(kept) {
            apply(&mut self.lasting, &change);
        }
        self.names = self.lasting.clone();
        for inode in self.inodes.iter_mut().filter(|inode| !inode.synced) {
            let left = rng.below(inode.bytes.len() as u64 + 1) as usize;
            inode.bytes.truncate(left);
            inode.synced = true;
        }
        self.collect();
    }

    /// Frees the contents that no name leads to.
    fn collect(&mut self) {
        let mut inodes = Vec::new();
        for inode in self.names.values_mut() {
            inodes.push(std::mem::take(&mut self.inodes[*inode]));
            *inode = inodes.len() - 1;
        }
        self.inodes = inodes;
        self.lasting = self.names.clone();
    }
}

/// The folder as a process that saves has it.
#[derive(Debug)]
pub struct Saver {
    pub world: Shared,
    /// The number of the process.
    pub pid: u64,
}

/// A file beside the configuration.
#[derive(Debug)]
pub struct Beside {
    world: Shared,
    name: String,
    inode: usize,
}

/// Does one step of a process that saves, unless it was killed before, or the disk fails.
fn step(world: &Shared, fault: i32) -> io::Result<()> {
    let mut world = world.lock();
    let world = &mut *world;
    match &mut world.disk.killed_after {
        Some(0) => return Err(errno(EIO)),
        Some(left) => *left -= 1,
        None => {}
    }
    if world.disk.fails && world.rng.below(3) == 0 {
        return Err(errno(fault));
    }
    Ok(())
}

impl Write for Beside {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        step(&self.world, ENOSPC)?;
        let mut world = self.world.lock();
        let n = world.between(1, bytes.len() as u64) as usize;
        let inode = &mut world.disk.inodes[self.inode];
        inode.bytes.extend(&bytes[..n]);
        inode.synced = false;
        Ok(n)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Folder for Saver {
    type File = Beside;

    fn sweep(&mut self) {
        if step(&self.world, EIO).is_err() {
            return;
        }
        // One process saves at a time here, so that no other holds a lock.
        let mut world = self.world.lock();
        let beside: Vec<String> = world.disk.names.keys().filter(|name| *name != CONFIG).cloned().collect();
        beside.into_iter().for_each(|name| world.disk.change(Change::Remove(name)));
    }
    fn make(&mut self) -> io::Result<Beside> {
        step(&self.world, ENOSPC)?;
        let mut world = self.world.lock();
        let name = format!(".{CONFIG}.{}", self.pid);
        world.disk.inodes.push(Inode::default());
        let inode = world.disk.inodes.len() - 1;
        world.disk.change(Change::Make(name.clone(), inode));
        Ok(Beside { world: self.world.clone(), name, inode })
    }
    fn sync(&mut self, file: &Beside) -> io::Result<()> {
        step(&self.world, EIO)?;
        let mut world = self.world.lock();
        if world.lie != Some(Lie::SyncIgnored) {
            world.disk.inodes[file.inode].synced = true;
        }
        Ok(())
    }
    fn rename(&mut self, file: &Beside) -> io::Result<()> {
        step(&self.world, EIO)?;
        self.world.lock().disk.change(Change::Rename(file.name.clone(), CONFIG.to_owned()));
        Ok(())
    }
    fn remove(&mut self, file: &Beside) {
        if step(&self.world, EIO).is_ok() {
            self.world.lock().disk.change(Change::Remove(file.name.clone()));
        }
    }
    fn sync_names(&mut self) -> io::Result<()> {
        step(&self.world, EIO)?;
        let mut world = self.world.lock();
        if world.lie != Some(Lie::SyncIgnored) {
            world.disk.changes.clear();
            world.disk.collect();
        }
        Ok(())
    }
}
