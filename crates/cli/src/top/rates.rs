//! What stores did between two looks, per second.

use std::collections::HashMap;

use serde::Serialize;

use super::machine::{Machine, Of, StoreStatus};

/// A store's rates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rates {
    /// Of the bytes that were accessed, the part that was in memory; none without accesses.
    pub hit_ratio: Option<f64>,
    /// Bytes accessed, by whole segments.
    pub accessed_bytes_per_s: f64,
    /// Bytes read from disk.
    pub read_bytes_per_s: f64,
    /// Bytes written to disk.
    pub written_bytes_per_s: f64,
    /// Segments brought to memory.
    pub promotions_per_s: f64,
    /// Segments taken from memory.
    pub demotions_per_s: f64,
    /// Times that readers waited.
    pub waits_per_s: f64,
    /// Seconds that readers waited: 2 if two wait at any time.
    pub wait_s_per_s: f64,
}

type Key = (String, u64);

fn key(store: &Of<StoreStatus>) -> Key {
    (store.process.key.clone(), store.status.store)
}

/// Remembers the last look.
#[derive(Debug, Default)]
pub struct History {
    before: HashMap<Key, Of<StoreStatus>>,
    rates: HashMap<Key, Rates>,
}

impl History {
    /// Takes a look into account.
    pub fn add(&mut self, machine: &Machine) {
        let mut rates = HashMap::new();
        let mut before = HashMap::new();
        for store in &machine.stores {
            let key = key(store);
            let last = self.before.remove(&key);
            // What was not written again has the rates that it had.
            let known = self.rates.get(&key).copied();
            rates.extend(
                last.and_then(|last| between(&last, store)).or(known).map(|rates| (key.clone(), rates)),
            );
            before.insert(key, store.clone());
        }
        (self.before, self.rates) = (before, rates);
    }

    /// A store's rates, if it was looked at twice.
    pub fn rates(&self, store: &Of<StoreStatus>) -> Option<&Rates> {
        self.rates.get(&key(store))
    }
}

fn between(before: &Of<StoreStatus>, now: &Of<StoreStatus>) -> Option<Rates> {
    let seconds = now.process.at_ns.checked_sub(before.process.at_ns).filter(|ns| *ns > 0)? as f64 / 1e9;
    let (before, now) = (&before.status, &now.status);
    let passed = |count: fn(&StoreStatus) -> u64| count(now).saturating_sub(count(before)) as f64;
    let (accessed, read) =
        (passed(|store| store.accessed_bytes_total), passed(|store| store.read_bytes_total));
    Some(Rates {
        hit_ratio: (accessed > 0.0).then(|| 1.0 - (read / accessed).min(1.0)),
        accessed_bytes_per_s: accessed / seconds,
        read_bytes_per_s: read / seconds,
        written_bytes_per_s: passed(|store| store.written_bytes_total) / seconds,
        promotions_per_s: passed(|store| store.promotions_total) / seconds,
        demotions_per_s: passed(|store| store.demotions_total) / seconds,
        waits_per_s: passed(|store| store.waits_total) / seconds,
        wait_s_per_s: passed(|store| store.wait_ns_total) / 1e9 / seconds,
    })
}
