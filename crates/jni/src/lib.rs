//! The boundary between the JVM and the region store, `io.warmset.region.NativeStore`, and the aggregates over cached
//! batches, `io.warmset.columns.NativeAggregate`.
//!
//! Ownership: Java holds numbers only. A store's handle is looked up in a table here, so a stale one is an
//! exception and never a wild pointer; the table's reference keeps a store alive while a call uses it. Memory
//! behind an address stays the store's. Panics become `RuntimeException`, errors the exceptions of `errors.rs`.

mod aggregates;
mod errors;
mod splits;
mod stores;
mod warnings;

use jni::JNIEnv;
use jni::objects::{JClass, JLongArray, JString};
use jni::sys::{jboolean, jint, jlong, jlongArray, jsize, jstring};
use warmset_region::{Config, Error, PinStart, Root, Store, memory_beside_bytes, memory_bound};

use crate::errors::{Failure, guarded};
use crate::stores::{add_store, close_store, with_store, with_store_or_closed};

/// `memoryLimit`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_memoryLimit<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
) -> jlong {
    guarded(&mut env, jlong::MAX, |_| {
        let limit = memory_bound(&Root::live()).and_then(|bound| jlong::try_from(bound.limit_bytes).ok());
        Ok(limit.unwrap_or(jlong::MAX))
    })
}

/// `memoryBeside`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_memoryBeside<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    own_bytes: jlong,
) -> jlong {
    guarded(&mut env, 0, |_| {
        let own_bytes = u64::try_from(own_bytes).unwrap_or(0);
        Ok(jlong::try_from(memory_beside_bytes(&Root::live(), own_bytes)).unwrap_or(jlong::MAX))
    })
}

/// `trimHeap`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_trimHeap<'a>(mut env: JNIEnv<'a>, _: JClass<'a>) {
    guarded(&mut env, (), |_| {
        warmset_platform::mm::trim_heap();
        Ok(())
    });
}

/// `open`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_open<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    config: JString<'a>,
) -> jlong {
    guarded(&mut env, 0, |env| {
        warnings::collect();
        let json: String = env.get_string(&config)?.into();
        let store = Config::from_json(&json).and_then(Store::open).map_err(Failure::Checked)?;
        Ok(add_store(store))
    })
}

/// `close`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_close<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    store: jlong,
) {
    guarded(&mut env, (), |_| {
        close_store(store);
        Ok(())
    });
}

/// `createRegion`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_createRegion<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    store: jlong,
) -> jlong {
    guarded(&mut env, 0, |_| with_store(store, |store| Ok(store.raw().create_region()? as jlong)))
}

/// `reserve`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_reserve<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    store: jlong,
    region: jlong,
    bytes: jlong,
    out: JLongArray<'a>,
) -> jlong {
    guarded(&mut env, 0, |env| {
        let size = u64::try_from(bytes)
            .map_err(|_| Failure::Argument(format!("a segment cannot have {bytes} bytes")))?;
        if out.is_null() || env.get_array_length(&out)? < 1 {
            return Err(Failure::Argument("`out` must have room for one address".to_owned()));
        }
        let (segment, address) = with_store(store, |store| Ok(store.raw().reserve(id(region)?, size)?))?;
        env.set_long_array_region(&out, 0, &[address as jlong])?;
        Ok(segment as jlong)
    })
}

/// `seal`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_seal<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    store: jlong,
    region: jlong,
    segment: jlong,
    used_bytes: jlong,
) {
    guarded(&mut env, (), |_| {
        let used = u64::try_from(used_bytes)
            .map_err(|_| Failure::Argument(format!("{used_bytes} bytes cannot have been used")))?;
        with_store(store, |store| {
            // SAFETY: Java seals what it reserved, once it has written it.
            Ok(unsafe { store.raw().seal(id(region)?, id(segment)?, used) }?)
        })
    });
}

/// `pinStart`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_pinStart<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    store: jlong,
    region: jlong,
    segment: jlong,
) -> jint {
    guarded(&mut env, 0, |_| {
        with_store(store, |store| {
            Ok(match store.raw().pin_start(id(region)?, id(segment)?)? {
                PinStart::Ready => 0,
                PinStart::Pending => 1,
                PinStart::NoRoom => 2,
            })
        })
    })
}

/// `pinWait`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_pinWait<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    store: jlong,
    region: jlong,
    segment: jlong,
) -> jlong {
    guarded(&mut env, 0, |_| {
        with_store(store, |store| {
            // SAFETY: Java waits for what it has a pin on.
            Ok(unsafe { store.raw().pin_wait(id(region)?, id(segment)?) }? as jlong)
        })
    })
}

/// `pin`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_pin<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    store: jlong,
    region: jlong,
    segment: jlong,
) -> jlong {
    guarded(&mut env, 0, |_| {
        with_store(store, |store| Ok(store.raw().pin(id(region)?, id(segment)?)? as jlong))
    })
}

/// `unpin`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_unpin<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    store: jlong,
    region: jlong,
    segment: jlong,
) {
    guarded(&mut env, (), |_| {
        with_store_or_closed(store, |store| {
            // SAFETY: Java gives back the pins that it took, and reads at their addresses no more.
            Ok(unsafe { store.raw().unpin(id(region)?, id(segment)?) }?)
        })
    });
}

/// `release`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_release<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    store: jlong,
    region: jlong,
) {
    guarded(&mut env, (), |_| {
        // What does not exist is released already.
        if let Ok(region) = u64::try_from(region) {
            let _ = with_store(store, |store| {
                store.release(region);
                Ok(())
            });
        }
        Ok(())
    });
}

/// `setBudget`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_setBudget<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    store: jlong,
    bytes: jlong,
) {
    guarded(&mut env, (), |_| {
        let budget = u64::try_from(bytes)
            .map_err(|_| Failure::Argument(format!("a budget cannot have {bytes} bytes")))?;
        with_store(store, |store| Ok(store.set_budget(budget)?))
    });
}

/// `poolBytes`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_poolBytes<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    store: jlong,
) -> jlong {
    guarded(&mut env, 0, |_| {
        with_store(store, |store| Ok(jlong::try_from(store.pool_bytes()).unwrap_or(jlong::MAX)))
    })
}

/// `coldestRegions`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_coldestRegions<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    store: jlong,
) -> jlongArray {
    guarded(&mut env, std::ptr::null_mut(), |env| {
        let regions = with_store(store, |store| Ok(store.coldest_regions()))?;
        let ids: Vec<jlong> = regions.into_iter().map(|id| id as jlong).collect();
        long_array(env, &ids)
    })
}

/// `countEvictions`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_countEvictions<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    store: jlong,
    regions: jlong,
) {
    guarded(&mut env, (), |_| {
        let regions = u64::try_from(regions)
            .map_err(|_| Failure::Argument(format!("{regions} regions cannot have been evicted")))?;
        with_store(store, |store| {
            store.count_evictions(regions);
            Ok(())
        })
    });
}

/// `stats`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_stats<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    store: jlong,
) -> jstring {
    guarded(&mut env, std::ptr::null_mut(), |env| {
        let json = with_store(store, |store| errors::json(&store.stats()))?;
        Ok(env.new_string(json)?.into_raw())
    })
}

/// `regions`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_regions<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    store: jlong,
) -> jstring {
    guarded(&mut env, std::ptr::null_mut(), |env| {
        let json = with_store(store, |store| errors::json(&store.regions()))?;
        Ok(env.new_string(json)?.into_raw())
    })
}

/// `takeWarnings`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_takeWarnings<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    again: jboolean,
) -> jstring {
    guarded(&mut env, std::ptr::null_mut(), |env| {
        let lines = warnings::take(again != 0).join("\n");
        Ok(if lines.is_empty() { std::ptr::null_mut() } else { env.new_string(lines)?.into_raw() })
    })
}

/// `splitOpen`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_splitOpen<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    limits: JLongArray<'a>,
) -> jlong {
    guarded(&mut env, 0, |env| splits::open(numbers(env, &limits, "limits")?))
}

/// `splitTick`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_splitTick<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    split: jlong,
    store: jlong,
    heap: JLongArray<'a>,
    out: JLongArray<'a>,
) {
    guarded(&mut env, (), |env| {
        let heap = numbers(env, &heap, "heap")?;
        let _: [jlong; splits::DECISION] = numbers(env, &out, "out")?;
        let decision = with_store(store, |store| splits::tick(split, store, heap))?;
        Ok(env.set_long_array_region(&out, 0, &decision)?)
    });
}

/// `splitClose`
#[unsafe(no_mangle)]
pub extern "system" fn Java_io_warmset_region_NativeStore_splitClose<'a>(
    mut env: JNIEnv<'a>,
    _: JClass<'a>,
    split: jlong,
) {
    guarded(&mut env, (), |_| {
        splits::close(split);
        Ok(())
    });
}

/// An array of these numbers.
fn long_array(env: &JNIEnv<'_>, numbers: &[jlong]) -> Result<jlongArray, Failure> {
    let length = jsize::try_from(numbers.len())
        .map_err(|_| Failure::Argument(format!("{} numbers are too many for an array", numbers.len())))?;
    let array = env.new_long_array(length)?;
    env.set_long_array_region(&array, 0, numbers)?;
    Ok(array.into_raw())
}

/// The numbers of an array that must have so many.
fn numbers<const N: usize>(
    env: &mut JNIEnv<'_>,
    array: &JLongArray<'_>,
    name: &str,
) -> Result<[jlong; N], Failure> {
    if array.is_null() || usize::try_from(env.get_array_length(array)?) != Ok(N) {
        return Err(Failure::Argument(format!("`{name}` must have {N} numbers")));
    }
    let mut numbers = [0; N];
    env.get_long_array_region(array, 0, &mut numbers)?;
    Ok(numbers)
}

/// A region's or segment's number; the store says whether it exists.
fn id(number: jlong) -> Result<u64, Error> {
    u64::try_from(number).map_err(|_| Error::Misuse(format!("{number} names no region or segment")))
}
