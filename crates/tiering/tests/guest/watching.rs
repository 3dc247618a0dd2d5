//! The tracker, the nodes and the probe.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use warmset_platform::mm::{HUGE_PAGE_BYTES, Reservation};
use warmset_platform::sysinfo::Root;
use warmset_platform::sysinfo::maps::mappings;
use warmset_platform::sysinfo::process::process;
use warmset_tiering::latency::ProbeSource;
use warmset_tiering::tracker::DamonTracker;
use warmset_tiering::{LatencySource, Pages, Topology, Tracked, Tracker};

use crate::eventually;
use crate::workload::Workload;

pub fn nodes_are_tiers() {
    let topology = Topology::read(&Root::live(), std::process::id(), false).expect("two nodes");
    assert_eq!(topology.tiers.iter().map(|tier| tier.node).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(topology.tiers.iter().map(|tier| tier.has_cpus).collect::<Vec<_>>(), [true, false]);
}

pub fn tracker_finds_the_hot_part() {
    let (chunks, hot) = (96, 16);
    let workload = Workload::start(chunks, hot, true);
    let mut tracker = DamonTracker::start(workload.pid(), Duration::from_millis(200)).expect("DAMON");
    let root = Root::live();
    let mut pages = Pages::default();
    pages.map(&mappings(&root, workload.pid()).expect("maps"));
    let is_hot = |address: u64| (workload.chunk(0)..workload.chunk(hot)).contains(&address);
    let mut found_in_a_row = 0;
    eventually("the hot part is found", Duration::from_secs(100), || {
        let weights: BTreeMap<u32, f64> = pages.accessed(&tracker.collect().expect("accesses"));
        let all: f64 = weights.values().sum();
        let of_hot: Vec<f64> = weights
            .iter()
            .filter(|(number, _)| pages.address(**number).is_some_and(is_hot))
            .map(|(_, weight)| *weight)
            .collect();
        let found = of_hot.len() >= hot * 3 / 4 && of_hot.iter().sum::<f64>() > 0.8 * all;
        found_in_a_row = if found { found_in_a_row + 1 } else { 0 };
        (found_in_a_row == 3).then_some(())
    });
    let ticks =
        tracker.kernel_thread().and_then(|thread| process(&root, thread).map(|known| known.cpu_ticks));
    println!("kdamond used {ticks:?} ticks so far");
    drop(tracker);
    assert_eq!(kdamond_state(), "off");
    workload.end();
}

pub fn idle_process_is_watched_again() {
    let workload = Workload::start(32, 8, true);
    let pid = i32::try_from(workload.pid()).ok().and_then(Pid::from_raw).expect("a process number");
    let mut tracker = DamonTracker::start(workload.pid(), Duration::from_millis(200)).expect("DAMON");
    let mut sees = |what: &str, wanted: &dyn Fn(u64) -> bool| {
        eventually(what, Duration::from_secs(60), || {
            tracker.collect().expect("accesses");
            wanted(sample_us()).then_some(())
        });
    };
    sees("it is watched closely", &|us| us == 10_000);
    kill_process(pid, Signal::STOP).expect("a signal");
    sees("it is watched less closely", &|us| us == 50_000);
    kill_process(pid, Signal::CONT).expect("a signal");
    sees("it is watched closely again", &|us| us == 10_000);
    drop(tracker);
    assert_eq!(kdamond_state(), "off");
    workload.end();
}

fn sample_us() -> u64 {
    let path = "/sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/monitoring_attrs/intervals/sample_us";
    fs::read_to_string(path).expect("an interval").trim().parse().expect("a number")
}

/// `off` where there is none. While DAMON carries out a command its state cannot be read.
pub fn kdamond_state() -> String {
    eventually("the state can be read", Duration::from_secs(20), || {
        match fs::read_to_string("/sys/kernel/mm/damon/admin/kdamonds/0/state") {
            Ok(state) => Some(state.trim().to_owned()),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => None,
            Err(_) => Some("off".to_owned()),
        }
    })
}

pub fn probe_measures_each_node() {
    let root = Root::live();
    let topology = Topology::read(&root, std::process::id(), false).expect("two nodes");
    let mut probe = ProbeSource::new(&root, &topology).expect("a probe");
    let readings = probe.read(&[Tracked::default(); 2]);
    assert_eq!(readings.len(), 2);
    assert!(readings.iter().all(|reading| reading.latency_ns.is_some_and(|ns| ns > 0.0)), "{readings:?}");
    let maps = fs::read_to_string("/proc/self/numa_maps").expect("numa_maps");
    for node in 0..2 {
        let bound = maps.lines().find(|line| line.contains(&format!(" bind:{node} "))).expect("a bound ring");
        assert!(bound.contains(&format!(" N{node}=")), "{bound}");
        assert!(!bound.contains(&format!(" N{}=", 1 - node)), "{bound}");
    }
}

/// Says what part of a processor DAMON's thread takes for an idle map of 64 GiB, in this machine's slow time.
pub fn cost_of_an_idle_map() {
    const MAP_BYTES: usize = 64 << 30;
    const LOOKS: usize = 40;
    let map = Reservation::anonymous(MAP_BYTES).expect("addresses");
    for part in 0..64 {
        // SAFETY: nobody else knows the range.
        unsafe { map.populate(part << 30, HUGE_PAGE_BYTES).expect("memory") };
    }
    // The map is this process's own, which sleeps in between: nothing of it is accessed.
    let mut tracker = DamonTracker::start(std::process::id(), Duration::from_millis(400)).expect("DAMON");
    let thread = tracker.kernel_thread().expect("DAMON's thread");
    let ticks = |pid| process(&Root::live(), pid).expect("a thread").cpu_ticks;
    // It takes some intervals until the tracker takes the map for idle.
    for _ in 0..12 {
        tracker.collect().expect("accesses");
    }
    let (begin, before) = (Instant::now(), ticks(thread));
    for _ in 0..LOOKS {
        tracker.collect().expect("accesses");
    }
    let seconds = begin.elapsed().as_secs_f64();
    let fraction = (ticks(thread) - before) as f64 / 100.0 / seconds;
    println!("cost: {{\"kernel_thread_core_fraction\": {fraction}, \"seconds\": {seconds}}}");
}
