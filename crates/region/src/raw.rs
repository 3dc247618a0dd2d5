//! Regions and segments by number, and bytes by address: what a language boundary needs that cannot hold a [`Pin`].
//!
//! Invariant: a number that names nothing is an error. What an address shows is the caller's business: it is the
//! segment's while the caller has a pin on it, or is its writer, and never unmapped. The functions that end a pin,
//! or a writer's turn, are unsafe: they could end somebody else's.
//!
//! [`Pin`]: crate::Pin

use std::sync::Arc;

use crate::error::Error;
use crate::read::PinStart;
use crate::segment::Segment;
use crate::shared::Shared;
use crate::store::Store;

/// A store's regions by number.
#[derive(Debug, Clone, Copy)]
pub struct Raw<'a> {
    store: &'a Store,
}

impl Store {
    /// Access by numbers and addresses.
    #[must_use]
    pub fn raw(&self) -> Raw<'_> {
        Raw { store: self }
    }
}

impl Raw<'_> {
    fn shared(&self) -> &Shared {
        &self.store.shared
    }

    fn segment(&self, region: u64, segment: u64) -> Result<Arc<Segment>, Error> {
        self.shared().regions.segment(region, segment)
    }

    /// Makes an empty region and returns its id, which is never 0 and never reused.
    ///
    /// # Errors
    /// [`Error::Misuse`] once the store is closed.
    pub fn create_region(&self) -> Result<u64, Error> {
        self.shared().create_region()
    }

    /// Adds an unsealed segment of `bytes` to a region: its index and the address to write to. The bytes are the
    /// caller's alone until [`Raw::seal`], the region's release, or the store's closing, by whomever.
    ///
    /// # Errors
    /// [`Error::NoSpace`] when others would have to go to disk and it is full; [`Error::TooLarge`] for more
    /// than the pool has; [`Error::Io`] when there is no memory left for bytes in transit, or others cannot
    /// be written; [`Error::Misuse`] for an unknown region or a size of zero.
    pub fn reserve(&self, region: u64, bytes: u64) -> Result<(u64, usize), Error> {
        let table = self.shared().regions.get(region)?;
        let (index, segment) = self.shared().reserve(&table, bytes, true)?;
        Ok((index, segment.address()))
    }

    /// Makes the first `used_bytes` of a segment immutable and readable.
    ///
    /// # Errors
    /// [`Error::NoSpace`] or [`Error::Io`] when the segment had to go to disk at once and could not; it is
    /// lost then, the region's other segments are not.
    ///
    /// # Safety
    /// The caller got the segment from [`Raw::reserve`], and nobody writes to it any more.
    pub unsafe fn seal(&self, region: u64, segment: u64, used_bytes: u64) -> Result<(), Error> {
        self.shared().seal(&self.segment(region, segment)?, used_bytes)
    }

    /// Takes a pin and starts a promotion if needed; never waits for I/O.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a segment that does not exist, is not sealed or is released.
    pub fn pin_start(&self, region: u64, segment: u64) -> Result<PinStart, Error> {
        self.shared().regions.with_segment(region, segment, |segment| self.shared().pin_start(segment))
    }

    /// Waits for the bytes of a segment that [`Raw::pin_start`] gave a pin on; returns their address.
    ///
    /// # Errors
    /// [`Error::Io`] if they cannot be read; the pin is dropped then.
    ///
    /// # Safety
    /// The pin is one that the caller got from [`Raw::pin_start`] and has not given back.
    pub unsafe fn pin_wait(&self, region: u64, segment: u64) -> Result<usize, Error> {
        self.shared().wait(&self.segment(region, segment)?)
    }

    /// Takes a pin and returns the address, whatever it takes.
    ///
    /// # Errors
    /// As [`Raw::pin_start`] and [`Raw::pin_wait`]; [`Error::NoSpace`] when all memory is pinned, which passes when
    /// others are unpinned.
    pub fn pin(&self, region: u64, segment: u64) -> Result<usize, Error> {
        let shared = self.shared();
        shared.check()?;
        let absent = shared.regions.with_segment(region, segment, |segment| {
            Ok(match shared.pin_resident(segment) {
                Some(address) => Err(address),
                None => Ok(Arc::clone(segment)),
            })
        })?;
        absent.map_or_else(Ok, |segment| shared.pin(&segment))
    }

    /// Gives a pin back.
    ///
    /// # Errors
    /// [`Error::Misuse`] if there was none.
    ///
    /// # Safety
    /// The pin is one that the caller got from [`Raw::pin_start`] or [`Raw::pin`] and has not given back, and nobody
    /// reads at its address on account of it any more.
    pub unsafe fn unpin(&self, region: u64, segment: u64) -> Result<(), Error> {
        self.shared().regions.with_segment(region, segment, |segment| self.shared().unpin(segment))
    }
}
