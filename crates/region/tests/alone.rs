//! What only a process of its own can show: a memory cgroup that kills, a fork. Each test runs this program once more.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use warmset_region::{Config, Error, FRAME_BYTES, HugePages, Store};

mod support;
use support::{FRAME, assert_bytes, bytes, dir, fill, skipped};

const ENV: &str = "WARMSET_TEST_ALONE";

/// Runs one test of this program in a process that knows it is alone; `joins` is where it writes its number first.
fn alone(test: &str, joins: Option<&Path>) -> Output {
    let this = std::env::current_exe().expect("this program");
    let mut command = Command::new(this);
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(ENV, joins.map_or(PathBuf::from("/dev/null"), |group| group.join("cgroup.procs")));
    command.output().expect("it runs")
}

/// Whether this process is such a one. It has joined its cgroup then.
fn is_alone() -> bool {
    let Some(joins) = std::env::var_os(ENV) else { return false };
    fs::write(joins, std::process::id().to_string()).expect("joined");
    true
}

fn assert_passed(done: &Output) {
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "signal {:?}: {said}", done.status.signal());
}

/// A cgroup, which goes on drop.
struct Group(PathBuf);

impl Group {
    fn new(hierarchy: &Path, name: &str) -> Option<Self> {
        let path = hierarchy.join(format!("warmset-test-{name}-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        Some(Self(path))
    }

    fn set(&self, file: &str, value: u64) -> bool {
        fs::write(self.0.join(file), value.to_string()).is_ok()
    }
}

/// A memory cgroup of version 1 with such a limit, or why there is none.
fn memory_cgroup_v1(limit: u64) -> Result<Group, String> {
    let hierarchy = Path::new("/sys/fs/cgroup/memory");
    let group = Group::new(hierarchy, "budget").ok_or("none can be made in /sys/fs/cgroup/memory")?;
    if group.set("memory.limit_in_bytes", limit) { Ok(group) } else { Err("it takes no limit".to_owned()) }
}

/// The same of version 2.
fn memory_cgroup_v2(limit: u64) -> Result<Group, String> {
    let mounts = fs::read_to_string("/proc/self/mounts").map_err(|error| error.to_string())?;
    let mounted = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (path, kind) = (fields.nth(1)?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(path))
    });
    let root = mounted.ok_or("no hierarchy of version 2 is mounted")?;
    let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    if !controllers.split_whitespace().any(|name| name == "memory") {
        return Err(format!("{} has no memory controller", root.display()));
    }
    // Refused where it is enabled already, or where processes are in the way.
    let _ = fs::write(root.join("cgroup.subtree_control"), "+memory");
    let group =
        Group::new(&root, "budget").ok_or_else(|| format!("none can be made in {}", root.display()))?;
    let limited = group.set("memory.max", limit);
    group.set("memory.swap.max", 0);
    if limited { Ok(group) } else { Err("it takes no limit".to_owned()) }
}

impl Drop for Group {
    fn drop(&mut self) {
        let gone = fs::remove_dir(&self.0);
        assert!(std::thread::panicking() || gone.is_ok(), "{}: {gone:?}", self.0.display());
    }
}

const BUDGET: u64 = 64 << 20;
/// What may lie beside the pool of so small a store.
const WINDOW: u64 = 64 << 20;
/// The program, its tape of bytes, and what the kernel holds for them.
const PROGRAM: u64 = 72 << 20;

#[test]
fn reads_pins_and_writes_far_past_the_budget_are_not_killed() {
    let test = "reads_pins_and_writes_far_past_the_budget_are_not_killed";
    if !is_alone() {
        let limit = BUDGET + WINDOW + PROGRAM;
        for (version, group) in [(1, memory_cgroup_v1(limit)), (2, memory_cgroup_v2(limit))] {
            match group {
                Ok(group) => assert_passed(&alone(test, Some(&group.0))),
                Err(why) => skipped(test, format_args!("no memory cgroup of version {version}: {why}")),
            }
        }
        return;
    }
    let dir = dir();
    let mut config = Config::new(dir.path(), BUDGET);
    // What it might be raised to must not matter.
    config.budget_bytes_max = Some(32 << 30);
    let store = Store::open(config).expect("open");
    let region = store.create_region().expect("region");
    fill(&region, 256, |_| FRAME_BYTES);
    // All that anybody may hold, as pins and as drafts.
    let mut pins = Vec::new();
    let refused = loop {
        match region.pin(pins.len() as u64) {
            Ok(pin) => pins.push(pin),
            Err(error) => break error,
        }
    };
    assert!(refused.is_no_space(), "{refused}");
    assert!(pins.len() as u64 * FRAME > BUDGET, "{} pins", pins.len());
    let stats = store.stats();
    assert!(stats.pool_bytes + stats.window_bytes <= BUDGET + WINDOW, "{stats:?}");
    for (n, pin) in pins.iter().enumerate() {
        assert_bytes(pin, n as u64, FRAME_BYTES);
    }
    drop(pins);
    let mut drafts = Vec::new();
    let refused = loop {
        match region.draft(FRAME_BYTES) {
            Ok(mut draft) => {
                draft.copy_from_slice(bytes(1000 + drafts.len() as u64, FRAME_BYTES));
                drafts.push(draft);
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::Io { .. }), "{refused}");
    assert!(drafts.len() as u64 * FRAME > BUDGET, "{} drafts", drafts.len());
    let drafted: Vec<_> = drafts.into_iter().map(|draft| draft.seal(FRAME_BYTES).expect("sealed")).collect();
    for (n, &segment) in drafted.iter().enumerate() {
        assert_bytes(&region.pin(segment).expect("pin"), 1000 + n as u64, FRAME_BYTES);
    }
    for n in 0..256 {
        assert_bytes(&region.pin(n).expect("pin"), n, FRAME_BYTES);
    }
}

#[test]
fn a_forked_process_is_refused_and_leaves_the_parents_store_alone() {
    let test = "a_forked_process_is_refused_and_leaves_the_parents_store_alone";
    if !is_alone() {
        return assert_passed(&alone(test, None));
    }
    std::panic::set_hook(Box::new(|_| {}));
    let dir = dir();
    let store = Store::open(Config::new(dir.path(), 8 * FRAME)).expect("open");
    let region = store.create_region().expect("region");
    fill(&region, 12, |_| FRAME_BYTES);
    let pin = region.pin(3).expect("pin");
    let prefetch = region.prefetch(4).expect("sealed");
    let draft = region.draft(10).expect("draft");
    // SAFETY: the child makes no call that needs another thread, and ends with `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = |outcome: Result<(), Error>| matches!(outcome, Err(Error::Misuse(_)));
        let mut right = refused(region.pin(5).map(drop)) && refused(region.write(&[1]).map(drop));
        right &= refused(store.create_region().map(drop)) && refused(region.prefetch(5).map(drop));
        right &= refused(store.raw().pin(region.id(), 3).map(drop)) && store.stats().pool_bytes == 0;
        store.release(region.id());
        right &= std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pin[0])).is_err();
        right &= std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| draft[0])).is_err();
        store.close();
        drop((prefetch, pin, draft, region, store));
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child that was made above.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0), "the child was refused everything and was not killed");
    drop((prefetch, draft));
    assert_bytes(&pin, 3, FRAME_BYTES);
    drop(pin);
    (0..12).for_each(|n| assert_bytes(&region.pin(n).expect("pin"), n, FRAME_BYTES));
}

/// The hugetlb hierarchy, mounted for this test.
struct Hierarchy(tempfile::TempDir);

impl Hierarchy {
    fn hugetlb() -> Option<Self> {
        let dir = dir();
        let mounted =
            Command::new("mount").args(["-t", "cgroup", "-o", "hugetlb", "none"]).arg(dir.path()).output();
        mounted.is_ok_and(|done| done.status.success()).then_some(Self(dir))
    }
}

impl Drop for Hierarchy {
    fn drop(&mut self) {
        let gone = Command::new("umount").arg(self.0.path()).status();
        assert!(std::thread::panicking() || gone.is_ok_and(|status| status.success()), "umount");
    }
}

/// Reserved huge pages of the machine, given back on drop.
struct Reserved;

const RESERVED_PAGES: &str = "/proc/sys/vm/nr_hugepages";

impl Reserved {
    fn pages(count: u64) -> Option<Self> {
        let before = fs::read_to_string(RESERVED_PAGES).ok()?;
        if before.trim() != "0" || fs::write(RESERVED_PAGES, count.to_string()).is_err() {
            return None;
        }
        let reserved = Self;
        (fs::read_to_string(RESERVED_PAGES).ok()?.trim() == count.to_string()).then_some(reserved)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let restored = fs::write(RESERVED_PAGES, "0");
        assert!(std::thread::panicking() || restored.is_ok(), "{RESERVED_PAGES} is not as it was");
    }
}

#[test]
fn a_limit_of_reserved_huge_pages_is_an_error_and_no_signal() {
    let test = "a_limit_of_reserved_huge_pages_is_an_error_and_no_signal";
    if !is_alone() {
        let Some(hierarchy) = Hierarchy::hugetlb() else {
            return skipped(test, "the hugetlb cgroup (version 1) cannot be mounted here");
        };
        let Some(_reserved) = Reserved::pages(24) else {
            return skipped(test, "24 huge pages cannot be reserved here, or some are that are not ours");
        };
        let group = Group::new(hierarchy.0.path(), "hugetlb").expect("a group");
        assert!(group.set("hugetlb.2MB.limit_in_bytes", 8 * FRAME), "a limit");
        let done = alone(test, Some(&group.0));
        drop(group);
        return assert_passed(&done);
    }
    let dir = dir();
    let open = |frames| {
        let mut config = Config::new(dir.path(), frames * FRAME);
        config.huge_pages = HugePages::Hugetlb;
        Store::open(config)
    };
    let error = open(16).expect_err("more than the cgroup allows").to_string();
    assert!(error.starts_with("huge_pages: ") && error.contains("hugetlb"), "{error}");
}
