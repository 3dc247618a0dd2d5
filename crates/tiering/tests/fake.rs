//! The loop with a scripted tracker, scripted latencies and a mover that only keeps books, on any machine.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use warmset_platform::mm::Reservation;
use warmset_platform::sysinfo::Root;
use warmset_tiering::{
    Access, CHUNK_BYTES, Daemon, Error, LatencySource, Mover, Outcome, Reading, Report, Settings, Target,
    Topology, Tracked, Tracker,
};

const CHUNKS: usize = 64;
const HOT: usize = 40;

#[derive(Debug, Default)]
struct Books {
    nodes: HashMap<u64, u32>,
    asked: Vec<u64>,
    /// What the next moves come to, if not to a move.
    refuse: Option<Refusal>,
    latencies: Vec<Option<(f64, f64)>>,
    tracker_stopped: bool,
}

#[derive(Debug, Clone, Copy)]
enum Refusal {
    Shared,
    Permission,
    Forbidden,
}

#[derive(Debug, Clone)]
struct Fake(Rc<RefCell<Books>>, u64);

impl Tracker for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn collect(&mut self) -> io::Result<Vec<Access>> {
        if self.0.borrow().tracker_stopped {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(vec![Access {
            start: self.1,
            end: self.1 + HOT as u64 * CHUNK_BYTES,
            rate: 2.0,
            latency_ns: None,
        }])
    }

    fn accesses_per_rate_s(&self) -> f64 {
        50.0
    }
}

impl LatencySource for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn read(&mut self, tracked: &[Tracked]) -> Vec<Reading> {
        let books = self.0.borrow();
        let latency = |(line, tier): (&Option<(f64, f64)>, &Tracked)| {
            line.map(|(base, slope)| base + slope * tier.share)
        };
        let readings = books.latencies.iter().zip(tracked).map(latency);
        readings.map(|latency_ns| Reading { latency_ns, rate_per_ns: None }).collect()
    }
}

impl Mover for Fake {
    fn locations(&mut self, _pid: u32, addresses: &[u64]) -> io::Result<Vec<i32>> {
        let books = self.0.borrow();
        let node = |address: &u64| books.nodes.get(&(address / CHUNK_BYTES)).map_or(-2, |node| *node as i32);
        Ok(addresses.iter().map(node).collect())
    }

    fn move_chunk(&mut self, _pid: u32, start: u64, node: u32) -> io::Result<Outcome> {
        let mut books = self.0.borrow_mut();
        books.asked.push(start);
        match books.refuse {
            Some(Refusal::Permission) => return Err(io::Error::from_raw_os_error(1)),
            Some(Refusal::Forbidden) => return Err(io::Error::from_raw_os_error(13)),
            Some(Refusal::Shared) => return Ok(Outcome { left: 512, shared: 512, ..Outcome::default() }),
            None => {}
        }
        books.nodes.insert(start / CHUNK_BYTES, node);
        Ok(Outcome { moved_bytes: CHUNK_BYTES, there: 512, ..Outcome::default() })
    }
}

struct Bench {
    daemon: Daemon,
    books: Rc<RefCell<Books>>,
    base: u64,
    machine: tempfile::TempDir,
    _memory: Reservation,
}

fn write_free(machine: &Path, node: u32, free_kib: u64) {
    let meminfo = format!("Node {node} MemTotal: 4194304 kB\nNode {node} MemFree: {free_kib} kB\n");
    fs::write(machine.join(format!("sys/devices/system/node/node{node}/meminfo")), meminfo).unwrap();
}

fn write_node(machine: &Path, node: u32, cpus: &str) {
    let directory = machine.join(format!("sys/devices/system/node/node{node}"));
    fs::create_dir_all(&directory).unwrap();
    write_free(machine, node, 2 << 20);
    fs::write(directory.join("cpulist"), cpus).unwrap();
    fs::write(directory.join("distance"), if node == 0 { "10 20\n" } else { "20 10\n" }).unwrap();
}

fn process(machine: &Path) -> PathBuf {
    machine.join(format!("proc/{}", std::process::id()))
}

impl Bench {
    fn new(dry_run: bool, limit_bytes_per_s: u64) -> Self {
        Self::with_policy("equal", dry_run, limit_bytes_per_s).unwrap()
    }

    fn with_policy(policy: &str, dry_run: bool, limit_bytes_per_s: u64) -> Result<Self, Error> {
        Self::with_memory(policy, dry_run, limit_bytes_per_s, "default", "0-1")
    }

    /// `policy_of_memory` as in numa_maps; `allowed` are the nodes that the process may use.
    fn with_memory(
        policy: &str,
        dry_run: bool,
        limit_bytes_per_s: u64,
        policy_of_memory: &str,
        allowed: &str,
    ) -> Result<Self, Error> {
        let machine = tempfile::tempdir().unwrap();
        write_node(machine.path(), 0, "0-1\n");
        write_node(machine.path(), 1, "\n");
        let root = Root::at(machine.path());
        let memory = Reservation::anonymous(CHUNKS * CHUNK_BYTES as usize).unwrap();
        let base = memory.base() as u64;
        let process = process(machine.path());
        fs::create_dir_all(&process).unwrap();
        let end = base + memory.len() as u64;
        fs::write(process.join("maps"), format!("{base:x}-{end:x} rw-p 00000000 00:00 0\n")).unwrap();
        fs::write(process.join("numa_maps"), format!("{base:x} {policy_of_memory}\n{end:x} default stack\n"))
            .unwrap();
        fs::write(process.join("status"), format!("Mems_allowed_list:\t{allowed}\n")).unwrap();
        let nodes = (0..CHUNKS as u64).map(|at| (base / CHUNK_BYTES + at, 0)).collect();
        let latencies = vec![Some((100.0, 100.0)), Some((120.0, 100.0))];
        let books = Rc::new(RefCell::new(Books { nodes, latencies, ..Books::default() }));
        let fake = Fake(Rc::clone(&books), base);
        let interval = Duration::from_millis(400);
        let settings = Settings { policy: policy.into(), dry_run, limit_bytes_per_s, interval };
        let topology = Topology::read(&root, std::process::id(), false)?;
        let target = Target::new(std::process::id()).unwrap();
        let (tracker, latency, mover) = (Box::new(fake.clone()), Box::new(fake.clone()), Box::new(fake));
        let daemon = Daemon::new(root, settings, target, topology, tracker, latency, mover)?;
        Ok(Self { daemon, books, base, machine, _memory: memory })
    }

    fn steps(&mut self, count: usize) -> Vec<Report> {
        (0..count).map(|_| self.daemon.step().unwrap()).collect()
    }

    /// Nodes are read anew every two seconds.
    fn steps_until_error(&mut self) -> Error {
        let begin = Instant::now();
        loop {
            match self.daemon.step() {
                Err(error) => return error,
                Ok(_) => assert!(begin.elapsed() < Duration::from_secs(60)),
            }
        }
    }

    /// The part of the hot chunks on node 0.
    fn share(&self) -> f64 {
        let books = self.books.borrow();
        let hot = (0..HOT as u64).filter(|at| books.nodes[&(self.base / CHUNK_BYTES + at)] == 0).count();
        hot as f64 / HOT as f64
    }
}

const UNLIMITED: u64 = u64::MAX / 4;

#[test]
fn the_share_goes_to_the_balance_and_stays() {
    let mut bench = Bench::new(false, UNLIMITED);
    bench.steps(60);
    assert!((bench.share() - 0.6).abs() <= 0.11, "{}", bench.share());
    let before = bench.books.borrow().asked.len();
    bench.steps(60);
    assert_eq!(bench.books.borrow().asked.len(), before, "a balanced process is left alone");
    // Contention on node 0.
    bench.books.borrow_mut().latencies[0] = Some((200.0, 100.0));
    bench.steps(100);
    assert!(bench.share() <= 0.21, "{}", bench.share());
    let counters = *bench.daemon.counters();
    let moved = (bench.books.borrow().asked.len() as u64) * CHUNK_BYTES;
    assert_eq!(counters.promoted_bytes + counters.demoted_bytes, moved);
}

#[test]
fn a_dry_run_moves_nothing_and_says_what_it_would() {
    let mut bench = Bench::new(true, UNLIMITED);
    let reports = bench.steps(20);
    assert!(bench.books.borrow().asked.is_empty());
    assert!(
        reports.iter().any(|report| report.moves.iter().any(|line| line.to == 1 && line.moved_bytes == 0))
    );
}

#[test]
fn a_low_limit_is_kept_to_and_does_not_stop_everything() {
    // Steps are a millisecond apart: in one of them far less than a chunk may be moved.
    let limit = 200_000_000;
    let begin = Instant::now();
    let mut bench = Bench::new(false, limit);
    while bench.books.borrow().asked.len() < 8 {
        bench.steps(1);
        assert!(begin.elapsed() < Duration::from_secs(60), "nothing moves");
        std::thread::sleep(Duration::from_millis(1));
    }
    let moved = bench.books.borrow().asked.len() as u64 * CHUNK_BYTES;
    let most = limit as f64 * begin.elapsed().as_secs_f64() + CHUNK_BYTES as f64;
    assert!(moved as f64 <= most, "{moved} bytes, {most} allowed");
}

#[test]
fn room_that_others_take_or_free_is_noticed() {
    let mut bench = Bench::new(false, UNLIMITED);
    let begin = Instant::now();
    write_free(bench.machine.path(), 1, 0);
    let mut has_failed = false;
    loop {
        let full = bench.daemon.step().unwrap().failures.full;
        has_failed |= full > 0;
        if has_failed && full == 0 {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "moves are planned into a full node");
    }
    assert!(bench.books.borrow().asked.is_empty());
    write_free(bench.machine.path(), 1, 2 << 20);
    while bench.books.borrow().asked.is_empty() {
        bench.steps(1);
        assert!(begin.elapsed() < Duration::from_secs(60), "room that was freed is not used");
    }
}

#[test]
fn memory_that_its_owner_placed_stays() {
    for placed in ["bind:0", "prefer:0", "interleave:0-1"] {
        let mut bench = Bench::with_memory("equal", false, UNLIMITED, placed, "0-1").unwrap();
        bench.steps(30);
        assert!(bench.books.borrow().asked.is_empty(), "{placed}");
    }
}

#[test]
fn memory_whose_placement_is_unknown_stays() {
    let mut bench = Bench::new(false, UNLIMITED);
    let process = process(bench.machine.path());
    // The mapping begins elsewhere now, and `numa_maps` does not tell of it.
    let (half, end) =
        (bench.base + CHUNKS as u64 / 2 * CHUNK_BYTES, bench.base + CHUNKS as u64 * CHUNK_BYTES);
    fs::write(process.join("maps"), format!("{half:x}-{end:x} rw-p 00000000 00:00 0\n")).unwrap();
    fs::write(process.join("numa_maps"), "").unwrap();
    // Mappings are read again every two seconds.
    let begin = Instant::now();
    while bench.daemon.step().unwrap().accessed_bytes > 0 {
        assert!(begin.elapsed() < Duration::from_secs(60), "it is still managed");
    }
    bench.books.borrow_mut().asked.clear();
    bench.books.borrow_mut().latencies[0] = Some((400.0, 100.0));
    bench.steps(30);
    assert!(bench.books.borrow().asked.is_empty());
}

#[test]
fn a_process_that_may_use_one_node_is_told_so() {
    let refused = Bench::with_memory("equal", false, UNLIMITED, "default", "0").err().expect("one node");
    assert!(matches!(refused, Error::Confined { allowed: 1, all: 2, .. }), "{refused}");
    assert!(refused.to_string().contains("cpuset.mems"), "{refused}");
}

#[test]
fn a_node_that_is_taken_from_the_process_ends_it() {
    let mut bench = Bench::new(false, UNLIMITED);
    let status = process(bench.machine.path()).join("status");
    fs::write(status, "Mems_allowed_list:\t1\n").unwrap();
    let error = bench.steps_until_error();
    assert!(matches!(error, Error::NodesGone(1)), "{error}");
}

#[test]
fn without_latencies_nothing_is_decided_and_it_is_said() {
    let mut bench = Bench::new(false, UNLIMITED);
    bench.books.borrow_mut().latencies[1] = None;
    let reports = bench.steps(20);
    assert!(bench.books.borrow().asked.is_empty());
    let warnings: Vec<_> = reports.iter().flat_map(|report| &report.warnings).collect();
    let stopped = warnings.iter().filter(|text| text.contains("has stopped")).count();
    assert_eq!(stopped, 1, "said once: {warnings:?}");
    assert_eq!(bench.daemon.counters().quanta_without_latency, 20);
}

#[test]
fn a_chunk_that_cannot_be_moved_is_left_alone() {
    for refusal in [Refusal::Shared, Refusal::Forbidden] {
        let mut bench = Bench::new(false, UNLIMITED);
        bench.books.borrow_mut().refuse = Some(refusal);
        bench.steps(60);
        let mut asked = bench.books.borrow().asked.clone();
        let failures = bench.daemon.counters().failures;
        assert!(!asked.is_empty() && failures.shared + failures.node == asked.len() as u64, "{failures:?}");
        asked.sort_unstable();
        let all = asked.len();
        asked.dedup();
        assert_eq!(asked.len(), all, "each was tried once");
    }
}

#[test]
fn a_missing_permission_is_an_error() {
    let mut bench = Bench::new(false, UNLIMITED);
    bench.books.borrow_mut().refuse = Some(Refusal::Permission);
    let error = (0..60).find_map(|_| bench.daemon.step().err()).unwrap();
    assert!(matches!(error, Error::MayNotMove { .. }), "{error}");
}

#[test]
fn a_tracker_that_stops_is_an_error() {
    let mut bench = Bench::new(false, UNLIMITED);
    bench.books.borrow_mut().tracker_stopped = true;
    assert!(matches!(bench.daemon.step(), Err(Error::TrackerStopped { tracker: "fake", .. })));
}

#[test]
fn a_node_that_goes_offline_ends_it() {
    let mut bench = Bench::new(false, UNLIMITED);
    fs::remove_dir_all(bench.machine.path().join("sys/devices/system/node/node1")).unwrap();
    let error = bench.steps_until_error();
    assert!(matches!(error, Error::NodesGone(1)), "{error}");
}

#[test]
fn warm_is_refused_where_accesses_are_not_counted() {
    let refused = Bench::with_policy("warm", false, u64::MAX).err().expect("the fake tracker does not count");
    assert!(matches!(refused, Error::NotCounted { tracker: "fake" }), "{refused}");
    assert!(refused.to_string().contains("--policy equal"), "{refused}");
}
