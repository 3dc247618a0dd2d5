//! The table of open stores.
//!
//! Invariant: a handle is never used twice, so a stale one finds nothing.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};

use jni::sys::jlong;
use papaya::HashMap;
use warmset_platform::status::Published;
use warmset_region::Store;

use crate::errors::Failure;

static STORES: LazyLock<HashMap<jlong, Arc<Entry>>> = LazyLock::new(HashMap::new);
static NEXT: AtomicI64 = AtomicI64::new(1);

struct Entry {
    store: Store,
    closed: AtomicBool,
    /// For `warmset top`.
    _published: Published,
}

pub(crate) fn add_store(store: Store) -> jlong {
    let handle = NEXT.fetch_add(1, Ordering::Relaxed);
    let published = store.publish("spark", std::collections::HashMap::new);
    let entry = Entry { store, closed: AtomicBool::new(false), _published: published };
    STORES.pin().insert(handle, Arc::new(entry));
    handle
}

/// Closes a store. It stays known as long as some of it is pinned, so that its memory comes back with the last pin.
pub(crate) fn close_store(handle: jlong) {
    let Some(entry) = STORES.pin().get(&handle).cloned() else { return };
    entry.closed.store(true, Ordering::Release);
    entry.store.close();
    forget_if_empty(handle, &entry);
}

fn forget_if_empty(handle: jlong, entry: &Entry) {
    if entry.store.is_empty() {
        STORES.pin().remove(&handle);
    }
}

/// Runs `f` on the store that `handle` names. The table's guard keeps the store alive meanwhile.
pub(crate) fn with_store<T>(
    handle: jlong,
    f: impl FnOnce(&Store) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let stores = STORES.pin();
    let entry = stores.get(&handle).filter(|entry| !entry.closed.load(Ordering::Acquire));
    f(&entry.ok_or_else(|| no_store(handle))?.store)
}

/// The same for what gives a pin back, which a closed store takes, too.
pub(crate) fn with_store_or_closed<T>(
    handle: jlong,
    f: impl FnOnce(&Store) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let stores = STORES.pin();
    let entry = stores.get(&handle).ok_or_else(|| no_store(handle))?;
    let outcome = f(&entry.store);
    if entry.closed.load(Ordering::Acquire) {
        forget_if_empty(handle, entry);
    }
    outcome
}

fn no_store(handle: jlong) -> Failure {
    Failure::Argument(format!("there is no open store {handle}"))
}
