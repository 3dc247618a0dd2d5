//! The regions of a store, by id.
//!
//! Invariant: an id is never used twice. A region stays until it is forgotten, which is after its last segment is gone;
//! lookups take no lock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use papaya::HashMap as SharedMap;

use crate::backing::Backing;
use crate::error::Error;
use crate::segment::{RegionCore, Segment};
use crate::sync::Mutex;

/// A region's list of segments. Only grows; lookups take no lock.
#[derive(Debug)]
pub(crate) struct RegionTable {
    pub core: Arc<RegionCore>,
    pub segments: boxcar::Vec<Arc<Segment>>,
}

#[derive(Debug)]
pub(crate) struct Regions {
    known: SharedMap<u64, Arc<RegionTable>>,
    /// Those that are released and not gone.
    leaving: Mutex<BTreeMap<u64, Arc<RegionTable>>>,
    next: AtomicU64,
}

impl Regions {
    pub fn new() -> Self {
        Self { known: SharedMap::new(), leaving: Mutex::default(), next: AtomicU64::new(1) }
    }

    pub fn add(&self, backing: Backing) -> Arc<RegionTable> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let core = Arc::new(RegionCore::new(id, backing));
        let table = Arc::new(RegionTable { core, segments: boxcar::Vec::new() });
        self.known.pin().insert(id, Arc::clone(&table));
        table
    }

    pub fn get(&self, id: u64) -> Result<Arc<RegionTable>, Error> {
        self.known.pin().get(&id).cloned().ok_or_else(|| no_region(id))
    }

    /// By id.
    pub fn all(&self) -> Vec<Arc<RegionTable>> {
        let mut all: Vec<_> = self.known.pin().values().cloned().collect();
        all.sort_unstable_by_key(|table| table.core.id);
        all
    }

    pub fn is_empty(&self) -> bool {
        self.known.pin().is_empty()
    }

    /// Marks a region as released; `None` if it was already.
    pub fn begin_leaving(&self, id: u64) -> Option<Arc<RegionTable>> {
        let table = self.get(id).ok()?;
        let mut leaving = self.leaving.lock();
        if table.core.released.swap(true, Ordering::AcqRel) {
            return None;
        }
        leaving.insert(id, Arc::clone(&table));
        Some(table)
    }

    pub fn forget(&self, id: u64) {
        self.known.pin().remove(&id);
        self.leaving.lock().remove(&id);
    }

    /// Whether one of those that are released and not gone is as `wanted`.
    pub fn any_leaving(&self, wanted: impl Fn(&RegionCore) -> bool) -> bool {
        self.leaving.lock().values().any(|table| wanted(&table.core))
    }

    /// Runs `f` on a segment; the fast way in, which counts no reference.
    pub fn with_segment<T>(
        &self,
        region: u64,
        segment: u64,
        f: impl FnOnce(&Arc<Segment>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let regions = self.known.pin();
        let table = regions.get(&region).ok_or_else(|| no_region(region))?;
        let index = usize::try_from(segment).unwrap_or(usize::MAX);
        let found = table.segments.get(index).ok_or_else(|| {
            Error::misuse(format!(
                "region {region} has no segment {segment}, only {}",
                table.segments.count()
            ))
        })?;
        f(found)
    }

    /// A counted reference to a segment, for what may take long.
    pub fn segment(&self, region: u64, segment: u64) -> Result<Arc<Segment>, Error> {
        self.with_segment(region, segment, |segment| Ok(Arc::clone(segment)))
    }
}

fn no_region(id: u64) -> Error {
    Error::misuse(format!("there is no region {id} (released, or never created)"))
}
