//! A budget that falls gives memory back to the kernel, as the kernel itself says.

use warmset_placement::TICKS_PER_HALF_LIFE;
use warmset_region::{Config, FRAME_BYTES, HugePages, Store};

mod support;
use support::{FRAME, assert_bytes, bytes, dir, eventually, fill};

/// Memory of this process that is in RAM. The tests of this file take turns, so that it is one store's doing.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has /proc");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("the kernel says so");
    line.split_whitespace().nth(1).expect("a number").parse::<u64>().expect("of KiB") << 10
}

static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn filled(frames: u64, pages: HugePages) -> (tempfile::TempDir, Store, warmset_region::Region) {
    let dir = dir();
    let mut config = Config::new(dir.path(), frames * FRAME);
    config.huge_pages = pages;
    let store = Store::open(config).expect("open");
    let region = store.create_region().expect("region");
    fill(&region, frames - 8, |_| FRAME_BYTES);
    (dir, store, region)
}

#[test]
fn frames_of_both_page_sizes_go_back_to_the_kernel() {
    let _turn = TURN.lock();
    for pages in [HugePages::Auto, HugePages::Off] {
        assert_eq!(bytes(0, 1).len(), 1, "made on first use, and resident from then on");
        let before = resident_bytes();
        let (_dir, store, region) = filled(128, pages);
        let full = resident_bytes();
        assert!(full - before >= 120 * FRAME, "{} bytes for 120 frames", full - before);
        assert!(store.pool_use().pool_bytes >= 120 * FRAME && store.pool_use().absent_bytes == 0);

        store.set_budget(16 * FRAME).expect("smaller");
        eventually("the pool is small", || store.pool_use().pool_bytes <= 16 * FRAME);
        let small = resident_bytes();
        assert!(full - small >= 100 * FRAME, "only {} bytes came back", full - small);
        eventually("statistics agree", || {
            let (stats, brief) = (store.stats(), store.pool_use());
            stats.budget_bytes == brief.budget_bytes
                && stats.live_bytes - stats.resident_bytes == brief.absent_bytes
        });
        let ticks = store.pool_use().access_ticks_total;
        for n in 0..120 {
            assert_bytes(&region.pin(n).expect("pin"), n, FRAME_BYTES);
        }
        let passes = (store.pool_use().access_ticks_total - ticks) as f64 / TICKS_PER_HALF_LIFE as f64;
        assert!((0.99..1.01).contains(&passes), "a pass over everything counts {passes}");
        assert!(store.pool_use().pool_bytes <= 16 * FRAME, "reading takes no more than the budget");
        assert!(store.pool_use().wait_ns_total > 0);
    }
}

#[test]
fn free_frames_go_back_though_all_others_are_held() {
    let _turn = TURN.lock();
    let (_dir, store, region) = filled(64, HugePages::Auto);
    let pins: Vec<_> = (0..40).map(|n| region.pin(n).expect("pin")).collect();
    store.set_budget(8 * FRAME).expect("smaller");
    eventually("only what is held stays", || store.pool_use().pool_bytes == 40 * FRAME);
    drop(pins);
    eventually("that goes, too", || store.pool_use().pool_bytes <= 8 * FRAME);
}

#[test]
fn a_long_segment_beside_warm_frames_takes_the_pool_past_its_budget_for_a_moment_only() {
    let _turn = TURN.lock();
    let dir = dir();
    let store = Store::open(Config::new(dir.path(), 32 * FRAME)).expect("open");
    let region = store.create_region().expect("region");
    for n in 0..40 {
        let len = if n % 4 == 0 { 7 * FRAME_BYTES } else { FRAME_BYTES };
        region.write(bytes(n, len)).expect("write");
        drop(region.pin(n / 2).expect("pin"));
    }
    eventually("within the budget", || store.pool_use().pool_bytes <= 32 * FRAME);
}
