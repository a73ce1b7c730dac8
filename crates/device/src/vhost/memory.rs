//! The guest's memory, mapped by the descriptors that the frontend gives.
//!
//! The guest writes into it at any time. So bytes are copied out before they are looked at, and
//! single words are read and written atomically (`vm-memory`).

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use rustix::fs::{SealFlags, fcntl_add_seals, fstat};
use vm_memory::{
    AtomicAccess, Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestRegionMmap,
    MmapRegion,
};

use super::message::{Refused, Region};

/// An address that does not lie in the guest's memory, or not wholly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outside(
    /// The address.
    pub u64,
);

/// The memory of a guest.
#[derive(Debug, Default)]
pub struct Memory {
    map: GuestMemoryMmap<()>,
    regions: Vec<Region>,
}

impl Memory {
    /// Maps regions, each by the descriptor beside it.
    ///
    /// # Errors
    /// A region lies beyond its file, or two overlap, or the system refuses.
    pub(super) fn map(regions: Vec<Region>, fds: Vec<OwnedFd>) -> Result<Self, Refused> {
        if regions.len() != fds.len() {
            return Err(Refused::given(&format!("{} descriptors", regions.len()), fds.len()));
        }
        let mut mapped = Vec::with_capacity(regions.len());
        for (at, (region, fd)) in regions.iter().zip(fds).enumerate() {
            mapped.push(map_one(region, fd).map_err(|Refused(why)| Refused(format!("region {at}: {why}")))?);
        }
        mapped.sort_by_key(|(guest, _)| *guest);
        let mapped = mapped.into_iter().map(|(_, region)| region).collect();
        let map = GuestMemoryMmap::from_regions(mapped).map_err(|error| Refused(error.to_string()))?;
        Ok(Self { map, regions })
    }

    /// Makes a guest's memory of one that is mapped.
    #[cfg(feature = "testnet")]
    pub(super) fn over(map: GuestMemoryMmap<()>) -> Self {
        Self { map, regions: Vec::new() }
    }

    /// Returns the guest's address of `len` bytes that the frontend has at `user`; `None` if they
    /// do not lie in one region.
    pub(super) fn guest_address(&self, user: u64, len: u64) -> Option<u64> {
        self.regions.iter().find_map(|region| {
            let offset = user.checked_sub(region.user)?;
            let fits = offset.checked_add(len).is_some_and(|end| end <= region.size);
            fits.then(|| region.guest + offset) // below the end of the region, which `map` has checked
        })
    }

    /// True if `len` bytes from `at` on lie in the guest's memory.
    pub(crate) fn has(&self, at: u64, len: usize) -> bool {
        self.map.check_range(GuestAddress(at), len)
    }

    /// Copies bytes out of the guest's memory.
    pub(crate) fn read(&self, at: u64, room: &mut [u8]) -> Result<(), Outside> {
        self.map.read_slice(room, GuestAddress(at)).map_err(|_| Outside(at))
    }

    /// Copies bytes into the guest's memory. Some may have been written before an error.
    pub(crate) fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Outside> {
        self.map.write_slice(bytes, GuestAddress(at)).map_err(|_| Outside(at))
    }

    /// Reads a word, and sees all that the guest has written before it wrote the word.
    pub(crate) fn load<T: AtomicAccess>(&self, at: u64) -> Result<T, Outside> {
        self.map.load(GuestAddress(at), Ordering::Acquire).map_err(|_| Outside(at))
    }

    /// Writes a word; a guest that reads it sees all that was written before.
    pub(crate) fn store<T: AtomicAccess>(&self, at: u64, word: T) -> Result<(), Outside> {
        self.map.store(word, GuestAddress(at), Ordering::Release).map_err(|_| Outside(at))
    }
}

fn map_one(region: &Region, fd: OwnedFd) -> Result<(u64, GuestRegionMmap<()>), Refused> {
    let Region { guest, size, user, offset } = *region;
    let ends = [guest, user, offset].map(|from| from.checked_add(size));
    let ([Some(_), Some(_), Some(end)], Ok(len)) = (ends, usize::try_from(size)) else {
        return Err(Refused::given("addresses of 64 bits", format!("{region:x?}")));
    };
    // A file that becomes shorter would end this process by a signal. A file that can be sealed
    // cannot become shorter.
    let _ = fcntl_add_seals(&fd, SealFlags::SHRINK);
    let held = fstat(&fd).map_err(|errno| Refused(format!("cannot look at its file: {errno}")))?.st_size;
    if u64::try_from(held).unwrap_or(0) < end {
        return Err(Refused::given(&format!("a file of at least {end} bytes"), held));
    }
    let file = FileOffset::new(File::from(fd), offset);
    let map = MmapRegion::from_file(file, len).map_err(|error| Refused(error.to_string()))?;
    match GuestRegionMmap::new(map, GuestAddress(guest)) {
        Some(mapped) => Ok((guest, mapped)),
        None => Err(Refused::given("addresses of 64 bits", format!("{region:x?}"))),
    }
}
