//! What this process may do: lock memory, open files, sample with perf.

use warmset_platform::sysinfo::Root;
use warmset_platform::sysinfo::kernel;
use warmset_platform::sysinfo::process::{self, CAP_PERFMON, CAP_SYS_ADMIN, CAP_SYS_NICE, Limits};

use super::finding::{Finding, State};
use warmset_platform::units::bytes;

/// The store needs few files, a Spark executor many; the usual soft limit of 1024 is what runs out first.
const FILES_MIN: u64 = 4096;

/// Judges limits and capabilities.
pub fn findings(root: &Root) -> Vec<Finding> {
    let limits = process::limits();
    let capabilities = process::capabilities(root);
    vec![
        locked(&limits),
        files(&limits),
        perf(kernel::settings(root).perf_event_paranoid, capabilities),
        migrate(capabilities),
    ]
}

fn locked(limits: &Limits) -> Finding {
    let value = limits.locked_bytes_max.map_or_else(|| "unlimited".to_owned(), bytes);
    Finding::new(
        "memlock",
        State::Ok,
        value,
        "no matter by default: the pool is not locked, rings need no locked memory since 5.12",
    )
    .with(limits.locked_bytes_max)
}

fn files(limits: &Limits) -> Finding {
    let value = limits.files_max.map_or_else(|| "unlimited".to_owned(), |count| count.to_string());
    let (state, follows) = match limits.files_max {
        Some(count) if count < FILES_MIN => {
            (State::Warn, "Spark's shuffles may run out of it; ulimit -n 65536")
        }
        _ => (State::Ok, "enough for one file per cached partition"),
    };
    Finding::new("open_files", state, value, follows).with(limits.files_max)
}

fn perf(paranoid: Option<i64>, capabilities: u64) -> Finding {
    let privileged = process::has(capabilities, CAP_PERFMON) || process::has(capabilities, CAP_SYS_ADMIN);
    let value = match (paranoid, privileged) {
        (Some(level), true) => format!("perf_event_paranoid {level}, privileged"),
        (Some(level), false) => format!("perf_event_paranoid {level}"),
        (None, _) => "no perf events".to_owned(),
    };
    let (state, follows) = match paranoid {
        None => (State::Ok, "the kernel has none; regions do not need them"),
        Some(_) if privileged => (State::Ok, "all processes can be sampled"),
        Some(level) if level <= 2 => (State::Ok, "own processes can be sampled; regions do not need it"),
        Some(_) => (State::Ok, "nothing can be sampled; regions do not need it"),
    };
    Finding::new("perf", state, value, follows)
        .with(serde_json::json!({ "paranoid": paranoid, "privileged": privileged }))
}

fn migrate(capabilities: u64) -> Finding {
    let allowed = process::has(capabilities, CAP_SYS_NICE);
    let (value, follows) = if allowed {
        ("allowed", "pages of other users' processes can be moved between nodes")
    } else {
        ("own processes", "only pages of this user's processes can be moved between nodes")
    };
    Finding::new("migrate", State::Ok, value, follows).with(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_files_are_warned_of_and_unlimited_is_not() {
        let of = |files_max| Limits { locked_bytes_max: None, files_max };
        assert_eq!(files(&of(Some(1024))).state, State::Warn);
        assert_eq!(files(&of(None)).state, State::Ok);
        assert_eq!(locked(&of(None)).value, "unlimited");
    }

    #[test]
    fn sampling_is_told_from_the_level_and_the_capability() {
        assert!(perf(Some(3), 0).follows.starts_with("nothing"));
        assert!(perf(Some(3), 1 << CAP_PERFMON).follows.starts_with("all"));
        assert!(perf(None, 0).follows.contains("none"));
    }
}
