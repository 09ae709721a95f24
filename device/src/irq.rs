//! The MSI-X vectors as the client gave them to us: an event descriptor each.
//!
//! The client keeps the table and the masks. Between disabling and assigning vectors (a client that adds a vector to
//! MSI-X already in use may do both) an interrupt finds no descriptor: while MSI-X is on it stays pending, can be
//! read in the pending bits, and is sent when the vector gets one, as a masked vector of a real card does.

use std::cell::Cell;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;

use crate::pci::MSIX_VECTORS;

const _: () = assert!(MSIX_VECTORS as u32 <= u64::BITS, "one bit a vector in a word");

/// Descriptors and pending bits of all vectors.
#[derive(Debug)]
pub struct Vectors {
    descriptors: [Option<File>; MSIX_VECTORS as usize],
    pending: Cell<u64>,
}

impl Default for Vectors {
    fn default() -> Self {
        Self { descriptors: [const { None }; MSIX_VECTORS as usize], pending: Cell::new(0) }
    }
}

impl Vectors {
    /// Gives a vector its descriptor, or takes it away. A vector that does not exist is ignored.
    pub fn assign(&mut self, vector: u16, descriptor: Option<OwnedFd>) {
        let Some(slot) = self.descriptors.get_mut(usize::from(vector)) else {
            return;
        };
        *slot = descriptor.map(|descriptor| {
            // The loop must never wait for whoever reads the other end.
            if let Err(error) = rustix::io::ioctl_fionbio(&descriptor, true) {
                log::warn!("descriptor of vector {vector} stays blocking: {error}");
            }
            File::from(descriptor)
        });
        let bit = 1 << vector;
        if slot.is_some() && self.pending.get() & bit != 0 {
            self.pending.set(self.pending.get() & !bit);
            self.send(vector, true);
        }
    }

    /// Takes all descriptors away.
    pub fn release(&mut self) {
        self.descriptors.fill_with(|| None);
    }

    /// Sends the interrupt of one vector. Without a descriptor it is kept pending if `keep`.
    pub fn send(&self, vector: u16, keep: bool) {
        let Some(slot) = self.descriptors.get(usize::from(vector)) else {
            return;
        };
        let Some(mut file) = slot.as_ref() else {
            self.pending.set(self.pending.get() | u64::from(keep) << vector);
            return;
        };
        match file.write(&1_u64.to_ne_bytes()) {
            Ok(_) => {}
            // The counter is full: the client has a wake-up coming anyway.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => log::warn!("interrupt of vector {vector} is lost: {error}"),
        }
    }

    /// The pending bits, vector 0 lowest.
    pub fn pending(&self) -> u64 {
        self.pending.get()
    }

    /// Forgets what is pending: MSI-X was switched off, or there was a reset.
    pub fn forget_pending(&self) {
        self.pending.set(0);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    fn event() -> (OwnedFd, File) {
        let ours = eventfd(0, EventfdFlags::empty()).unwrap();
        let theirs = ours.try_clone().unwrap();
        (ours, File::from(theirs))
    }

    fn count(file: &mut File) -> Option<u64> {
        let mut word = [0; 8];
        match file.read(&mut word) {
            Ok(8) => Some(u64::from_ne_bytes(word)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn sends_to_the_vector_meant() {
        let mut vectors = Vectors::default();
        let (first, mut first_end) = event();
        let (last, mut last_end) = event();
        vectors.assign(0, Some(first));
        vectors.assign(63, Some(last));
        vectors.send(63, true);
        vectors.send(63, true);
        assert_eq!(count(&mut last_end), Some(2));
        assert_eq!(count(&mut first_end), None);
    }

    #[test]
    fn what_comes_while_there_is_no_descriptor_is_sent_later_once() {
        let mut vectors = Vectors::default();
        let (old, mut old_end) = event();
        vectors.assign(5, Some(old));
        vectors.release();
        vectors.send(5, true);
        vectors.send(5, true);
        vectors.send(7, false);
        assert_eq!(vectors.pending(), 1 << 5);
        vectors.assign(5, None);
        assert_eq!(vectors.pending(), 1 << 5);
        let (new, mut new_end) = event();
        vectors.assign(5, Some(new));
        assert_eq!(vectors.pending(), 0);
        assert_eq!((count(&mut new_end), count(&mut old_end)), (Some(1), None));
        vectors.send(6, true);
        vectors.forget_pending();
        let (other, mut other_end) = event();
        vectors.assign(6, Some(other));
        assert_eq!(count(&mut other_end), None);
    }

    #[test]
    fn vectors_that_do_not_exist_and_full_counters_do_no_harm() {
        let mut vectors = Vectors::default();
        let (full, mut end) = event();
        end.write_all(&(u64::MAX - 1).to_ne_bytes()).unwrap();
        vectors.assign(1, Some(full));
        vectors.send(1, true);
        assert_eq!(count(&mut end), Some(u64::MAX - 1));
        for vector in [MSIX_VECTORS, u16::MAX] {
            vectors.assign(vector, Some(event().0));
            vectors.send(vector, true);
        }
        assert_eq!(vectors.pending(), 0);
    }
}
