//! The mover, in a kernel that really moves.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use warmset_platform::mm::HUGE_PAGE_BYTES;
use warmset_region::{Config, Store};
use warmset_tiering::Mover;
use warmset_tiering::mover::{CALL_MS_MAX, KernelMover};

use crate::eventually;
use crate::workload::{PAGE, Workload};

const PAGES: u64 = (HUGE_PAGE_BYTES / PAGE) as u64;
/// The emulated machine is slow and its processors are taken away: a call is judged by several times its aim.
const SLOW: u32 = 20;

fn nodes_of(mover: &mut KernelMover, workload: &Workload, chunk: usize) -> Vec<i32> {
    let addresses: Vec<u64> = (0..PAGES).map(|page| workload.chunk(chunk) + page * PAGE as u64).collect();
    mover.locations(workload.pid(), &addresses).expect("locations")
}

/// The line of numa_maps of the workload's memory.
fn numa_maps(workload: &Workload) -> String {
    let text = fs::read_to_string(format!("/proc/{}/numa_maps", workload.pid())).expect("numa_maps");
    let start = |line: &&str| u64::from_str_radix(line.split(' ').next().unwrap_or(""), 16).unwrap_or(0);
    let mut before = text.lines().filter(|line| start(line) <= workload.base);
    before.next_back().expect("a line").to_owned()
}

pub fn huge_pages_move_whole() {
    let mut workload = Workload::start(4, 1, true);
    let mut mover = KernelMover::default();
    let before = huge_kib(&workload);
    assert!(before >= 4 * 2048, "the workload is on huge pages: {before} KiB");
    let outcome = mover.move_chunk(workload.pid(), workload.chunk(0), 1).expect("a move");
    assert_eq!((outcome.moved_bytes, outcome.there, outcome.left), (HUGE_PAGE_BYTES as u64, PAGES, 0));
    assert!(nodes_of(&mut mover, &workload, 0).iter().all(|node| *node == 1));
    assert!(nodes_of(&mut mover, &workload, 1).iter().all(|node| *node == 0));
    assert!(numa_maps(&workload).contains(&format!(" N1={PAGES}")), "{}", numa_maps(&workload));
    assert_eq!(huge_kib(&workload), before, "no huge page was split");
    // The kernel's own balancing may take it back in between.
    eventually("what is there does not move", Duration::from_secs(60), || {
        let again = mover.move_chunk(workload.pid(), workload.chunk(0), 1).expect("a move");
        ((again.moved_bytes, again.there) == (0, PAGES)).then_some(())
    });
    workload.check();
    workload.end();
}

fn huge_kib(workload: &Workload) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", workload.pid())).expect("smaps_rollup");
    let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

pub fn base_pages_move_in_short_calls() {
    let mut workload = Workload::start(8, 2, false);
    let mut mover = KernelMover::default();
    for chunk in 0..8 {
        // On a slow machine the time for one chunk ends before its last page.
        let outcome = eventually("a whole chunk moves", Duration::from_secs(60), || {
            let outcome = mover.move_chunk(workload.pid(), workload.chunk(chunk), 1).expect("a move");
            (outcome.left == 0).then_some(outcome)
        });
        assert_eq!(outcome.there, PAGES, "{outcome:?}");
    }
    // The kernel's own balancing may have moved some back since, which are read from node 0.
    assert!(numa_maps(&workload).contains(" N1="), "{}", numa_maps(&workload));
    println!("longest call {:?}", mover.longest);
    assert!(mover.longest < Duration::from_millis(CALL_MS_MAX) * SLOW, "{:?}", mover.longest);
    let error = mover.move_chunk(workload.pid(), workload.chunk(0), 77).expect_err("no node 77");
    assert!(matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EINVAL)), "{error}");
    workload.check();
    workload.end();
}

/// Everything moves to and fro all the time while the process goes through its life.
pub fn process_is_unharmed() {
    for huge in [true, false] {
        let mut workload = Workload::start(16, 4, huge);
        let pid = workload.pid();
        let addresses: Vec<u64> = (0..16).map(|chunk| workload.chunk(chunk)).collect();
        let moved = Arc::new(AtomicU64::new(0));
        let sum = Arc::clone(&moved);
        let mover = std::thread::spawn(move || {
            let mut mover = KernelMover::default();
            for round in 1_u32.. {
                for address in &addresses {
                    match mover.move_chunk(pid, *address, round % 2) {
                        Ok(outcome) => sum.fetch_add(outcome.moved_bytes, Ordering::Relaxed),
                        Err(error) => return error,
                    };
                }
            }
            unreachable!("the process ends")
        });
        let mut moved_before = 0;
        let mut moves_go_on = || {
            let goal = moved_before + 8 * HUGE_PAGE_BYTES as u64;
            eventually("chunks move", Duration::from_secs(60), || {
                (moved.load(Ordering::Relaxed) >= goal).then_some(())
            });
            moved_before = moved.load(Ordering::Relaxed);
        };
        for _ in 0..3 {
            moves_go_on();
            assert_eq!(workload.ask("fork"), "right");
            workload.check();
        }
        moves_go_on();
        assert_eq!(workload.ask("unmap"), "unmapped");
        workload.check();
        moves_go_on();
        assert_eq!(workload.ask("fork"), "right");
        workload.end();
        let error = mover.join().expect("the mover");
        let is_gone = matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EINVAL));
        assert!(is_gone, "the mover ends with the process: {error}");
    }
}

pub fn pool_is_bound_to_a_node() {
    for node in 0..2_u32 {
        let mut config = Config::new("/tmp", 4 * HUGE_PAGE_BYTES as u64);
        config.node = Some(node);
        let store = Store::open(config).expect("a store");
        let region = store.create_region().expect("a region");
        let mut addresses = Vec::new();
        for _ in 0..2 {
            let segment = region.write(&vec![7; HUGE_PAGE_BYTES]).expect("a segment");
            let pin = region.pin(segment).expect("a pin");
            let start = pin.as_ptr() as u64;
            addresses.extend((0..PAGES).map(|page| start + page * PAGE as u64));
        }
        let places = KernelMover::default().locations(std::process::id(), &addresses).expect("locations");
        assert!(places.iter().all(|place| u32::try_from(*place) == Ok(node)), "node {node}: {places:?}");
    }
    let mut config = Config::new("/tmp", 4 * HUGE_PAGE_BYTES as u64);
    config.node = Some(9);
    let error = Store::open(config).expect_err("no node 9").to_string();
    assert!(error.contains("NUMA node 9"), "{error}");
}
