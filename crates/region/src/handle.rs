//! Safe handles for Rust callers: a region, a segment being written, a pinned segment.
//!
//! Invariant: a [`Pin`] counts once among its segment's pins; its bytes are immutable and in place until it is dropped. A [`Draft`] is the
//! writer's pin; its bytes are its own until it is sealed or dropped. Both own what they show: neither the region's
//! release nor the store's closing takes it away.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::error::Error;
use crate::names::Names;
use crate::read::PinStart;
use crate::segment::Segment;
use crate::shared::Shared;
use crate::state::State;
use crate::store::Store;

/// A region; released when the last handle is dropped.
pub struct Region {
    shared: Arc<Shared>,
    id: u64,
}

impl Store {
    /// Makes an empty region.
    ///
    /// # Errors
    /// [`Error::Misuse`] once the store is closed.
    pub fn create_region(&self) -> Result<Region, Error> {
        Ok(Region { shared: Arc::clone(&self.shared), id: self.shared.create_region()? })
    }
}

impl Region {
    pub(crate) fn of(shared: Arc<Shared>, id: u64) -> Self {
        Self { shared, id }
    }

    pub(crate) fn names(&self) -> &Names {
        &self.shared.config.names
    }

    /// Segments that were added to it.
    ///
    /// # Errors
    /// [`Error::Misuse`] once the store is closed.
    pub fn segments(&self) -> Result<u64, Error> {
        Ok(self.shared.regions.get(self.id)?.segments.count() as u64)
    }

    /// Indices of the segments that were not abandoned.
    pub(crate) fn kept_segments(&self) -> Result<Vec<u64>, Error> {
        let table = self.shared.regions.get(self.id)?;
        let kept = table.segments.iter().filter(|(_, segment)| segment.word.look().state != State::Freed);
        Ok(kept.map(|(index, _)| index as u64).collect())
    }

    /// Its id, as the bindings use it.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Adds a segment of `bytes` to be filled in place.
    ///
    /// # Errors
    /// As [`Raw::reserve`](crate::raw::Raw::reserve).
    pub fn draft(&self, bytes: usize) -> Result<Draft, Error> {
        let table = self.shared.regions.get(self.id)?;
        let (index, segment) = self.shared.reserve(&table, bytes as u64, false)?;
        let address = segment.address();
        Ok(Draft { shared: Arc::clone(&self.shared), segment, index, address, bytes, sealed: false })
    }

    /// Adds a sealed segment with a copy of `bytes`; returns its index.
    ///
    /// # Errors
    /// As [`Region::draft`] and [`Draft::seal`].
    pub fn write(&self, bytes: &[u8]) -> Result<u64, Error> {
        let mut draft = self.draft(bytes.len())?;
        draft.copy_from_slice(bytes);
        draft.seal(bytes.len())
    }

    /// Starts bringing a segment in ahead of its use. Keeps it there until the returned pin is dropped;
    /// `None` when there is no room for it now.
    ///
    /// # Errors
    /// As [`Raw::pin_start`](crate::raw::Raw::pin_start).
    pub fn prefetch(&self, segment: u64) -> Result<Option<Prefetch>, Error> {
        let found = self.shared.regions.segment(self.id, segment)?;
        let pinned = self.shared.pin_start(&found)? != PinStart::NoRoom;
        Ok(pinned.then(|| Prefetch { shared: Arc::clone(&self.shared), segment: found, pinned: true }))
    }

    /// Pins a segment and makes it readable.
    ///
    /// # Errors
    /// As [`Raw::pin`](crate::raw::Raw::pin).
    pub fn pin(&self, segment: u64) -> Result<Pin, Error> {
        let found = self.shared.regions.segment(self.id, segment)?;
        let address = self.shared.pin(&found)?;
        Ok(Pin { shared: Arc::clone(&self.shared), segment: found, address })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if !self.shared.is_elsewhere() {
            self.shared.release(self.id);
        }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("id", &self.id).finish_non_exhaustive()
    }
}

/// An unsealed segment, writable through `DerefMut`. Dropped before it is sealed, it is abandoned: its memory is
/// free again, and its index stays without bytes.
pub struct Draft {
    shared: Arc<Shared>,
    segment: Arc<Segment>,
    index: u64,
    address: usize,
    bytes: usize,
    sealed: bool,
}

impl Draft {
    /// Makes the first `used` bytes immutable; returns the segment's index.
    ///
    /// # Errors
    /// [`Error::Misuse`] if the region was released meanwhile, else as [`Raw::seal`](crate::raw::Raw::seal).
    pub fn seal(mut self, used: usize) -> Result<u64, Error> {
        self.shared.seal(&self.segment, used as u64)?;
        self.sealed = true;
        Ok(self.index)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.sealed && !self.shared.is_elsewhere() {
            self.shared.abandon(&self.segment);
        }
    }
}

impl Deref for Draft {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.shared.space.health.expect_here();
        // SAFETY: `reserve` gave this address for `bytes` bytes; the writer's pin, which is this draft's, keeps them
        // its own until it is sealed or dropped.
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.bytes) }
    }
}

impl DerefMut for Draft {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.shared.space.health.expect_here();
        // SAFETY: as in `deref`.
        unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, self.bytes) }
    }
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft")
            .field("segment", &self.index)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// A pin on a segment that may still be on its way.
pub struct Prefetch {
    shared: Arc<Shared>,
    segment: Arc<Segment>,
    pinned: bool,
}

impl Prefetch {
    /// Waits for the bytes.
    ///
    /// # Errors
    /// As [`Raw::pin_wait`](crate::raw::Raw::pin_wait).
    pub fn wait(mut self) -> Result<Pin, Error> {
        let waited = self.shared.wait(&self.segment);
        // What it counted is the result's, or was given back with the error.
        self.pinned = false;
        let (shared, segment) = (Arc::clone(&self.shared), Arc::clone(&self.segment));
        Ok(Pin { address: waited?, shared, segment })
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        if self.pinned && !self.shared.is_elsewhere() {
            let dropped = self.shared.unpin(&self.segment);
            debug_assert!(dropped.is_ok(), "a prefetch counts once");
        }
    }
}

impl fmt::Debug for Prefetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prefetch").finish_non_exhaustive()
    }
}

/// A pinned segment, readable through `Deref`.
pub struct Pin {
    shared: Arc<Shared>,
    segment: Arc<Segment>,
    address: usize,
}

impl Deref for Pin {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.shared.space.health.expect_here();
        // SAFETY: what this pin counts keeps the sealed bytes at this address (invariant 1 of the crate).
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.segment.bytes() as usize) }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if !self.shared.is_elsewhere() {
            let dropped = self.shared.unpin(&self.segment);
            debug_assert!(dropped.is_ok(), "a pin counts once");
        }
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pin").field("bytes", &self.len()).finish_non_exhaustive()
    }
}
