//! What a store shows to other processes on this machine.
//!
//! Invariant: it keeps nothing of the store alive, and nobody who reads or writes takes part in it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use warmset_placement::AccessClock;
use warmset_platform::status::{Published, publish};

use crate::shared::Shared;
use crate::stats::{RegionStats, StoreStats, region_stats};
use crate::store::Store;

/// Regions that are shown each by each, the largest.
const REGIONS_MAX: usize = 200;

/// Tells the stores of one process apart.
static NEXT: AtomicU64 = AtomicU64::new(1);

#[derive(Serialize)]
struct StoreStatus<'a> {
    kind: &'static str,
    store: u64,
    user: &'static str,
    dirs: Vec<Cow<'a, str>>,
    #[serde(flatten)]
    stats: StoreStats,
    accessed_bytes_total: u64,
    largest_regions: Vec<RegionStatus>,
}

#[derive(Serialize)]
struct RegionStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(flatten)]
    stats: RegionStats,
}

impl Store {
    /// Shows this store to `warmset top`, until what is returned is dropped or the store is closed. `user` is the kind
    /// of program, `names` says what regions are called, by id.
    #[must_use]
    pub fn publish(
        &self,
        user: &'static str,
        names: impl Fn() -> HashMap<u64, String> + Send + Sync + 'static,
    ) -> Published {
        let watch = Watch {
            shared: std::sync::Arc::downgrade(&self.shared),
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            accesses: Accesses::default(),
        };
        publish(move || watch.status(user, names()))
    }
}

struct Watch {
    shared: Weak<Shared>,
    number: u64,
    accesses: Accesses,
}

impl Watch {
    fn status(&self, user: &'static str, mut names: HashMap<u64, String>) -> Option<String> {
        let shared = self.shared.upgrade().filter(|shared| shared.check_open().is_ok())?;
        let mut regions: Vec<RegionStats> =
            shared.regions.all().iter().map(|table| region_stats(table)).collect();
        regions.sort_unstable_by_key(|region| std::cmp::Reverse(region.bytes));
        regions.truncate(REGIONS_MAX);
        let status = StoreStatus {
            kind: "store",
            store: self.number,
            user,
            dirs: shared.config.dirs.iter().map(|dir| dir.to_string_lossy()).collect(),
            stats: shared.stats(),
            accessed_bytes_total: self.accesses.until(shared.clock.now(), shared.clock.live_bytes()),
            largest_regions: regions
                .into_iter()
                .map(|stats| RegionStatus { name: names.remove(&stats.id), stats })
                .collect(),
        };
        serde_json::to_string(&status).ok()
    }
}

/// Bytes that were accessed, from the store's clock, which counts parts of what is cached.
#[derive(Default)]
struct Accesses {
    ticks: AtomicU64,
    bytes: AtomicU64,
}

impl Accesses {
    /// What was accessed since the last look, at most as many bytes at a time as were cached then, is added.
    fn until(&self, now: u64, live_bytes: u64) -> u64 {
        let passed = now.saturating_sub(self.ticks.swap(now, Ordering::Relaxed));
        let bytes = AccessClock::for_live_bytes(live_bytes).bytes(passed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::config::Config;

    #[test]
    fn what_is_shown_is_the_stores_and_ends_with_it() {
        let dir = tempfile::tempdir().expect("dir");
        let store = Store::open(Config::new(dir.path(), 16 << 21)).expect("open");
        let (small, large) = (store.create_region().expect("region"), store.create_region().expect("region"));
        small.write(&[1; 100]).expect("write");
        (0..3).for_each(|n| assert_eq!(large.write(&[2; 100]).expect("write"), n));
        let watch = Watch {
            shared: std::sync::Arc::downgrade(&store.shared),
            number: 7,
            accesses: Accesses::default(),
        };
        let status = || watch.status("python", HashMap::from([(large.id(), "trips".to_owned())]));
        let shown = || serde_json::from_str::<Value>(&status().expect("open")).expect("JSON");
        let first = shown();
        assert_eq!(
            (&first["kind"], &first["store"], &first["regions"]),
            (&"store".into(), &7.into(), &2.into())
        );
        assert_eq!(first["dirs"][0], dir.path().to_str().expect("text"));
        let regions = &first["largest_regions"];
        assert_eq!((&regions[0]["name"], &regions[0]["segments"]), (&"trips".into(), &3.into()));
        assert_eq!((regions[1].get("name"), &regions[1]["resident_bytes"]), (None, &100.into()));
        (0..3).for_each(|n| drop(large.pin(n).expect("pin")));
        let accessed = |shown: &Value| shown["accessed_bytes_total"].as_u64().expect("a number");
        let passed = accessed(&shown()) - accessed(&first);
        assert!((200..=400).contains(&passed), "{passed} bytes");
        store.close();
        assert_eq!(status(), None);
    }
}
