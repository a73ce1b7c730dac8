//! A frame of a store as filters and actions see it.

use txweir_core::classify::packet::{FrameBytes, Undone};
use txweir_device::Store;

/// A frame and the store that contains it.
pub struct InStore<'a, S: Store> {
    pub store: &'a mut S,
    pub frame: &'a mut S::Frame,
}

impl<S: Store> FrameBytes for InStore<'_, S> {
    fn bytes(&self) -> &[u8] {
        self.store.bytes(self.frame)
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.store.bytes_mut(self.frame)
    }
    /// Inserts bytes as far as the frame's memory has room. Behind the place of insertion, the
    /// start of an undone checksum moves by as many bytes.
    fn insert(&mut self, at: usize, bytes: &[u8]) -> bool {
        let done = self.store.insert(self.frame, at, bytes);
        let hdr = &mut self.store.beside_mut(self.frame).hdr;
        if let (true, Ok(len)) = (done && at <= usize::from(hdr.csum_start), u16::try_from(bytes.len())) {
            hdr.csum_start = hdr.csum_start.saturating_add(len);
        }
        done
    }
    fn remove(&mut self, at: usize, len: usize) -> bool {
        let done = self.store.remove(self.frame, at, len);
        let hdr = &mut self.store.beside_mut(self.frame).hdr;
        if let (true, Ok(len)) = (done && at < usize::from(hdr.csum_start), u16::try_from(len)) {
            hdr.csum_start = hdr.csum_start.saturating_sub(len);
        }
        done
    }
    fn undone(&self) -> Undone {
        Undone(self.store.beside(self.frame).hdr.encode())
    }
    fn checksum_left(&self) -> Option<usize> {
        let hdr = self.store.beside(self.frame).hdr;
        hdr.needs_csum.then_some(usize::from(hdr.csum_start))
    }
}
