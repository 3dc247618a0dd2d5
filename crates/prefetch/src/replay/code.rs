//! One instruction that is watched, in the first of two ways that the kernel allows here:
//!
//! 1. A breakpoint register of the processor: by address, in each process of the program that has the file mapped.
//! 2. A look at the program's page table every few milliseconds: the trigger fires when the instruction's page is first
//!    used. Instructions are chosen where a page of code is used for the first time.
//!
//! Not a uprobe, which root could have: it is a byte in the code of every process that has the file mapped, some of which Linux
//! 6.18 made crash (docs/internals/prefetch.md), and it may stay there if the process that asked for it is killed.
//!
//! Invariant: nothing writes the program's memory, nobody traces it, and it gets no signal of ours. The kernel takes the
//! first back when this process dies, and the second leaves nothing: the program goes on whenever we die.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::inotify;
use warmset_platform::perf::Breakpoint;
use warmset_platform::sysinfo::{Root, maps, tree};

/// A file is mapped soon after it was opened, but not at once; on a busy machine, later.
const LOOKS_AFTER_OPEN_MS: [u64; 8] = [1, 3, 10, 40, 160, 640, 2000, 5000];
/// The file may be opened all the time, by anybody: looks take at most a tenth of a processor's time.
const REST_PER_LOOK: u32 = 9;
const PAGE_EVERY: Duration = Duration::from_millis(10);
/// A page table is looked at; which processes there are is asked once in so many looks.
const PAGE_LOOKS_PER_FAMILY: u32 = 20;

/// Tells what is watched and how, in words for the user.
pub(super) type Report<'a> = &'a mut dyn FnMut(&str);

/// An instruction that is watched, wherever its file is mapped.
#[derive(Debug)]
pub(super) struct CodeWatch {
    path: PathBuf,
    offset: u64,
    process: u32,
    opens: OwnedFd,
    /// How many looks were taken since the file was last opened, and when the next one is due.
    looks: usize,
    next: Option<Instant>,
    page_looks: u32,
    /// No look at all processes before then.
    rested: Instant,
    places: HashMap<u32, Place>,
}

/// How the instruction is watched in one process.
#[derive(Debug)]
struct Place {
    address: u64,
    how: How,
}

#[derive(Debug)]
enum How {
    Breakpoints(Vec<Breakpoint>),
    Page,
}

impl CodeWatch {
    /// Watches an instruction of the process and what it starts.
    pub(super) fn new(path: &Path, offset: u64, process: u32) -> io::Result<Self> {
        let opens = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        inotify::add_watch(&opens, path, inotify::WatchFlags::OPEN)?;
        Ok(Self {
            path: path.to_owned(),
            offset,
            process,
            opens,
            looks: 0,
            next: Some(Instant::now()),
            page_looks: 0,
            rested: Instant::now(),
            places: HashMap::new(),
        })
    }

    /// What becomes readable when something happened.
    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let breakpoints = self.places.values().flat_map(Place::breakpoints);
        std::iter::once(self.opens.as_fd()).chain(breakpoints.flat_map(Breakpoint::descriptors)).collect()
    }

    /// When to ask again even if nothing is readable.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.next
    }

    /// Whether it was executed.
    pub(super) fn fires(&mut self, report: Report<'_>) -> bool {
        !self.hits_ns(report).is_empty()
            || self.places.iter().any(|(process, place)| place.page_is_used(*process))
    }

    /// When the instruction was executed since the last call, as far as breakpoint registers tell, on the monotonic clock.
    pub(super) fn hits_ns(&mut self, report: Report<'_>) -> Vec<u64> {
        let now = Instant::now();
        let hits_ns = self.places.values_mut().flat_map(Place::hits_ns).collect();
        self.places.retain(|_, place| place.is_left());
        if super::armed::count(&self.opens) > 0 {
            self.looks = 0;
            let soon = self.rested.max(now + Duration::from_millis(LOOKS_AFTER_OPEN_MS[0]));
            self.next = Some(self.next.map_or(soon, |next| next.min(soon)));
        }
        if self.next.is_some_and(|next| next <= now) {
            self.look(now, report);
        }
        hits_ns
    }

    fn look(&mut self, now: Instant, report: Report<'_>) {
        let has_page = |place: &Place| matches!(place.how, How::Page);
        let after_open = LOOKS_AFTER_OPEN_MS.get(self.looks).map(|&wait| Duration::from_millis(wait));
        self.page_looks = self.page_looks.wrapping_add(1);
        if after_open.is_some() || self.page_looks % PAGE_LOOKS_PER_FAMILY == 0 {
            self.find(report);
            let end = Instant::now();
            self.rested = end + (end - now) * REST_PER_LOOK;
        }
        self.looks = self.looks.saturating_add(1);
        let page = self.places.values().any(has_page).then_some(PAGE_EVERY);
        let after_open = after_open.map(|wait| self.rested.max(now + wait));
        self.next = after_open.into_iter().chain(page.map(|wait| now + wait)).min();
    }

    /// Watches the instruction in each process of the program that has the file mapped.
    fn find(&mut self, report: Report<'_>) {
        let root = Root::live();
        for process in tree::family(&root, self.process) {
            let Some(address) = maps::code_address(&root, process, &self.path, self.offset) else {
                // It executes another program now.
                self.places.remove(&process);
                continue;
            };
            if self.places.get(&process).is_some_and(|place| place.address == address) {
                continue;
            }
            let name = format!("{}+{:#x} in process {process}", self.path.display(), self.offset);
            let how = match breakpoints(process, address) {
                Ok(breakpoints) => {
                    report(&format!("watches {name} with a breakpoint register"));
                    How::Breakpoints(breakpoints)
                }
                Err(error) => {
                    report(&format!("watches {name} by its page table; no breakpoint register: {error}"));
                    How::Page
                }
            };
            self.places.insert(process, Place { address, how });
        }
    }
}

/// A breakpoint in each thread that there is; threads that these start inherit it.
fn breakpoints(process: u32, address: u64) -> io::Result<Vec<Breakpoint>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(format!("/proc/{process}/task"))? {
        let thread = entry?.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(thread) = thread else { continue };
        match Breakpoint::in_thread(thread, address) {
            Ok(breakpoint) => found.push(breakpoint),
            // It has just ended.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    if found.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(found) }
}

impl Place {
    fn breakpoints(&self) -> &[Breakpoint] {
        match &self.how {
            How::Breakpoints(breakpoints) => breakpoints,
            How::Page => &[],
        }
    }

    /// The executions since the last call. Lets go of threads that have ended: their breakpoints would be readable for ever.
    fn hits_ns(&mut self) -> Vec<u64> {
        let mut hits_ns = Vec::new();
        if let How::Breakpoints(breakpoints) = &mut self.how {
            breakpoints.retain_mut(|breakpoint| {
                // In this order: asking takes back that it is readable, so that all must be read after it.
                let is_over = breakpoint.is_over();
                breakpoint.drain(|_, at_ns| hits_ns.push(at_ns));
                !is_over
            });
        }
        hits_ns
    }

    /// Whether something is still watched.
    fn is_left(&self) -> bool {
        match &self.how {
            How::Breakpoints(breakpoints) => !breakpoints.is_empty(),
            How::Page => true,
        }
    }

    fn page_is_used(&self, process: u32) -> bool {
        matches!(self.how, How::Page)
            && maps::is_present(&Root::live(), process, self.address).unwrap_or(false)
    }
}
