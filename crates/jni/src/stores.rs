//! The table of open stores.
//!
//! Invariant: a handle is never used twice, so a stale one finds nothing.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};

use jni::sys::jlong;
use papaya::HashMap;
use warmset_region::Store;

use crate::errors::Failure;

static STORES: LazyLock<HashMap<jlong, Arc<Store>>> = LazyLock::new(HashMap::new);
static NEXT: AtomicI64 = AtomicI64::new(1);

pub(crate) fn add_store(store: Store) -> jlong {
    let handle = NEXT.fetch_add(1, Ordering::Relaxed);
    STORES.pin().insert(handle, Arc::new(store));
    handle
}

pub(crate) fn remove_store(handle: jlong) -> Option<Arc<Store>> {
    STORES.pin().remove(&handle).cloned()
}

/// Runs `f` on the store that `handle` names. The table's guard keeps the store alive meanwhile.
pub(crate) fn with_store<T>(
    handle: jlong,
    f: impl FnOnce(&Store) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let stores = STORES.pin();
    let store =
        stores.get(&handle).ok_or_else(|| Failure::Argument(format!("there is no open store {handle}")))?;
    f(store)
}
