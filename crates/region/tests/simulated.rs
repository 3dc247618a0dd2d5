//! The whole store on simulated disks, run by a scheduler that a seed drives. Run by
//! `RUSTFLAGS="--cfg shuttle" cargo test --release -p warmset-region --test simulated`; empty otherwise.
//!
//! Threads write, read, hold, prefetch, save and release, beside one that moves the budget, fills disks, breaks them and
//! crashes the machine. Each keeps plain maps of what it wrote; whatever succeeds must return the very bytes. The
//! seed decides what each does and who runs when. A failure names its seed: `WARMSET_SEED=17` runs it again, the same
//! to the last step. `WARMSET_SEEDS=10000` runs more of them.
#![cfg(shuttle)]

use std::collections::BTreeMap;
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::RandomScheduler;
use shuttle::{MaxSteps, Runner, thread};
use warmset_platform::io::Disk;
use warmset_region::{Config, Error, FRAME_BYTES, Pin, Region, Store};

const FRAME: u64 = FRAME_BYTES as u64;
const ACTORS: u64 = 3;
const STEPS: usize = 24;
const ROOMY: u64 = 1 << 40;

fn below(limit: u64) -> u64 {
    thread_rng().gen_range(0..limit)
}

/// Bytes that follow from the seed alone.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut block = [0; 4096];
    for byte in &mut block {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *byte = state as u8;
    }
    block.iter().copied().cycle().take(len).collect()
}

/// By segment, the seed and length of its bytes.
type Written = BTreeMap<u64, (u64, usize)>;

/// What all threads of a run share.
struct World {
    store: Store,
    dirs: Vec<PathBuf>,
    disks: Vec<Arc<Disk>>,
    /// Transfers fail.
    faults: Arc<AtomicBool>,
    /// What was saved under each name, and must be there after a crash.
    saved: [std::sync::Mutex<Vec<Vec<(u64, usize)>>>; ACTORS as usize],
    working: AtomicU64,
}

/// Errors are those of disks that are full or broken, or of memory that others hold; all else is a bug.
fn expected(error: &Error) {
    let io = matches!(error, Error::Io { source, .. } if source.kind() != io::ErrorKind::NotFound);
    assert!(io || error.is_no_space(), "{error}");
}

struct Actor {
    world: Arc<World>,
    number: u64,
    next: u64,
    regions: Vec<(Region, Written)>,
    held: Vec<(Pin, u64, usize)>,
}

impl Actor {
    fn work(mut self) {
        for _ in 0..STEPS {
            self.step();
        }
        self.held.drain(..).for_each(|(pin, seed, len)| assert!(pin[..] == bytes(seed, len)[..]));
        for (region, written) in &self.regions {
            for (&segment, &(seed, len)) in written {
                match region.pin(segment) {
                    Ok(pin) => assert!(pin[..] == bytes(seed, len)[..], "segment {segment} of {seed}"),
                    Err(error) => expected(&error),
                }
            }
        }
        self.world.working.fetch_sub(1, Ordering::SeqCst);
    }

    fn step(&mut self) {
        match below(20) {
            0 if self.regions.len() < 3 => {
                let region = self.world.store.create_region().expect("it is open");
                self.regions.push((region, Written::new()));
            }
            0..8 => self.write(),
            8..12 => {
                if let Some((pin, seed, len)) = self.pin() {
                    assert!(pin[..] == bytes(seed, len)[..], "{seed}");
                }
            }
            12 | 13 => {
                let pin = self.pin();
                self.held.extend(pin);
            }
            14 => self.held.clear(),
            15 | 16 => self.prefetch(),
            17 => self.save(),
            18 if self.regions.len() > 1 => drop(self.regions.remove(0)),
            _ => self.abandon(),
        }
    }

    fn some_region(&self) -> usize {
        below(self.regions.len() as u64) as usize
    }

    fn write(&mut self) {
        self.next += 1;
        let seed = self.number << 32 | self.next;
        // Seldom more than a frame: such a segment needs two that follow one another.
        let len = if below(16) == 0 { FRAME_BYTES + 5 } else { 1 + below(6000) as usize };
        let at = self.some_region();
        let (region, written) = &mut self.regions[at];
        match region.write(&bytes(seed, len)) {
            Ok(segment) => drop(written.insert(segment, (seed, len))),
            Err(error) => expected(&error),
        }
    }

    fn some_segment(&self) -> Option<(&Region, u64, u64, usize)> {
        let (region, written) = &self.regions[self.some_region()];
        let at = below(written.len().max(1) as u64) as usize;
        written.iter().nth(at).map(|(&segment, &(seed, len))| (region, segment, seed, len))
    }

    fn pin(&self) -> Option<(Pin, u64, usize)> {
        let (region, segment, seed, len) = self.some_segment()?;
        region.pin(segment).map_err(|error| expected(&error)).ok().map(|pin| (pin, seed, len))
    }

    fn prefetch(&self) {
        let Some((region, segment, seed, len)) = self.some_segment() else { return };
        let Some(prefetch) = region.prefetch(segment).expect("sealed") else { return };
        if below(3) > 0 {
            match prefetch.wait() {
                Ok(pin) => assert!(pin[..] == bytes(seed, len)[..], "{seed}"),
                Err(error) => expected(&error),
            }
        }
    }

    fn abandon(&self) {
        let (region, _) = &self.regions[self.some_region()];
        match region.draft(100) {
            Ok(mut draft) => draft.fill(1),
            Err(error) => expected(&error),
        }
    }

    fn save(&mut self) {
        let (region, written) = &self.regions[self.some_region()];
        let path = self.world.dirs[0].join(format!("saved-{}", self.number));
        let content: Vec<_> = written.values().copied().collect();
        match region.save(&path) {
            Ok(()) => {
                self.world.saved[self.number as usize].lock().expect("no panic").push(content.clone());
                let opened = self.world.store.open_saved(&path).expect("it was saved");
                check(&opened, &content);
            }
            Err(error) => expected(&error),
        }
    }
}

fn check(region: &Region, content: &[(u64, usize)]) {
    assert_eq!(region.segments().expect("open"), content.len() as u64);
    for (segment, &(seed, len)) in content.iter().enumerate() {
        match region.pin(segment as u64) {
            Ok(pin) => assert!(pin[..] == bytes(seed, len)[..], "saved {seed}"),
            Err(error) => expected(&error),
        }
    }
}

/// The machine: what happens to a store from outside, while there is somebody at work.
fn trouble(world: &World, run: &Path) {
    let mut crashes = 0;
    while world.working.load(Ordering::SeqCst) > 0 {
        let disk = &world.disks[below(world.disks.len() as u64) as usize];
        match below(8) {
            0 | 1 => world.store.set_budget((3 + below(6)) * FRAME).expect("within the maximum"),
            2 => disk.set_capacity(disk.taken_bytes()),
            3 => disk.set_capacity(ROOMY),
            4 => disk.set_works(below(2) == 0),
            5 => world.faults.store(below(2) == 0, Ordering::SeqCst),
            6 if crashes < 2 => {
                crashes += 1;
                crash(world, &run.join(format!("crash-{crashes}")));
            }
            _ => {}
        }
        (0..below(40)).for_each(|_| thread::yield_now());
    }
    world.disks.iter().for_each(|disk| {
        disk.set_capacity(ROOMY);
        disk.set_works(true);
    });
    world.faults.store(false, Ordering::SeqCst);
}

/// What the disk holds if the machine stops now: what was saved before is there, whole, or something newer is.
fn crash(world: &World, dir: &Path) {
    let before: Vec<_> = world.saved.iter().map(|saved| saved.lock().expect("no panic").len()).collect();
    let _image = world.disks[0].image(dir);
    let store = Store::open(Config::new(dir, 4 * FRAME)).expect("open");
    for (number, before) in before.into_iter().enumerate() {
        let path = dir.join(format!("saved-{number}"));
        match store.open_saved(&path) {
            Err(error) => assert!(before == 0, "save {before} of {number} is lost: {error}"),
            Ok(region) => {
                let count = region.segments().expect("open");
                // Whole: every checksum is right. Which save it is, its first segment says.
                for segment in 0..count {
                    let pin = region.pin(segment).expect("whole");
                    assert!(!pin.is_empty());
                }
                let saved = world.saved[number].lock().expect("no panic").clone();
                let newest_known = saved[before.saturating_sub(1).min(saved.len())..].iter();
                let is_known = newest_known.clone().any(|content| holds(&region, content));
                // The one that is being saved is in no list yet.
                assert!(
                    is_known || saved.len() == before || before == 0,
                    "an older save of {number} is back"
                );
            }
        }
    }
    Disk::forget(dir);
}

fn holds(region: &Region, content: &[(u64, usize)]) -> bool {
    let same = |(segment, &(seed, len)): (usize, &(u64, usize))| {
        region.pin(segment as u64).is_ok_and(|pin| pin[..] == bytes(seed, len)[..])
    };
    region.segments().expect("open") == content.len() as u64 && content.iter().enumerate().all(same)
}

/// What the store has counted in the end.
fn scenario(test: &str, seed: u64) -> String {
    let run = PathBuf::from(format!("/simulated/{test}/{seed}"));
    let dirs: Vec<_> = (0..1 + seed % 2).map(|n| run.join(format!("{n}"))).collect();
    let disks: Vec<_> = dirs.iter().map(|dir| Disk::make(dir, ROOMY)).collect();
    let faults = Arc::new(AtomicBool::new(false));
    let mut config = Config::new(&dirs[0], 4 * FRAME);
    config.dirs.clone_from(&dirs);
    config.budget_bytes_max = Some(8 * FRAME);
    let failing = Arc::clone(&faults);
    config.faults = Some(Arc::new(move |_, _, _| {
        (failing.load(Ordering::SeqCst) && below(3) == 0).then(|| io::Error::from_raw_os_error(5))
    }));
    let store = Store::open(config).expect("open");
    let world = Arc::new(World {
        store,
        dirs: dirs.clone(),
        disks: disks.clone(),
        faults,
        saved: Default::default(),
        working: AtomicU64::new(ACTORS),
    });
    let actors: Vec<_> = (0..ACTORS)
        .map(|number| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let region = world.store.create_region().expect("it is open");
                let regions = vec![(region, Written::new())];
                Actor { world, number, next: 0, regions, held: Vec::new() }.work();
            })
        })
        .collect();
    trouble(&world, &run);
    actors.into_iter().for_each(|actor| actor.join().expect("no panic"));
    settle(&world);
    let stats = world.store.stats();
    let counted = format!(
        "{} {} {} {} {} {} {}",
        stats.written_bytes_total,
        stats.read_bytes_total,
        stats.promotions_total,
        stats.demotions_total,
        stats.waits_total,
        stats.bounces_total,
        stats.mapped_total
    );
    world.store.close();
    let leaked = disks.iter().any(|disk| disk.taken_bytes() > saved_bytes(&world, disk));
    assert!(!leaked, "disk space is not given back");
    dirs.iter().for_each(|dir| Disk::forget(dir));
    counted
}

/// Everything is given back once nobody has any of it.
fn settle(world: &World) {
    for _ in 0..20_000 {
        let stats = world.store.stats();
        let left = (stats.regions, stats.segments, stats.used_bytes, stats.window_bytes, stats.live_bytes);
        if left == (0, 0, 0, 0, 0) && stats.flash_bytes == 0 && stats.resident_bytes == 0 {
            return;
        }
        thread::yield_now();
    }
    panic!("not given back: {:?}", world.store.stats());
}

/// What files with names may take: nothing on the disks that have none.
fn saved_bytes(world: &World, disk: &Arc<Disk>) -> u64 {
    let has_saved = Arc::ptr_eq(disk, &world.disks[0]);
    let any = world.saved.iter().any(|saved| !saved.lock().expect("no panic").is_empty());
    if has_saved && any { 64 << 20 } else { 0 }
}

/// Both tests run at once, each on disks of its own.
fn run(test: &'static str, seed: u64) -> String {
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    config.max_steps = MaxSteps::FailAfter(5_000_000);
    let (tell, told) = std::sync::mpsc::channel();
    Runner::new(RandomScheduler::new_from_seed(seed, 1), config)
        .run(move || tell.send(scenario(test, seed)).expect("somebody listens"));
    told.recv().expect("it ran to its end")
}

#[test]
fn a_seed_runs_the_same_twice() {
    let counted: Vec<_> = (0..8).map(|seed| run("twice", seed)).collect();
    assert!(counted.iter().any(|counts| counts != &counted[0]), "seeds differ");
    for (seed, first) in counted.iter().enumerate() {
        assert_eq!(&run("twice", seed as u64), first, "seed {seed}");
    }
}

#[test]
fn whatever_happens_bytes_are_right_and_saved_regions_stay() {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seeds = match number("WARMSET_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("WARMSET_SEEDS").unwrap_or(500),
    };
    for seed in seeds {
        let outcome = std::panic::catch_unwind(|| run("many", seed));
        assert!(outcome.is_ok(), "the simulation fails: run it again with WARMSET_SEED={seed}");
    }
}
