//! region-scale: whether what the store does for one segment depends on how many there are.
//!
//! Two stores, a small one and a large one with more of everything: segments, resident ones, regions. The segments lie in
//! saved regions whose files are sparse. Many threads pin what is resident, what is absent, and write and release regions
//! of their own. The runs of both stores are interleaved; the figures are ratios of medians after a warm-up. The last line
//! of stdout is `result: {json}`.

use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use clap::Parser;
use serde::Serialize;
use serde_json::{Value, json};
use warmset_region::region_file::{checksum, encode};
use warmset_region::{Config, FRAME_BYTES, Region, Store};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Pin, miss and write in a store of a thousand segments and in one of a million, with more resident ones and regions.
#[derive(Debug, Parser)]
struct Options {
    /// Fewer operations and runs.
    #[arg(long)]
    quick: bool,
    /// Directory of the files.
    #[arg(long, default_value = "target")]
    dir: PathBuf,
    /// Keep all raw figures in this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Threads that use the store at the same time.
    #[arg(long, default_value_t = 64)]
    threads: usize,
}

/// What a store holds.
#[derive(Debug, Clone, Copy, Serialize)]
struct Size {
    segments: u64,
    /// Of the budget; each has one resident segment.
    frames: u64,
    /// Besides the saved ones: without segments.
    created_regions: u64,
}

/// Its frames are more than twice as many as threads, of which each pins one: nobody is refused.
const FEW: Size = Size { segments: 1_000, frames: 256, created_regions: 0 };
const MANY: Size = Size { segments: 1_000_000, frames: 4096, created_regions: 100_000 };
/// A machine with little memory has fewer resident ones.
const MANY_QUICK: Size = Size { frames: 1024, ..MANY };
/// Saved regions that the segments lie in.
const REGIONS: u64 = 100;
const SEGMENT_BYTES: usize = 4096;
/// The segments that are pinned as resident ones.
const HOT: u64 = 64;

/// Operations of each thread in one run.
#[derive(Debug, Clone, Copy)]
struct Counts {
    pins: u64,
    misses: u64,
    seals: u64,
}

struct Stocked {
    store: Store,
    regions: Vec<Region>,
    /// Nobody uses them.
    _others: Vec<Region>,
    segments: u64,
}

impl Stocked {
    fn open(dir: &Path, size: Size) -> Outcome<Self> {
        let segments = size.segments;
        let each = segments / REGIONS;
        let path = dir.join(format!("{segments}"));
        let zeros = checksum(&[0; SEGMENT_BYTES]);
        let (head, entries) = encode(&vec![(SEGMENT_BYTES as u64, zeros); each as usize]);
        let mut file = File::create_new(&path)?;
        file.write_all(&head)?;
        let last = entries.last().ok_or("no segment")?;
        file.set_len(last.offset + last.bytes)?;
        let store = Store::open(Config::new(dir, size.frames * FRAME_BYTES as u64))?;
        let regions = (0..REGIONS).map(|_| store.open_saved(&path)).collect::<Result<_, _>>()?;
        let others = (0..size.created_regions).map(|_| store.create_region()).collect::<Result<_, _>>()?;
        Ok(Self { store, regions, _others: others, segments })
    }

    /// The `n`th segment, one region after another, so that neighbours lie in different regions.
    fn place(&self, n: u64) -> (&Region, u64) {
        (&self.regions[(n % REGIONS) as usize], n / REGIONS % (self.segments / REGIONS))
    }

    fn pin(&self, n: u64) -> Outcome<()> {
        let (region, segment) = self.place(n);
        if region.pin(segment)?[0] != 0 {
            return Err("a byte of a hole is not 0".into());
        }
        Ok(())
    }

    /// Nanoseconds of one pin of a resident segment.
    fn pins(&self, threads: usize, each: u64) -> Outcome<f64> {
        (0..HOT).try_for_each(|n| self.pin(n))?;
        let seconds = together(threads, |thread| (0..each).try_for_each(|n| self.pin((thread + n) % HOT)))?;
        Ok(seconds * 1e9 / (threads as u64 * each) as f64)
    }

    /// Nanoseconds of one promotion; the threads walk through all segments.
    fn misses(&self, threads: usize, each: u64, run: u64) -> Outcome<f64> {
        let before = self.store.stats().promotions_total;
        let stride = self.segments / threads as u64;
        let walk = |thread: u64| {
            (0..each).try_for_each(|n| self.pin((thread * stride + run * each + n) % self.segments))
        };
        let seconds = together(threads, walk)?;
        let promotions = self.store.stats().promotions_total - before;
        Ok(seconds * 1e9 / promotions.max(1) as f64)
    }

    /// Nanoseconds of one segment that is written and sealed; every sixteen, their region is released.
    fn seals(&self, threads: usize, each: u64) -> Outcome<f64> {
        let write = |_| {
            for _ in 0..each / 16 {
                let region = self.store.create_region()?;
                for _ in 0..16 {
                    region.draft(SEGMENT_BYTES)?.seal(SEGMENT_BYTES)?;
                }
            }
            Ok(())
        };
        let seconds = together(threads, write)?;
        Ok(seconds * 1e9 / (threads as u64 * each) as f64)
    }
}

/// Seconds from the first thread's start to the last one's end; all are there before one starts.
fn together(threads: usize, work: impl Fn(u64) -> Outcome<()> + Sync) -> Outcome<f64> {
    let start = Barrier::new(threads);
    let spans = thread::scope(|scope| {
        let started: Vec<_> = (0..threads as u64)
            .map(|thread| {
                let (start, work) = (&start, &work);
                scope.spawn(move || {
                    start.wait();
                    let began = Instant::now();
                    work(thread).map(|()| (began, Instant::now()))
                })
            })
            .collect();
        let ended = started.into_iter().map(|thread| thread.join().map_err(|_| "a thread panicked")?);
        ended.collect::<Outcome<Vec<_>>>()
    })?;
    let first = spans.iter().map(|span| span.0).min().ok_or("no thread")?;
    let last = spans.iter().map(|span| span.1).max().ok_or("no thread")?;
    Ok((last - first).as_secs_f64())
}

/// One kind of operation in both stores.
#[derive(Default)]
struct Series {
    few_ns: Vec<f64>,
    many_ns: Vec<f64>,
}

impl Series {
    fn run(
        &mut self,
        counts: bool,
        stores: [&Stocked; 2],
        work: impl Fn(&Stocked) -> Outcome<f64>,
    ) -> Outcome<()> {
        let [few, many] = stores;
        let (few, many) = (work(few)?, work(many)?);
        if counts {
            self.few_ns.push(few);
            self.many_ns.push(many);
        }
        Ok(())
    }

    fn growth(&self) -> f64 {
        (median(&self.many_ns) / median(&self.few_ns) * 1000.0).round() / 1000.0
    }

    fn raw(&self) -> Value {
        json!({"few_ns": self.few_ns, "many_ns": self.many_ns, "growth": self.growth()})
    }
}

fn main() -> Outcome<()> {
    let options = Options::parse();
    let (runs, counts) = if options.quick {
        (5, Counts { pins: 30_000, misses: 200, seals: 64 })
    } else {
        (15, Counts { pins: 100_000, misses: 400, seals: 256 })
    };
    fs::create_dir_all(&options.dir)?;
    let dir = tempfile::tempdir_in(&options.dir)?;
    let size = if options.quick { MANY_QUICK } else { MANY };
    let (few, many) = (Stocked::open(dir.path(), FEW)?, Stocked::open(dir.path(), size)?);
    let stores = [&few, &many];
    let [mut pin, mut miss, mut seal] = [(); 3].map(|()| Series::default());
    for run in 0..=runs {
        let timed = run > 0;
        pin.run(timed, stores, |store| store.pins(options.threads, counts.pins))?;
        miss.run(timed, stores, |store| store.misses(options.threads, counts.misses, run))?;
        seal.run(timed, stores, |store| store.seals(options.threads, counts.seals))?;
        eprintln!("run {run} of {runs}");
    }
    let result =
        json!({"pin_growth": pin.growth(), "miss_growth": miss.growth(), "seal_growth": seal.growth()});
    if let Some(path) = &options.json {
        let raw = json!({
            "few": FEW, "many": size, "threads": options.threads, "saved_regions": REGIONS,
            "pin": pin.raw(), "miss": miss.raw(), "seal": seal.raw(), "result": result,
            "stats": {"few": few.store.stats(), "many": many.store.stats()},
        });
        fs::write(path, serde_json::to_vec_pretty(&raw)?)?;
    }
    println!("result: {result}");
    Ok(())
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
