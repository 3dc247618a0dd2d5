//! The two address ranges of a store: the pool of frames, and the window for what has no frame.
//!
//! Invariant: both stay mapped until the process ends, whatever happens to the store. The window holds bounce
//! buffers (base pages, transient) and read-only file mappings; it costs addresses only.

use std::fs;
use std::io;

use warmset_placement::{PageSupport, PoolPages, pool_pages};
use warmset_platform::mm::{HUGE_PAGE_BYTES, Reservation};

use crate::FRAME_BYTES;
use crate::config::Config;
use crate::error::Error;

/// Frames of address space for bounce buffers and mappings (16 GiB), at least as large as the pool.
const WINDOW_FRAMES_MIN: u64 = 8192;

#[derive(Debug)]
pub(crate) struct Pool {
    pub frames: Reservation,
    pub window: Reservation,
    pub pages: PoolPages,
}

impl Pool {
    pub fn reserve(config: &Config) -> Result<Self, Error> {
        let pool_frames = config.budget_frames_max()?;
        let pages = pool_pages(config.huge_pages.into(), page_support()).ok_or_else(|| {
            Error::config(
                "huge_pages",
                "this kernel gives no transparent huge pages \
                 (/sys/kernel/mm/transparent_hugepage/enabled is `never` or missing); \
                 set it to `madvise`, or use `huge_pages: auto`",
            )
        })?;
        let frames = reserve_frames(pool_frames as usize * FRAME_BYTES, pages)?;
        let window_frames = window_frames(pool_frames);
        let window = Reservation::anonymous(window_frames as usize * FRAME_BYTES)
            .map_err(|error| no_addresses(window_frames, &error))?;
        // EINVAL means a kernel without transparent huge pages: base pages are what it gives anyway.
        drop(window.prefer_base_pages());
        Ok(Self { frames, window, pages })
    }

    pub fn frame_address(&self, frame: u64) -> usize {
        self.frames.base() + frame as usize * FRAME_BYTES
    }

    pub fn frame_of(&self, address: usize) -> u64 {
        ((address - self.frames.base()) / FRAME_BYTES) as u64
    }

    pub fn window_address(&self, slot: u64) -> usize {
        self.window.base() + slot as usize * FRAME_BYTES
    }

    pub fn window_slot(&self, address: usize) -> u64 {
        ((address - self.window.base()) / FRAME_BYTES) as u64
    }

    pub fn in_window(&self, address: usize) -> bool {
        (self.window.base()..self.window.base() + self.window.len()).contains(&address)
    }
}

pub(crate) fn window_frames(pool_frames: u64) -> u64 {
    WINDOW_FRAMES_MIN.max(pool_frames)
}

fn reserve_frames(bytes: usize, pages: PoolPages) -> Result<Reservation, Error> {
    let frames = (bytes / HUGE_PAGE_BYTES) as u64;
    match pages {
        PoolPages::Hugetlb => Reservation::hugetlb(bytes).map_err(|error| {
            Error::config(
                "huge_pages",
                format!("`hugetlb` needs {frames} reserved 2 MiB pages ({error}); raise vm.nr_hugepages or use `auto`"),
            )
        }),
        PoolPages::Transparent | PoolPages::Base => {
            let range = Reservation::anonymous(bytes).map_err(|error| no_addresses(frames, &error))?;
            let advised = match pages {
                PoolPages::Base => range.prefer_base_pages().or(Ok(())),
                _ => range.prefer_huge_pages(),
            };
            advised.map_err(|error: io::Error| {
                Error::config("huge_pages", format!("the kernel refuses huge pages: {error}; use `off`"))
            })?;
            Ok(range)
        }
    }
}

fn no_addresses(frames: u64, error: &io::Error) -> Error {
    Error::config(
        "budget_bytes_max",
        format!("the kernel refuses {frames} × 2 MiB of addresses: {error}; lower it, or allow overcommit"),
    )
}

fn page_support() -> PageSupport {
    let enabled = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    PageSupport { transparent: enabled.contains("[always]") || enabled.contains("[madvise]") }
}
