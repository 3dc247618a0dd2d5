//! region-scan: what a scan through pinned segments costs against the two limits it can have.
//!
//! Resident data is summed through pins and as one plain array on huge pages; missing data is scanned with a
//! prefetch window, and its file is read raw with O_DIRECT at the best queue depth. Runs are interleaved, the
//! figures are medians after a warm-up. The last line of stdout is `result: {json}`.

mod pages;
mod raw;
mod scan;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use serde_json::{Value, json};
use warmset_region::{Config, FRAME_BYTES, Store};

use crate::raw::Buffers;
use crate::scan::Scan;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Scan resident and missing regions against a plain array and raw O_DIRECT reads.
#[derive(Debug, Parser)]
struct Options {
    /// Less data and fewer runs.
    #[arg(long)]
    quick: bool,
    /// Only measure the disk: a region's file, read raw at the best queue depth.
    #[arg(long)]
    raw_only: bool,
    /// Only read plain arrays of so many MiB at random, on base pages and on huge ones.
    #[arg(long, value_name = "MIB")]
    random_only: Option<usize>,
    /// Directory of the data files; on the disk that is to be measured.
    #[arg(long, default_value = "target")]
    dir: PathBuf,
    /// Keep all raw figures in this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Threads that scan.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Segments that each thread asks for ahead of its own.
    #[arg(long, default_value_t = 4)]
    window: u64,
}

/// Of each thread in a run of `--random-only`: some seconds.
const LOOKUPS: usize = 8 << 20;

/// One pair of interleaved series.
struct Series {
    ours_s: Vec<f64>,
    baseline_s: Vec<f64>,
}

impl Series {
    /// Baseline time over our time: 1 is as fast as the limit.
    fn ratio(&self) -> f64 {
        median(&self.baseline_s) / median(&self.ours_s)
    }

    fn raw(&self) -> Value {
        json!({"ours_s": self.ours_s, "baseline_s": self.baseline_s, "ratio": self.ratio()})
    }
}

fn main() -> Outcome<()> {
    let options = Options::parse();
    let (bytes, runs) = if options.quick { (1 << 30, 5) } else { (4 << 30, 9) };
    if let Some(mebibytes) = options.random_only {
        println!("result: {}", random_only(mebibytes << 20, runs, options.threads)?);
        return Ok(());
    }
    fs::create_dir_all(&options.dir)?;
    let dir = tempfile::tempdir_in(&options.dir)?;
    if options.raw_only {
        println!("result: {}", raw_only(dir.path(), bytes, runs)?);
        return Ok(());
    }

    let (resident, pages) = resident(dir.path(), bytes, runs)?;
    let missing = missing(dir.path(), bytes, runs, &options)?;

    let result = json!({
        "resident_ratio": round(resident.ratio()),
        "missing_ratio": round(missing.narrow.ratio()),
        "missing_wide_ratio": round(missing.wide.ratio()),
        "huge_fraction": round(pages.huge_fraction),
        "heap_huge_bytes": pages.heap_huge_bytes,
    });
    if let Some(path) = &options.json {
        let raw = json!({
            "bytes": bytes, "threads": options.threads, "window_segments": options.window,
            "resident": resident.raw(), "missing": missing.raw, "result": result,
        });
        fs::write(path, serde_json::to_vec_pretty(&raw)?)?;
    }
    println!("result: {result}");
    Ok(())
}

/// One thread sums a resident region, and a plain array of the same size.
fn resident(dir: &Path, bytes: usize, runs: usize) -> Outcome<(Series, pages::Pages)> {
    let store = Store::open(Config::new(dir, bytes as u64 + (256 << 20)))?;
    let region = store.create_region()?;
    scan::fill(&region, bytes)?;
    let pages = pages::measure(&store)?;
    let array = scan::PlainArray::filled(bytes, true)?;
    let scan = Scan { region: &region, segments: (bytes / FRAME_BYTES) as u64, window: 0 };
    let mut series = Series { ours_s: Vec::new(), baseline_s: Vec::new() };
    for run in 0..=runs {
        let (ours_s, ours) = timed(|| scan.run(1))?;
        let (baseline_s, baseline) = timed(|| Ok(array.sum()))?;
        assert_eq!(ours, baseline, "both hold the same bytes");
        eprintln!("resident {run}: {:.2} GB/s, array {:.2} GB/s", gbs(bytes, ours_s), gbs(bytes, baseline_s));
        if run > 0 {
            series.ours_s.push(ours_s);
            series.baseline_s.push(baseline_s);
        }
    }
    Ok((series, pages))
}

/// A scan of missing data against raw reads of the same file.
struct Missing {
    /// Into few buffers, which stay in the processor's caches.
    narrow: Series,
    /// Into as much memory as the store has.
    wide: Series,
    raw: Value,
}

/// Threads scan a region of which nearly nothing fits, and the same file is read raw. The little that was
/// resident is left out of the raw time: it is counted for the bytes that our scan read.
fn missing(dir: &Path, bytes: usize, runs: usize, options: &Options) -> Outcome<Missing> {
    let memory = (bytes / 32).max(128 << 20);
    let store = Store::open(Config::new(dir, memory as u64))?;
    let region = store.create_region()?;
    scan::fill(&region, bytes)?;
    let scan = Scan { region: &region, segments: (bytes / FRAME_BYTES) as u64, window: options.window };
    let expected = scan.run(options.threads)?;
    let file = raw::region_file(bytes as u64)?;
    let depths = [raw::best_depth(&file, 0)?, raw::best_depth(&file, memory)?];
    let buffers = [Buffers::of(depths[0] * FRAME_BYTES)?, Buffers::of(memory)?];
    let (mut ours, mut baselines) = (Vec::new(), [Vec::new(), Vec::new()]);
    let mut read_fractions = Vec::new();
    for run in 0..=runs {
        let before = store.stats().read_bytes_total;
        let (ours_s, sum) = timed(|| scan.run(options.threads))?;
        assert_eq!(sum, expected, "every scan sees the same bytes");
        let read = store.stats().read_bytes_total - before;
        let mut raw_gbs = Vec::new();
        for ((buffers, depth), baseline) in buffers.iter().zip(depths).zip(&mut baselines) {
            let (raw_s, raw_bytes) = timed(|| raw::read_all(&file, depth, buffers))?;
            raw_gbs.push(gbs(raw_bytes as usize, raw_s));
            if run > 0 {
                baseline.push(raw_s * read as f64 / raw_bytes as f64);
            }
        }
        eprintln!(
            "missing {run}: {:.2} GB/s ({:.0} % of the bytes from disk), raw {:.2} GB/s, into {} MiB {:.2} GB/s",
            gbs(read as usize, ours_s),
            100.0 * read as f64 / bytes as f64,
            raw_gbs[0],
            memory >> 20,
            raw_gbs[1],
        );
        if run > 0 {
            ours.push(ours_s);
            read_fractions.push(read as f64 / bytes as f64);
        }
    }
    let [narrow, wide] = baselines.map(|baseline_s| Series { ours_s: ours.clone(), baseline_s });
    let mut raw = narrow.raw();
    raw["wide"] = wide.raw();
    raw["queue_depths"] = json!(depths);
    raw["read_fractions"] = json!(read_fractions);
    raw["stats"] = serde_json::to_value(store.stats())?;
    Ok(Missing { narrow, wide, raw })
}

/// What the disk gives at most.
fn raw_only(dir: &Path, bytes: usize, runs: usize) -> Outcome<Value> {
    let store = Store::open(Config::new(dir, (bytes / 32).max(128 << 20) as u64))?;
    let region = store.create_region()?;
    scan::fill(&region, bytes)?;
    let file = raw::region_file(bytes as u64)?;
    let depth = raw::best_depth(&file, 0)?;
    let buffers = Buffers::of(depth * FRAME_BYTES)?;
    let mut rates = Vec::new();
    for _ in 0..runs {
        let (seconds, read) = timed(|| raw::read_all(&file, depth, &buffers))?;
        rates.push(read as f64 / seconds);
    }
    Ok(json!({"read_bytes_per_s": median(&rates).round(), "queue_depth": depth, "runs_bytes_per_s": rates}))
}

/// What huge pages give at most here: lookups in plain arrays on either kind of page.
fn random_only(bytes: usize, runs: usize, threads: usize) -> Outcome<Value> {
    let (base, huge) = (scan::PlainArray::filled(bytes, false)?, scan::PlainArray::filled(bytes, true)?);
    let mut series = Series { ours_s: Vec::new(), baseline_s: Vec::new() };
    for _ in 0..runs {
        let (huge_s, from_huge) = timed(|| Ok(huge.sum_at_random(threads, LOOKUPS)))?;
        let (base_s, from_base) = timed(|| Ok(base.sum_at_random(threads, LOOKUPS)))?;
        assert_eq!(from_huge, from_base, "both hold the same bytes");
        series.ours_s.push(huge_s);
        series.baseline_s.push(base_s);
    }
    Ok(json!({"huge_s": series.ours_s, "base_s": series.baseline_s, "ratio": round(series.ratio())}))
}

fn timed<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<(f64, T)> {
    let began = Instant::now();
    let value = work()?;
    Ok((began.elapsed().as_secs_f64(), value))
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn gbs(bytes: usize, seconds: f64) -> f64 {
    bytes as f64 / seconds / 1e9
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
