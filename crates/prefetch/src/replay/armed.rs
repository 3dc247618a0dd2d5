//! One trigger that is being watched.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::inotify;

use super::code::{CodeWatch, Report};
use crate::elf;
use crate::profile::{FileRecord, Trigger};

/// Watches for one event.
#[derive(Debug)]
pub(super) enum Armed {
    File { queue: OwnedFd, path: PathBuf, opened: u32, own: u32, nth: u32 },
    Instruction(CodeWatch),
}

impl Armed {
    /// Watches for the trigger's event; `None` for a launch, where it cannot be watched, and where its file has changed.
    pub(super) fn new(
        trigger: &Trigger,
        files: &[FileRecord],
        process: u32,
        report: Report<'_>,
    ) -> Option<Self> {
        let mut fail = |path: &Path, reason: &str| {
            report(&format!("{}: {reason}: its burst is fetched at launch", path.display()));
        };
        match trigger {
            Trigger::Launch => None,
            Trigger::File { path, nth } => {
                if files.iter().any(|file| file.path == *path && !file.is_current()) {
                    fail(path, "it has changed");
                    return None;
                }
                let watched = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)
                    .and_then(|queue| {
                        inotify::add_watch(&queue, path, inotify::WatchFlags::OPEN).map(|_| queue)
                    });
                let queue = watched.map_err(|error| fail(path, &error.to_string())).ok()?;
                report(&format!("watches for open {nth} of {}", path.display()));
                Some(Self::File { queue, path: path.clone(), opened: 0, own: 0, nth: *nth })
            }
            Trigger::Instruction { path, build_id, offset } => {
                if elf::build_id(path).as_ref() != Some(build_id) {
                    fail(path, "it has changed");
                    return None;
                }
                match CodeWatch::new(path, *offset, process) {
                    Ok(watch) => {
                        report(&format!("watches for {}+{offset:#x}", path.display()));
                        Some(Self::Instruction(watch))
                    }
                    Err(error) => {
                        report(&format!("{}: {error}: its burst is fetched at launch", path.display()));
                        None
                    }
                }
            }
        }
    }

    /// What becomes readable when something happened.
    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Self::File { queue, .. } => vec![queue.as_fd()],
            Self::Instruction(watch) => watch.descriptors(),
        }
    }

    /// When to ask again even if nothing is readable.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::File { .. } => None,
            Self::Instruction(watch) => watch.deadline(),
        }
    }

    /// Tells how often this process has opened a file itself, which does not count.
    pub(super) fn discount(&mut self, opens: impl Fn(&Path) -> u32) {
        if let Self::File { path, own, .. } = self {
            *own = opens(path);
        }
    }

    /// Whether the event has happened.
    pub(super) fn fires(&mut self, report: Report<'_>) -> bool {
        match self {
            Self::Instruction(watch) => watch.fires(report),
            Self::File { queue, opened, own, nth, .. } => {
                *opened += count(queue);
                *opened >= *nth + *own
            }
        }
    }
}

/// How many opens wait in the queue.
pub(super) fn count(queue: &OwnedFd) -> u32 {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(queue, &mut buffer);
    let mut found = 0;
    while let Ok(event) = reader.next() {
        found += u32::from(event.events().contains(inotify::ReadFlags::OPEN));
    }
    found
}
