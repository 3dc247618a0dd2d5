//! What safe callers see stays theirs: no call of anybody's, in any order, takes a pin's or a draft's bytes away.

use std::sync::Arc;

use warmset_region::{Config, Draft, Error, FRAME_BYTES, Pin, Store};

mod support;
use support::{FRAME, assert_bytes, bytes, dir, eventually, fill};

fn open(dir: &tempfile::TempDir, frames: u64) -> Store {
    Store::open(Config::new(dir.path(), frames * FRAME)).expect("open")
}

#[test]
fn a_draft_outlives_its_regions_release() {
    let dir = dir();
    let store = open(&dir, 4);
    let region = store.create_region().expect("region");
    let mut draft = region.draft(FRAME_BYTES).expect("draft");
    draft.copy_from_slice(bytes(1, FRAME_BYTES));
    store.release(region.id());
    drop(region);
    // The released region's walk is over once another one, released after it, is gone.
    let after = store.create_region().expect("region");
    let id = after.id();
    drop(after);
    eventually("the walk", || store.regions().iter().all(|region| region.id != id));
    assert_eq!(store.stats().used_bytes, FRAME, "its frame is the draft's");

    let other = store.create_region().expect("region");
    fill(&other, 8, |_| FRAME_BYTES);
    assert_bytes(&draft, 1, FRAME_BYTES);
    let error = draft.seal(FRAME_BYTES).expect_err("nobody could read it");
    assert!(matches!(error, Error::Misuse(_)), "{error}");
    drop(other);
    eventually("all is given back", || store.stats().used_bytes == 0 && store.stats().regions == 0);
}

#[test]
fn a_draft_outlives_its_store() {
    let dir = dir();
    let store = open(&dir, 8);
    let region = store.create_region().expect("region");
    let mut drafts: Vec<Draft> = (0..12).map(|_| region.draft(FRAME_BYTES).expect("draft")).collect();
    for (n, draft) in drafts.iter_mut().enumerate() {
        draft.copy_from_slice(bytes(n as u64, FRAME_BYTES));
    }
    assert!(store.stats().bounces_total >= 4, "some lie beside the pool");
    store.close();
    drop((region, store));
    for (n, draft) in drafts.into_iter().enumerate() {
        assert_bytes(&draft, n as u64, FRAME_BYTES);
        assert!(draft.seal(1).is_err());
    }
}

#[test]
fn a_pin_owns_what_it_shows() {
    fn held_elsewhere(dir: &tempfile::TempDir) -> Box<dyn std::ops::Deref<Target = [u8]> + Send + Sync> {
        let store = open(dir, 4);
        let region = store.create_region().expect("region");
        fill(&region, 4, |_| FRAME_BYTES);
        let pin: Pin = region.pin(2).expect("pin");
        // As a Python buffer holds it: without a lifetime.
        Box::new(pin)
    }
    let dir = dir();
    let pin = Arc::new(held_elsewhere(&dir));
    let other = {
        let pin = Arc::clone(&pin);
        std::thread::spawn(move || assert_bytes(&pin, 2, FRAME_BYTES))
    };
    assert_bytes(&pin, 2, FRAME_BYTES);
    other.join().expect("no panic");
}

#[test]
fn a_draft_owns_what_it_is_written_to() {
    fn owned<T: Send + Sync + 'static>(handle: T) -> T {
        handle
    }
    let dir = dir();
    let (draft, prefetch, held) = {
        let store = open(&dir, 4);
        let region = store.create_region().expect("region");
        fill(&region, 2, |_| FRAME_BYTES);
        let draft = owned(region.draft(FRAME_BYTES).expect("draft"));
        let prefetch = owned(region.prefetch(0).expect("sealed").expect("room"));
        (draft, prefetch, owned(region))
    };
    // The store is closed: what nobody has looked at yet stays readable, too, and what is written to, writable.
    let writer = std::thread::spawn(move || {
        let mut draft = draft;
        draft.copy_from_slice(bytes(7, FRAME_BYTES));
        assert_bytes(&draft, 7, FRAME_BYTES);
        assert!(draft.seal(FRAME_BYTES).is_err(), "nobody could read it");
    });
    writer.join().expect("no panic");
    assert_bytes(&prefetch.wait().expect("it is held"), 0, FRAME_BYTES);
    assert!(held.pin(1).is_err());
}

#[test]
fn frames_unpinned_after_the_close_are_given_back() {
    let dir = dir();
    let store = open(&dir, 8);
    let region = store.create_region().expect("region");
    fill(&region, 6, |_| FRAME_BYTES);
    let pins: Vec<Pin> = (0..6).map(|n| region.pin(n).expect("pin")).collect();
    store.close();
    assert!(store.pool_bytes() >= 6 * FRAME);
    for (n, pin) in pins.iter().enumerate() {
        assert_bytes(pin, n as u64, FRAME_BYTES);
    }
    drop(pins);
    assert_eq!((store.pool_bytes(), store.stats().used_bytes), (0, 0));
}
