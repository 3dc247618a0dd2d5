//! The two address ranges of a store: the pool of frames, and the window for what has no frame.
//!
//! Invariant: both stay mapped until the process ends, whatever happens to the store. The window holds bounce
//! buffers (base pages, transient) and read-only file mappings; it costs addresses only.

use std::io;

use warmset_placement::{PageSupport, PoolPages, pool_pages};
use warmset_platform::mm::{HUGE_PAGE_BYTES, Reservation};
use warmset_platform::sysinfo::Root;
use warmset_platform::sysinfo::pages::transparent;

use crate::FRAME_BYTES;
use crate::config::{Config, Names};
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
        let pool_frames = config.pool_frames()?;
        let pages = pool_pages(config.huge_pages.into(), page_support(&config.system)).ok_or_else(|| {
            Error::config(
                &config.names.huge_pages,
                "this kernel gives no transparent huge pages \
                 (/sys/kernel/mm/transparent_hugepage/enabled is `never` or missing); \
                 set that file to `madvise`, or this setting to `auto`",
            )
        })?;
        let frames = reserve_frames(pool_frames as usize * FRAME_BYTES, pages, &config.names)?;
        if let Some(node) = config.node {
            frames.bind_to_node(node).map_err(|error| {
                Error::config("node", format!("memory cannot be taken from NUMA node {node}: {error}"))
            })?;
        }
        let window_frames = window_frames(pool_frames);
        let window = Reservation::anonymous(window_frames as usize * FRAME_BYTES)
            .map_err(|error| no_addresses(window_frames, &error, &config.names))?;
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

fn reserve_frames(bytes: usize, pages: PoolPages, names: &Names) -> Result<Reservation, Error> {
    let frames = (bytes / HUGE_PAGE_BYTES) as u64;
    match pages {
        PoolPages::Hugetlb => Reservation::hugetlb(bytes).map_err(|error| {
            Error::config(
                &names.huge_pages,
                format!(
                    "`hugetlb` needs {frames} reserved 2 MiB pages for the budget ({error}); raise vm.nr_hugepages, \
                     lower `{}`, or use `auto`",
                    names.budget_bytes
                ),
            )
        }),
        PoolPages::Transparent | PoolPages::Base => {
            let range = Reservation::anonymous(bytes).map_err(|error| no_addresses(frames, &error, names))?;
            let advised = match pages {
                PoolPages::Base => range.prefer_base_pages().or(Ok(())),
                _ => range.prefer_huge_pages(),
            };
            advised.map_err(|error: io::Error| {
                Error::config(&names.huge_pages, format!("the kernel refuses huge pages: {error}; use `off`"))
            })?;
            Ok(range)
        }
    }
}

fn no_addresses(frames: u64, error: &io::Error, names: &Names) -> Error {
    Error::config(
        &names.budget_bytes_max,
        format!(
            "the kernel refuses {frames} × 2 MiB of addresses: {error}; set vm.overcommit_memory to 0 or 1, \
             raise `ulimit -v`, or lower this setting"
        ),
    )
}

fn page_support(system: &Root) -> PageSupport {
    let enabled = transparent(system).enabled;
    PageSupport { transparent: matches!(enabled.as_deref(), Some("always" | "madvise")) }
}
