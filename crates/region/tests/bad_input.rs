//! Settings and machines on which a store cannot work as wished: each error names the setting.

use std::path::{Path, PathBuf};
use std::process::Command;

use warmset_region::{Config, Error, FRAME_BYTES, HugePages, Io, Store};

mod support;
use support::{FRAME, assert_bytes, bytes, dir, fill};

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
    assert!(open(0, None).starts_with("budget_bytes: 0 bytes is less than one frame"));
    assert!(open(FRAME - 1, None).starts_with("budget_bytes: "));
    assert!(open(1 << 50, None).contains("more than this process may use"));
    assert!(open(8 * FRAME, Some(1 << 50)).starts_with("budget_bytes_max: "));
    assert!(open(8 * FRAME, Some(4 * FRAME)).contains("is more than `budget_bytes_max`"));
    assert!(open(u64::MAX, None).starts_with("budget_bytes: "));
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

#[test]
fn reserved_huge_pages_that_are_not_there() {
    let free = std::fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    if free.is_ok_and(|free| free.trim() != "0") {
        return eprintln!("SKIPPED reserved_huge_pages_that_are_not_there: this machine has some");
    }
    let dir = dir();
    let mut config = Config::new(dir.path(), 8 * FRAME);
    config.huge_pages = HugePages::Hugetlb;
    let error = refused(config);
    assert!(error.starts_with("huge_pages: ") && error.contains("vm.nr_hugepages"), "{error}");
}

/// A small file system of its own, taken down on drop; `None` where mounting is not allowed.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn tmpfs(options: &str, test: &str) -> Option<Self> {
        let dir = dir();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "warmset-test"])
            .arg(dir.path())
            .output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(dir));
        }
        eprintln!("SKIPPED {test}: mounting a tmpfs needs root");
        None
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let taken_down = Command::new("umount").arg(self.0.path()).status();
        assert!(std::thread::panicking() || taken_down.is_ok_and(|status| status.success()), "umount");
    }
}

#[test]
fn a_full_disk_is_an_error_and_loses_nothing() {
    let Some(disk) = Mounted::tmpfs("size=24m", "a_full_disk_is_an_error_and_loses_nothing") else { return };
    let store = Store::open(Config::new(disk.path(), 8 * FRAME)).expect("open");
    let region = store.create_region().expect("region");
    let mut written = 0;
    let error = loop {
        match region.write(bytes(written, FRAME_BYTES)) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 100, "the disk must end this");
    };
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
