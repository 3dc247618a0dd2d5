//! Where readers sleep while the bytes they wait for are on their way.
//!
//! Invariant: whoever sleeps looks at the state word with its shard locked, and whoever ends a promotion locks the shard
//! after it has changed the word.

use crate::segment::Segment;
use crate::sync::{Condvar, Mutex};

const SHARDS: usize = 16;

/// Where readers wait for a promotion, spread over a few locks.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    shards: [(Mutex<()>, Condvar); SHARDS],
}

impl Waiters {
    pub fn shard(&self, segment: &Segment) -> &(Mutex<()>, Condvar) {
        &self.shards[segment.key as usize % SHARDS]
    }

    pub fn notify(&self, segment: &Segment) {
        let (lock, wake) = self.shard(segment);
        drop(lock.lock());
        wake.notify_all();
    }

    /// The store has failed: nothing that anybody waits for comes any more.
    pub fn notify_all(&self) {
        for (lock, wake) in &self.shards {
            drop(lock.lock());
            wake.notify_all();
        }
    }
}
