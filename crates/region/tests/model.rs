//! The store against plain maps: random operations of two threads, with errors injected into every eighth or so
//! transfer and a budget that moves. Whatever succeeds must return the very bytes that were written.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use proptest::prelude::*;
use warmset_region::{Config, Error, FRAME_BYTES, FaultHook, Io, Op, Pin, Region, Store};

mod support;
use support::{FRAME, assert_bytes, bytes, dir, eventually, fill};

#[derive(Debug, Clone)]
enum Step {
    Create,
    Write { region: usize, len: usize },
    Read { region: usize, segment: usize },
    Hold { region: usize, segment: usize },
    LetGo,
    Prefetch { region: usize, segment: usize },
    Release { region: usize },
    SetBudget { frames: u64 },
    Faults { on: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let (region, segment) = (0..4usize, 0..64usize);
    prop_oneof![
        1 => Just(Step::Create),
        8 => (region.clone(), 1..5 * FRAME_BYTES / 2).prop_map(|(region, len)| Step::Write { region, len }),
        12 => (region.clone(), segment.clone()).prop_map(|(region, segment)| Step::Read { region, segment }),
        3 => (region.clone(), segment.clone()).prop_map(|(region, segment)| Step::Hold { region, segment }),
        2 => Just(Step::LetGo),
        4 => (region.clone(), segment).prop_map(|(region, segment)| Step::Prefetch { region, segment }),
        1 => region.prop_map(|region| Step::Release { region }),
        1 => (4..16u64).prop_map(|frames| Step::SetBudget { frames }),
        1 => any::<bool>().prop_map(|on| Step::Faults { on }),
    ]
}

/// The map a region is compared with: by segment, the seed and length of its bytes.
type Written = HashMap<u64, (u64, usize)>;

/// What one thread knows: its regions, and what it wrote to them.
struct Actor<'a> {
    store: &'a Store,
    faults: &'a AtomicBool,
    seed: u64,
    regions: Vec<(Region, Written)>,
    held: Vec<(Pin, u64, usize)>,
}

/// Errors of the disk are the injected ones; anything else is a bug.
fn injected(error: &Error) {
    assert!(matches!(error, Error::Io { .. }), "{error}");
}

impl Actor<'_> {
    fn take(&mut self, step: &Step) {
        match *step {
            Step::Create => {
                if self.regions.len() < 4 {
                    self.regions.push((self.store.create_region().expect("region"), HashMap::new()));
                }
            }
            Step::Write { region, len } => self.write(region, len),
            Step::Read { region, segment } => {
                if let Some((pin, seed, len)) = self.pin(region, segment) {
                    assert_bytes(&pin, seed, len);
                }
            }
            Step::Hold { region, segment } => {
                let pin = self.pin(region, segment);
                self.held.extend(pin);
            }
            Step::LetGo => {
                for (pin, seed, len) in self.held.drain(..) {
                    assert_bytes(&pin, seed, len);
                }
            }
            Step::Prefetch { region, segment } => self.prefetch(region, segment),
            Step::Release { region } => {
                if region < self.regions.len() {
                    // Held segments of it are checked later, at `LetGo`.
                    self.regions.swap_remove(region);
                }
            }
            Step::SetBudget { frames } => self.store.set_budget(frames * FRAME).expect("within the maximum"),
            Step::Faults { on } => self.faults.store(on, Ordering::Relaxed),
        }
    }

    fn write(&mut self, region: usize, len: usize) {
        self.seed += 1;
        let seed = self.seed;
        if let Some((region, known)) = self.regions.get_mut(region) {
            match region.write(bytes(seed, len)) {
                Ok(segment) => drop(known.insert(segment, (seed, len))),
                Err(error) => injected(&error),
            }
        }
    }

    fn choose(&self, region: usize, segment: usize) -> Option<(&Region, u64, u64, usize)> {
        let (region, known) = self.regions.get(region)?;
        let mut segments: Vec<_> = known.iter().collect();
        segments.sort();
        let (&segment, &(seed, len)) = *segments.get(segment % segments.len().max(1))?;
        Some((region, segment, seed, len))
    }

    fn pin(&self, region: usize, segment: usize) -> Option<(Pin, u64, usize)> {
        let (region, segment, seed, len) = self.choose(region, segment)?;
        match region.pin(segment) {
            Ok(pin) => Some((pin, seed, len)),
            Err(error) => {
                injected(&error);
                None
            }
        }
    }

    fn prefetch(&self, region: usize, segment: usize) {
        let Some((region, segment, seed, len)) = self.choose(region, segment) else { return };
        let Some(prefetch) = region.prefetch(segment).expect("sealed") else { return };
        if seed % 3 > 0 {
            match prefetch.wait() {
                Ok(pin) => assert_bytes(&pin, seed, len),
                Err(error) => injected(&error),
            }
        }
    }
}

fn faulty(on: Arc<AtomicBool>) -> FaultHook {
    let count = AtomicU64::new(0);
    Arc::new(move |_: Op, _, _| {
        let turn = count.fetch_add(1, Ordering::Relaxed);
        (on.load(Ordering::Relaxed) && turn % 8 == 3).then(|| std::io::Error::from_raw_os_error(5))
    })
}

fn run(io: Io, plans: &[Vec<Step>]) {
    let dir = dir();
    let faults = Arc::new(AtomicBool::new(false));
    let mut config = Config::new(dir.path(), 8 * FRAME);
    config.budget_bytes_max = Some(16 * FRAME);
    config.io = io;
    config.faults = Some(faulty(Arc::clone(&faults)));
    let store = Store::open(config).expect("open");
    std::thread::scope(|scope| {
        for (n, plan) in plans.iter().enumerate() {
            let (store, faults) = (&store, &*faults);
            scope.spawn(move || {
                let regions = vec![(store.create_region().expect("region"), HashMap::new())];
                let mut actor =
                    Actor { store, faults, seed: n as u64 * 1_000_003, regions, held: Vec::new() };
                plan.iter().for_each(|step| actor.take(step));
                actor.take(&Step::LetGo);
                faults.store(false, Ordering::Relaxed);
                for (region, known) in &actor.regions {
                    for (&segment, &(seed, len)) in known {
                        // The other thread may still inject errors; this one turned them off for good.
                        let pin =
                            (0..50).find_map(|_| region.pin(segment).map_err(|error| injected(&error)).ok());
                        assert_bytes(&pin.expect("readable once errors have passed"), seed, len);
                    }
                }
            });
        }
    });
    eventually("everything is given back", || {
        let stats = store.stats();
        (stats.segments, stats.used_bytes, stats.flash_bytes, stats.live_bytes) == (0, 0, 0, 0)
            && (stats.window_bytes, stats.resident_bytes) == (0, 0)
    });
    store.close();
    assert_eq!(std::fs::read_dir(dir.path()).expect("dir").count(), 0, "no file has a name");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn two_threads_find_what_they_wrote(
        first in prop::collection::vec(step(), 1..250),
        second in prop::collection::vec(step(), 1..250),
        threads in any::<bool>(),
    ) {
        run(if threads { Io::Threads } else { Io::Auto }, &[first, second]);
    }
}

#[test]
fn readers_share_segments_under_pressure() {
    let dir = dir();
    let mut config = Config::new(dir.path(), 12 * FRAME);
    config.budget_bytes_max = Some(24 * FRAME);
    let store = Store::open(config).expect("open");
    let region = store.create_region().expect("region");
    fill(&region, 48, |_| FRAME_BYTES / 4);
    std::thread::scope(|scope| {
        for reader in 0..4u64 {
            let (region, store) = (&region, &store);
            scope.spawn(move || {
                for turn in 0..400u64 {
                    let n = (turn * (reader * 2 + 1) + reader) % 48;
                    let ahead = region.prefetch((n + 1) % 48).expect("sealed");
                    assert_bytes(&region.pin(n).expect("pin"), n, FRAME_BYTES / 4);
                    drop(ahead);
                    if turn % 100 == 50 && reader == 0 {
                        store.set_budget((4 + turn / 20) * FRAME).expect("within the maximum");
                    }
                }
            });
        }
    });
    assert_eq!(store.region_stats(region.id()).expect("known").pins, 0);
}

#[test]
fn closing_in_mid_work_gives_errors_and_no_more() {
    for round in 0..8 {
        let dir = dir();
        let store = Store::open(Config::new(dir.path(), 8 * FRAME)).expect("open");
        let region = store.create_region().expect("region");
        support::fill(&region, 24, |_| FRAME_BYTES / 2);
        let held = region.pin(3).expect("pin");
        std::thread::scope(|scope| {
            for reader in 0..3u64 {
                let region = &region;
                scope.spawn(move || {
                    for n in (reader..).step_by(5) {
                        match region.pin(n % 24) {
                            Ok(pin) => assert_bytes(&pin, n % 24, FRAME_BYTES / 2),
                            Err(error) => {
                                assert!(matches!(error, Error::Misuse(_)), "{error}");
                                break;
                            }
                        }
                        if region.write(bytes(n, 1000)).is_err() {
                            break;
                        }
                    }
                });
            }
            std::thread::sleep(std::time::Duration::from_millis(round * 3));
            store.close();
        });
        assert!(region.pin(0).is_err() && region.write(&[1]).is_err() && store.create_region().is_err());
        assert_bytes(&held, 3, FRAME_BYTES / 2);
        drop((region, store));
        assert_bytes(&held, 3, FRAME_BYTES / 2);
    }
}
