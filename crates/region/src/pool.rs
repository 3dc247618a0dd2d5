//! The address ranges of a store: the pool of frames, one range for each memory node, and the window for what has no frame.
//!
//! Invariant: all stay mapped until the process ends, whatever happens to the store. The window has base pages while
//! somebody uses them, and is small: see [`window_frames`].

use std::io;

use warmset_placement::{PageSupport, PoolPages, pool_pages};
use warmset_platform::mm::{HUGE_PAGE_BYTES, Reservation, range_use};
use warmset_platform::sysinfo::Root;
use warmset_platform::sysinfo::pages::transparent;

use crate::FRAME_BYTES;
use crate::config::Config;
use crate::error::Error;
use crate::frames::Changing;
use crate::names::Names;
use crate::numbers::FrameNumbers;

/// The window is at least this large (64 MiB), and at most 256 MiB.
const WINDOW_FRAMES_MIN: u64 = 32;
const WINDOW_FRAMES_MAX: u64 = 128;
/// Of the budget, one part in so many is the window's.
const WINDOW_PART: u64 = 64;

#[derive(Debug)]
pub(crate) struct Pool {
    /// One for each memory node that is used: one, today.
    nodes: Vec<Reservation>,
    pub numbers: FrameNumbers,
    pub window: Reservation,
    pub pages: PoolPages,
}

impl Pool {
    pub fn reserve(config: &Config) -> Result<Self, Error> {
        let budget_frames_max = config.pool_frames()?;
        let pool_frames = frames_beside_window(budget_frames_max);
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
        let window_frames = window_frames(budget_frames_max);
        let pages_refused = |error: io::Error| {
            Error::config(
                &config.names.huge_pages,
                format!(
                    "the kernel refuses a reserved huge page ({error}): a limit of the cgroup (hugetlb.2MB.max) or \
                     the nodes that this process may use; lower `{}`, or use `auto`",
                    config.names.budget_bytes
                ),
            )
        };
        if pages == PoolPages::Hugetlb {
            // SAFETY: nobody has an address in it yet.
            unsafe { frames.populate(0, frames.len()) }.map_err(pages_refused)?;
        }
        let window = Reservation::anonymous(window_frames as usize * FRAME_BYTES)
            .map_err(|error| no_addresses(window_frames, &error, &config.names))?;
        // EINVAL means a kernel without transparent huge pages: base pages are what it gives anyway.
        drop(window.prefer_base_pages());
        let nodes = vec![frames];
        let numbers =
            FrameNumbers::of(nodes.iter().map(|node| (node.base(), (node.len() / FRAME_BYTES) as u64)));
        Ok(Self { nodes, numbers, window, pages })
    }

    pub fn frame_address(&self, frame: u64) -> usize {
        self.numbers.address(frame)
    }

    pub fn window_address(&self, slot: u64) -> usize {
        self.window.base() + slot as usize * FRAME_BYTES
    }

    /// Faults a frame in.
    pub fn fill(&self, frame: &Changing) -> io::Result<()> {
        let (node, offset) = self.numbers.locate(frame.number());
        // SAFETY: a frame that is changing is free, and nobody can take it.
        unsafe { self.nodes[node].populate(offset, FRAME_BYTES) }
    }

    /// Gives a frame's pages back to the kernel.
    pub fn drain(&self, frame: &Changing) -> io::Result<()> {
        let (node, offset) = self.numbers.locate(frame.number());
        // SAFETY: as in `fill`.
        unsafe { self.nodes[node].discard(offset, FRAME_BYTES) }
    }

    /// No segment can have more.
    pub fn segment_bytes_max(&self) -> u64 {
        self.numbers.longest() * FRAME_BYTES as u64
    }

    /// Bytes of frames on huge pages, by the kernel's list of mappings. Without /proc the figure is unknown, which 0
    /// says well enough for a gauge.
    pub fn huge_bytes(&self) -> u64 {
        let huge = |node: &Reservation| range_use(node.base(), node.len()).unwrap_or_default().huge_bytes;
        self.nodes.iter().map(huge).sum()
    }

    /// Whether free frames stay in memory: reserved huge pages that somebody else took meanwhile would be a signal at
    /// the next touch.
    pub fn keeps_pages(&self) -> bool {
        self.pages == PoolPages::Hugetlb
    }

    pub fn in_frames(&self, address: usize) -> bool {
        self.numbers.at(address).is_some()
    }

    pub fn in_window(&self, address: usize) -> bool {
        (self.window.base()..self.window.base() + self.window.len()).contains(&address)
    }
}

/// Frames' worth of memory that may be in use outside of the pool with such a budget.
pub(crate) fn window_frames(budget_frames: u64) -> u64 {
    (budget_frames / WINDOW_PART).clamp(WINDOW_FRAMES_MIN, WINDOW_FRAMES_MAX)
}

/// Frames that a budget leaves to the pool: the window's memory counts against it, too. In budgets below 4 GiB the
/// window may be larger than its part.
pub(crate) fn frames_beside_window(budget_frames: u64) -> u64 {
    budget_frames - (budget_frames / WINDOW_PART).min(WINDOW_FRAMES_MAX)
}

fn reserve_frames(bytes: usize, pages: PoolPages, names: &Names) -> Result<Reservation, Error> {
    let frames = (bytes / HUGE_PAGE_BYTES) as u64;
    match pages {
        PoolPages::Hugetlb => Reservation::hugetlb(bytes).map_err(|error| {
            let problem = match error.kind() {
                io::ErrorKind::Unsupported => format!("`hugetlb` is not to be had: {error}; use `auto`"),
                _ => format!(
                    "`hugetlb` needs {frames} reserved 2 MiB pages for the budget ({error}); raise vm.nr_hugepages, \
                     lower `{}`, or use `auto`",
                    names.budget_bytes
                ),
            };
            Error::config(&names.huge_pages, problem)
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
