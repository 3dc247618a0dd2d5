//! The kernel's version and io_uring.

use warmset_platform::sysinfo::Root;
use warmset_platform::sysinfo::kernel::{self, Release};
use warmset_platform::sysinfo::uring::Uring;

use super::finding::{Finding, State};

/// Judges the kernel's version.
pub fn findings(root: &Root) -> Vec<Finding> {
    vec![version(kernel::release(root))]
}

fn version(release: Option<Release>) -> Finding {
    let Some(release) = release else {
        return Finding::new(
            "kernel",
            State::Bad,
            "unknown",
            "not Linux, or /proc is not mounted: nothing here works",
        );
    };
    let (state, follows) = if release.at_least(5, 14) {
        (State::Ok, "has all that the region store uses")
    } else if release.at_least(4, 14) {
        (State::Warn, "older than 5.14: pools are pre-faulted by touching each page, which is slower")
    } else {
        (State::Bad, "older than 4.14: not supported")
    };
    Finding::new("kernel", state, release.text.clone(), follows).with(release)
}

/// Judges whether segments can be read through io_uring.
pub fn io_uring(uring: &Uring, root: &Root) -> Finding {
    let disabled = kernel::settings(root).io_uring_disabled;
    let fallback = "segments are read by threads with pread instead: more CPU per read";
    let (state, value, follows) = match uring {
        Uring::Works => {
            (State::Ok, "works".to_owned(), "segments are read and written through a ring".to_owned())
        }
        Uring::TooOld => {
            (State::Warn, "too old".to_owned(), format!("{fallback}; Linux 5.6 or newer has what is needed"))
        }
        Uring::Refused { reason } => {
            let cure = match disabled {
                Some(1) => "; sysctl kernel.io_uring_disabled is 1 (only the group kernel.io_uring_group)",
                Some(2) => "; sysctl kernel.io_uring_disabled is 2 (off): set it to 0",
                _ => "; a container's seccomp profile often forbids it",
            };
            (State::Warn, format!("refused ({reason})"), format!("{fallback}{cure}"))
        }
    };
    Finding::new("io_uring", state, value, follows)
        .with(serde_json::json!({ "probe": uring, "sysctl_disabled": disabled }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_ring_names_the_setting_that_refuses_it() {
        let refused = Uring::Refused { reason: "Operation not permitted".to_owned() };
        let finding = io_uring(&refused, &Root::at("/nonexistent"));
        assert_eq!(finding.state, State::Warn);
        assert!(finding.follows.contains("seccomp"));
    }

    #[test]
    fn versions_are_judged_in_order() {
        let state = |text: &str| version(kernel::parse_release(text)).state;
        assert_eq!(state("6.18.1"), State::Ok);
        assert_eq!(state("5.10.0"), State::Warn);
        assert_eq!(state("3.10.0"), State::Bad);
        assert_eq!(version(None).state, State::Bad);
    }
}
