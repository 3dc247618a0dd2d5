//! Settings and machines on which a store cannot work as wished: each error names the setting.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use warmset_region::{Config, Error, FRAME_BYTES, HugePages, Io, Root, Store};

mod support;
use support::{FRAME, Mounted, assert_bytes, bytes, dir, fill, skipped};

fn refused(config: Config) -> String {
    let error = Store::open(config).expect_err("cannot work");
    assert!(matches!(error, Error::Config { .. }), "{error}");
    error.to_string()
}

#[test]
fn directories_that_cannot_hold_files() {
    let dir = dir();
    let file = dir.path().join("a file");
    std::fs::write(&file, "").expect("write");
    for (path, why) in [
        (PathBuf::from("/nonexistent/warmset"), "No such file"),
        (file, "Not a directory"),
        (PathBuf::from("/proc"), "cannot create files in /proc"),
    ] {
        let error = refused(Config::new(path, 8 * FRAME));
        assert!(error.starts_with("dir: ") && error.contains(why), "{error}");
    }
}

#[test]
fn budgets_that_cannot_be() {
    let dir = dir();
    let open = |budget, max| {
        let mut config = Config::new(dir.path(), budget);
        config.budget_bytes_max = max;
        refused(config)
    };
    assert!(open(0, None).starts_with("budget_bytes: 0 B is less than one frame"));
    assert!(open(FRAME - 1, None).starts_with("budget_bytes: "));
    assert!(open(1 << 50, None).contains("more than this process may use"));
    assert!(open(8 * FRAME, Some(4 * FRAME)).contains("is more than `budget_bytes_max`"));
    assert!(open(u64::MAX, None).starts_with("budget_bytes: "));
}

/// A machine of 1 GiB, with these files besides.
fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
    let tree = dir();
    for (path, text) in [("proc/meminfo", "MemTotal: 1048576 kB\n")].iter().chain(files) {
        let file = tree.path().join(path);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("folder");
        std::fs::write(file, text).expect("file");
    }
    let root = Root::at(tree.path());
    (tree, root)
}

/// A group `outer/inner` of cgroups v2 in which this file stands.
fn grouped(file: &str, text: &str) -> (tempfile::TempDir, Root) {
    machine(&[
        ("proc/self/cgroup", "0::/outer/inner\n"),
        ("proc/self/mountinfo", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        (&format!("sys/fs/cgroup/{file}"), text),
    ])
}

#[test]
fn a_limit_below_the_wished_maximum_lowers_the_maximum_only() {
    for file in ["outer/memory.max", "outer/memory.high", "outer/inner/memory.high"] {
        let (tree, system) = grouped(file, "33554432\n");
        let open = |budget| {
            let mut config = Config::new(tree.path(), budget);
            config.budget_bytes_max = Some(1 << 30);
            config.system = system.clone();
            Store::open(config)
        };
        let store = open(8 * FRAME).expect("the budget is within the limit");
        store.set_budget(16 * FRAME).expect("up to the limit");
        let error = store.set_budget(17 * FRAME).expect_err("beyond the limit").to_string();
        assert!(error.starts_with("budget_bytes: ") && error.contains(file), "{error}");
        let error = open(17 * FRAME).expect_err("beyond the limit").to_string();
        assert!(error.starts_with("budget_bytes: ") && error.contains("32.0 MiB"), "{error}");
        assert!(error.contains(file), "{error}");
    }
}

#[test]
fn errors_call_the_settings_what_their_owner_calls_them() {
    let (tree, system) =
        machine(&[("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n")]);
    let mut config = Config::from_json(&format!(
        r#"{{"dir":{:?},"budget_bytes":16777216,"flash_bytes_max":0,"names":{{"dir":"a.dir",
        "budget_bytes":"a.memory","flash_bytes_max":"a.flash","huge_pages":"a.pages"}}}}"#,
        tree.path()
    ))
    .expect("complete");
    config.system = system;
    let with = |change: fn(&mut Config)| {
        let mut config = config.clone();
        change(&mut config);
        refused(config)
    };
    assert!(with(|config| config.budget_bytes = 1 << 50).starts_with("a.memory: "));
    assert!(with(|config| config.dirs = vec![PathBuf::from("/proc")]).starts_with("a.dir: "));
    let error = with(|config| config.huge_pages = HugePages::On);
    assert!(error.starts_with("a.pages: ") && error.contains("transparent_hugepage/enabled"), "{error}");
    let store = Store::open(config).expect("open");
    let region = store.create_region().expect("region");
    let error = (0..100).find_map(|n| region.write(bytes(n, FRAME_BYTES)).err()).expect("no disk");
    assert!(error.is_no_space());
    let error = error.to_string();
    assert!(error.contains("`a.flash`, which is 0 B") && error.contains("another `a.dir`"), "{error}");
    assert!(error.contains("raise `a.flash`") && !error.contains("flash_bytes_max"), "{error}");
}

#[test]
fn json_that_is_not_a_configuration() {
    let error = |json: &str| Config::from_json(json).expect_err("malformed").to_string();
    assert!(error(r#"{"dir":"/tmp","budget_bytes":-1}"#).starts_with("budget_bytes: "));
    assert!(error(r#"{"dir":"/tmp","budget_bytes":"1g"}"#).starts_with("budget_bytes: "));
    assert!(error(r#"{"dir":"/tmp","budget_bytes":1e30}"#).starts_with("budget_bytes: "));
    assert!(
        error(r#"{"dir":"/tmp","budget_bytes":4194304,"huge_pages":"maybe"}"#).starts_with("huge_pages: ")
    );
    assert!(error(r#"{"dir":"/tmp","budget_bytes":4194304,"io":"aio"}"#).starts_with("io: "));
    assert!(error(r#"{"dir":"/tmp","budget_bytes":4194304,"budget":1}"#).contains("unknown field `budget`"));
    assert!(error("{").starts_with("configuration: ") && error("").starts_with("configuration: "));
    assert!(error(r#"{"budget_bytes":4194304}"#).contains("missing field `dir`"));
    let config = Config::from_json(
        r#"{"dir":"/tmp","budget_bytes":4194304,"budget_bytes_max":null,
        "flash_bytes_max":null,"huge_pages":"off","io":"threads"}"#,
    );
    assert_eq!(config.expect("complete").budget_bytes, 4 << 20);
}

#[test]
fn without_huge_pages_and_without_io_uring_it_works() {
    let dir = dir();
    let mut config = Config::new(dir.path(), 8 * FRAME);
    config.huge_pages = HugePages::Off;
    config.io = Io::Threads;
    let store = Store::open(config).expect("open");
    let region = store.create_region().expect("region");
    fill(&region, 20, |_| FRAME_BYTES);
    (0..20).for_each(|n| assert_bytes(&region.pin(n).expect("pin"), n, FRAME_BYTES));
    let stats = store.stats();
    assert_eq!((stats.huge_bytes, stats.page_policy), (0, "base"));
    assert_eq!(stats.io_backend, "threads");
}

/// The machine's reserved huge pages: one test at a time.
static RESERVED: Mutex<()> = Mutex::new(());

#[test]
fn reserved_huge_pages_that_are_not_there() {
    let _alone = RESERVED.lock().unwrap_or_else(PoisonError::into_inner);
    let free = std::fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    if free.is_ok_and(|free| free.trim() != "0") {
        return skipped("reserved_huge_pages_that_are_not_there", "this machine has some");
    }
    let dir = dir();
    let mut config = Config::new(dir.path(), 8 * FRAME);
    config.huge_pages = HugePages::Hugetlb;
    let error = refused(config);
    assert!(error.starts_with("huge_pages: ") && error.contains("vm.nr_hugepages"), "{error}");
}

/// Only a process of its own has an stderr that can be looked at.
#[test]
fn what_is_skipped_is_said() {
    const ENV: &str = "WARMSET_TEST_SKIPPED";
    let test = "what_is_skipped_is_said";
    if std::env::var_os(ENV).is_some() {
        return skipped(test, "as wished");
    }
    let this = std::env::current_exe().expect("this program");
    let done = Command::new(this).args([test, "--exact"]).env(ENV, "1").output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains("SKIPPED what_is_skipped_is_said: as wished"), "{said}");
}

const RESERVED_PAGES: &str = "/proc/sys/vm/nr_hugepages";

/// Reserved huge pages, given back on drop; `None` where this process may not reserve them.
struct Reserved {
    before: String,
}

impl Reserved {
    fn pages(count: u64, test: &str) -> Option<Self> {
        let before = std::fs::read_to_string(RESERVED_PAGES).unwrap_or_default();
        if before.trim() != "0" {
            skipped(test, "this machine has reserved huge pages that are not ours");
            return None;
        }
        if let Err(error) = std::fs::write(RESERVED_PAGES, count.to_string()) {
            skipped(test, format_args!("reserving huge pages needs root ({RESERVED_PAGES}: {error})"));
            return None;
        }
        let reserved = Self { before };
        let got = std::fs::read_to_string(RESERVED_PAGES).expect("readable");
        if got.trim() != count.to_string() {
            skipped(test, format_args!("memory is too fragmented for {count} huge pages"));
            return None;
        }
        Some(reserved)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let restored = std::fs::write(RESERVED_PAGES, self.before.trim());
        assert!(std::thread::panicking() || restored.is_ok(), "{RESERVED_PAGES} is not as it was");
    }
}

#[test]
fn reserved_huge_pages_hold_the_budget_and_no_more() {
    const ENV: &str = "WARMSET_TEST_RESERVED";
    let test = "reserved_huge_pages_hold_the_budget_and_no_more";
    if std::env::var_os(ENV).is_none() {
        let _alone = RESERVED.lock().unwrap_or_else(PoisonError::into_inner);
        // In a process of its own: what a reservation took comes back only when its process ends.
        let Some(_reserved) = Reserved::pages(32, test) else { return };
        let status = Command::new(std::env::current_exe().expect("this program"))
            .args([test, "--exact", "--nocapture"])
            .env(ENV, "1")
            .status();
        return assert!(status.expect("it runs").success());
    }
    let dir = dir();
    let mut config = Config::new(dir.path(), 32 * FRAME);
    config.budget_bytes_max = Some(64 * FRAME);
    config.huge_pages = HugePages::Hugetlb;
    let store = Store::open(config).expect("32 pages are reserved");
    let region = store.create_region().expect("region");
    fill(&region, 64, |_| FRAME_BYTES);
    (0..64).for_each(|n| assert_bytes(&region.pin(n).expect("pin"), n, FRAME_BYTES));
    let stats = store.stats();
    assert_eq!((stats.page_policy, stats.huge_bytes), ("hugetlb", 32 * FRAME));
    let error = store.set_budget(33 * FRAME).expect_err("more than is reserved").to_string();
    assert!(error.starts_with("budget_bytes: ") && error.contains("reserved huge pages"), "{error}");
    store.set_budget(16 * FRAME).expect("smaller");
    store.set_budget(32 * FRAME).expect("as at first");
}

#[test]
fn a_full_disk_is_an_error_and_loses_nothing() {
    let Some(disk) = Mounted::tmpfs("size=24m", "a_full_disk_is_an_error_and_loses_nothing") else { return };
    let store = Store::open(Config::new(disk.path(), 8 * FRAME)).expect("open");
    let region = store.create_region().expect("region");
    let (written, error) = support::fill_until_full(&region);
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    assert!(error.to_string().contains(&disk.path().display().to_string()), "{error}");
    assert!(written >= 16, "{written}: the disk was used");
    (0..written).for_each(|n| assert_bytes(&region.pin(n).expect("pin"), n, FRAME_BYTES));
    let error = region.save(&disk.path().join("saved")).expect_err("no space");
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    drop(region);
    support::eventually("space comes back", || store.stats().flash_bytes == 0);
    let region = store.create_region().expect("region");
    fill(&region, 12, |_| FRAME_BYTES);
    drop(region);
    store.close();
}

#[test]
fn a_read_only_file_system() {
    let Some(disk) = Mounted::tmpfs("ro,size=1m", "a_read_only_file_system") else { return };
    let error = refused(Config::new(disk.path(), 8 * FRAME));
    assert!(error.starts_with("dir: ") && error.contains("Read-only file system"), "{error}");
}
