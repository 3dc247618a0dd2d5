//! Making room when memory and disk are full: the owner releases whole regions, and writers get their space.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use warmset_region::{Config, Error, FRAME_BYTES, Region, Store};

mod support;
use support::{FRAME, StoppingDevice, assert_bytes, bytes, dir, eventually, fill, fill_until_full};

/// Far beyond what any of this takes; a writer that sleeps for ever fails by it.
const PATIENCE: Duration = Duration::from_secs(30);

fn config(dir: &tempfile::TempDir, frames: u64, flash_frames: u64) -> Config {
    let mut config = Config::new(dir.path(), frames * FRAME);
    config.flash_bytes_max = Some(flash_frames * FRAME);
    config
}

fn region_of(store: &Store, count: u64) -> Region {
    let region = store.create_region().expect("region");
    fill(&region, count, |_| FRAME_BYTES);
    region
}

/// Regions of two segments until nothing fits any more; the last one has none or one.
fn fill_up(store: &Store) -> Vec<Region> {
    let mut regions = Vec::new();
    loop {
        let region = store.create_region().expect("region");
        let full = (0..2).find_map(|n| region.write(bytes(n, FRAME_BYTES)).err());
        regions.push(region);
        if let Some(error) = full {
            assert!(error.is_no_space(), "{error}");
            return regions;
        }
        assert!(regions.len() < 1000, "the quota must end this");
    }
}

fn within<T: Send>(what: &str, body: impl FnOnce() -> T + Send) -> T {
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || tell.send(body()));
        match told.recv_timeout(PATIENCE) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Disconnected) => panic!("{what} panicked"),
            Err(RecvTimeoutError::Timeout) => {
                // A panic here would wait for the thread.
                eprintln!("not within {PATIENCE:?}: {what}");
                std::process::abort();
            }
        }
    })
}

#[test]
fn the_coldest_region_is_the_one_used_longest_ago() {
    let dir = dir();
    let store = Store::open(config(&dir, 16, 100)).expect("open");
    let regions: Vec<_> = (0..5).map(|_| region_of(&store, 8)).collect();
    let ids: Vec<_> = regions.iter().map(Region::id).collect();
    assert_eq!(store.coldest_regions(), ids, "never read: as they were written");
    for n in [2, 0] {
        (0..8).for_each(|segment| drop(regions[n].pin(segment).expect("pin")));
    }
    assert_eq!(store.coldest_regions(), [ids[1], ids[3], ids[4], ids[2], ids[0]]);
    drop(regions[3].pin(5).expect("pin"));
    assert_eq!(store.coldest_regions(), [ids[1], ids[4], ids[2], ids[0], ids[3]], "one segment is enough");
    let late = region_of(&store, 1);
    assert_eq!(store.coldest_regions().last(), Some(&late.id()), "what is written is used");
}

#[test]
fn what_is_in_use_is_no_candidate() {
    let dir = dir();
    let store = Store::open(config(&dir, 16, 100)).expect("open");
    let (read, written, idle) = (region_of(&store, 2), region_of(&store, 2), region_of(&store, 2));
    let empty = store.create_region().expect("region");
    let pin = read.pin(1).expect("pin");
    let mut draft = written.draft(FRAME_BYTES).expect("draft");
    assert_eq!(store.coldest_regions(), [idle.id()], "{} is empty", empty.id());
    drop(pin);
    draft.copy_from_slice(bytes(9, FRAME_BYTES));
    draft.seal(FRAME_BYTES).expect("seal");
    assert_eq!(store.coldest_regions().len(), 3);
    drop(idle);
    assert_eq!(store.coldest_regions().len(), 2, "a released region is on its way out");
}

#[test]
fn the_write_after_a_release_finds_its_space() {
    let dir = dir();
    let store = Store::open(config(&dir, 12, 20)).expect("open");
    let mut regions = fill_up(&store);
    let last = regions.pop().expect("the one that did not fit");
    for (n, region) in regions.into_iter().enumerate() {
        drop(region);
        // The housekeeper has hardly begun: this waits for it.
        let written = within("a write", || last.write(bytes(n as u64, FRAME_BYTES)));
        written.unwrap_or_else(|error| panic!("after release {n}: {error}"));
    }
    assert!(store.stats().flash_bytes <= 20 * FRAME);
}

#[test]
fn a_release_in_the_middle_of_a_write_lets_writers_go_on() {
    let dir = dir();
    let mut config = config(&dir, 12, 8);
    let device = StoppingDevice::of(&mut config);
    let store = Store::open(config).expect("open");
    let region = store.create_region().expect("region");
    device.arm();
    thread::scope(|scope| {
        let filled = scope.spawn(|| fill_until_full(&region).1);
        device.wait();
        let other = store.create_region().expect("region");
        store.release(region.id());
        let waiting = scope.spawn(move || other.write(bytes(1, FRAME_BYTES)).map(|_| other));
        thread::sleep(Duration::from_millis(50));
        device.let_go();
        let error = filled.join().expect("no panic");
        assert!(matches!(error, Error::Misuse(_) | Error::NoSpace { .. }), "{error}");
        waiting.join().expect("no panic").expect("its space came back");
    });
}

#[test]
fn a_held_region_is_not_waited_for() {
    let dir = dir();
    let store = Store::open(config(&dir, 12, 8)).expect("open");
    let mut regions = fill_up(&store);
    let last = regions.pop().expect("the one that did not fit");
    let pins: Vec<_> = (0..2).map(|n| regions[0].pin(n).expect("pin")).collect();
    drop(regions.remove(0));
    let error = within("a write", || last.write(bytes(1, FRAME_BYTES))).expect_err("its reader holds it");
    assert!(error.is_no_space(), "{error}");
    pins.iter().enumerate().for_each(|(n, pin)| assert_bytes(pin, n as u64, FRAME_BYTES));
    drop(pins);
    within("a write", || last.write(bytes(1, FRAME_BYTES))).expect("its reader has let go");
}

#[test]
fn what_could_not_be_written_is_written_once_there_is_space() {
    let dir = dir();
    let store = Store::open(config(&dir, 16, 4)).expect("open");
    let mut regions = fill_up(&store);
    store.set_budget(12 * FRAME).expect("smaller");
    thread::sleep(Duration::from_millis(50));
    assert!(store.stats().used_bytes > 12 * FRAME, "there is nowhere to go");
    while store.stats().used_bytes > 12 * FRAME && !regions.is_empty() {
        drop(regions.remove(0));
        thread::sleep(Duration::from_millis(20));
    }
    eventually("within the budget", || store.stats().used_bytes <= 12 * FRAME);
    for region in &regions {
        (0..region.segments().expect("open"))
            .filter_map(|n| Some((n, region.pin(n).ok()?)))
            .for_each(|(n, pin)| assert_bytes(&pin, n, FRAME_BYTES));
    }
}

#[test]
fn a_scan_of_a_full_store_still_has_frames_to_stream_through() {
    let dir = dir();
    let store = Store::open(config(&dir, 64, 64)).expect("open");
    let regions = fill_up(&store);
    assert_eq!(store.stats().mapped_total, 0);
    for _ in 0..2 {
        for region in &regions {
            (0..region.segments().expect("open"))
                .filter_map(|n| Some((n, region.pin(n).ok()?)))
                .for_each(|(n, pin)| assert_bytes(&pin, n, FRAME_BYTES));
        }
    }
    let stats = store.stats();
    assert_eq!(stats.mapped_total, 0, "of {} promotions", stats.promotions_total);
    assert!(stats.used_bytes >= 59 * FRAME, "{} bytes are in use", stats.used_bytes);
}

#[test]
fn without_a_disk_all_of_the_memory_is_used() {
    let dir = dir();
    let store = Store::open(config(&dir, 64, 0)).expect("open");
    let regions = fill_up(&store);
    let window_frames = 1;
    assert_eq!((store.stats().used_bytes, regions.len()), ((64 - window_frames) * FRAME, 32));
}

/// Several writers, each of which evicts under one lock, as the Spark plugin does: what is read is right, the
/// quota holds, and no more goes than has to.
#[test]
fn writers_that_evict_together() {
    const FRAMES: u64 = 16;
    const FLASH_FRAMES: u64 = 48;
    const WRITERS: u64 = 4;
    let dir = dir();
    let store = Store::open(config(&dir, FRAMES, FLASH_FRAMES)).expect("open");
    let cache: Mutex<Vec<Region>> = Mutex::default();
    let turn = Mutex::new(());
    let done = AtomicBool::new(false);
    let evict = |region: &Region, seed: u64| {
        let _turn = turn.lock().expect("no panic");
        loop {
            match region.write(bytes(seed, FRAME_BYTES)) {
                Ok(_) => return,
                Err(error) => assert!(error.is_no_space(), "{error}"),
            }
            let mut cache = cache.lock().expect("no panic");
            let coldest = store.coldest_regions();
            let found = coldest.iter().find_map(|&id| cache.iter().position(|cached| cached.id() == id));
            drop(cache.remove(found.expect("something is idle")));
            store.count_evictions(1);
        }
    };
    within("all writers", || {
        thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..30 {
                            let region = store.create_region().expect("region");
                            (0..4).for_each(|n| {
                                if let Err(error) = region.write(bytes(n, FRAME_BYTES)) {
                                    assert!(error.is_no_space(), "{error}");
                                    evict(&region, n);
                                }
                            });
                            (0..4).for_each(|n| {
                                assert_bytes(&region.pin(n).expect("pin"), n, FRAME_BYTES);
                            });
                            cache.lock().expect("no panic").push(region);
                        }
                    })
                })
                .collect();
            let sampler = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert!(store.stats().flash_bytes <= FLASH_FRAMES * FRAME);
                    thread::sleep(Duration::from_millis(1));
                }
            });
            writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
            done.store(true, Ordering::Relaxed);
            sampler.join().expect("no panic");
        });
    });
    let stats = store.stats();
    let kept = cache.lock().expect("no panic").len() as u64;
    assert_eq!(kept + stats.evictions_total, WRITERS * 30);
    assert!(kept >= 8, "{kept} regions of 4 frames are left, of {} frames", FRAMES + FLASH_FRAMES);
}

/// Of thirty-two frames every second one is held: no two are neighbours, and no demotion would change that.
#[test]
fn nothing_is_evicted_that_cannot_help() {
    let dir = dir();
    let store = Store::open(Config::new(dir.path(), 32 * FRAME)).expect("open");
    let region = store.create_region().expect("region");
    support::fill(&region, 32, |_| FRAME_BYTES);
    let mut pins: Vec<_> = (0..32).map(|n| region.pin(n).expect("pin")).collect();
    pins.sort_by_key(|pin| pin.as_ptr() as usize);
    let mut turn = 0;
    pins.retain(|_| {
        turn += 1;
        turn % 2 == 0
    });
    let before = store.stats();
    for _ in 0..3 {
        drop(region.draft(2 * FRAME_BYTES).expect("beside the pool"));
    }
    let after = store.stats();
    assert_eq!(after.bounces_total, before.bounces_total + 3);
    assert_eq!((after.demotions_total, after.used_bytes), (before.demotions_total, 32 * FRAME));
    drop(pins);
    drop(region.draft(2 * FRAME_BYTES).expect("in the pool"));
    let last = store.stats();
    assert_eq!(last.bounces_total, after.bounces_total);
    // A write-back under way meanwhile may end in a demotion of its own.
    let demotions = last.demotions_total - before.demotions_total;
    assert!((2..=4).contains(&demotions), "{demotions} of 32 frames");
    // The same with three held: one run of eight is left, and it alone is emptied.
    let mut pins: Vec<_> = (0..32).filter_map(|n| region.pin(n).ok()).collect();
    pins.sort_by_key(|pin| pin.as_ptr() as usize);
    let base = pins[0].as_ptr() as usize / FRAME_BYTES;
    pins.retain(|pin| [7, 16, 24].contains(&(pin.as_ptr() as usize / FRAME_BYTES - base)));
    let before = store.stats().bounces_total;
    drop(region.draft(8 * FRAME_BYTES).expect("in the pool"));
    assert_eq!(store.stats().bounces_total, before, "{} are held", pins.len());
    for n in 0..32 {
        assert_bytes(&region.pin(n).expect("pin"), n, FRAME_BYTES);
    }
}

#[test]
fn bytes_in_memory_are_counted_as_they_come_and_go() {
    let dir = dir();
    let store = Store::open(Config::new(dir.path(), 12 * FRAME)).expect("open");
    let region = store.create_region().expect("region");
    let same = |when: &str| {
        let (stats, pool) = (store.stats(), store.pool_use());
        let resident: u64 = store.regions().iter().map(|region| region.resident_bytes).sum();
        assert_eq!(stats.resident_bytes, resident, "{when}");
        assert_eq!(pool.absent_bytes, stats.live_bytes - resident, "{when}");
    };
    support::fill(&region, 8, |n| 1 + n as usize * 200_003);
    same("written");
    let mut draft = region.draft(3 * FRAME_BYTES).expect("draft");
    draft[0] = 1;
    draft.seal(5).expect("shrunk");
    same("sealed with less than was reserved");
    support::fill(&region, 30, |_| FRAME_BYTES);
    eventually("writes end", || store.stats().written_bytes_total > 0);
    for n in (0..39).rev() {
        drop(region.pin(n).expect("pin"));
    }
    same("some gone to disk");
    drop(region);
    eventually("all is gone", || store.stats().regions == 0);
    assert_eq!((store.stats().resident_bytes, store.pool_use().absent_bytes), (0, 0));
}
