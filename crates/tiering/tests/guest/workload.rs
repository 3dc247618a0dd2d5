//! A process with a hot part and data that can be checked, and the test's hold on it.

use std::ffi::c_void;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::ptr;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub const PAGE: usize = 4096;
pub const CHUNK: usize = 2 << 20;
/// More than the kernel has forgotten one by one.
const SCRATCH_PAGES: usize = 64;

/// The process as its test sees it.
pub struct Workload {
    pub child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Where its memory begins.
    pub base: u64,
}

impl Workload {
    /// Chunks of memory on huge or base pages, of which the first `hot` are accessed all the time.
    pub fn start(chunks: usize, hot: usize, huge: bool) -> Self {
        let pages = if huge { "huge" } else { "base" };
        let mut child = Command::new("/init")
            .args(["workload", &chunks.to_string(), &hot.to_string(), pages])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a workload");
        let input = child.stdin.take().expect("its input");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let mut workload = Self { child, input, output, base: 0 };
        workload.base = workload.line().parse().expect("an address");
        workload
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        line.trim().to_owned()
    }

    /// Gives a command and takes its answer.
    pub fn ask(&mut self, command: &str) -> String {
        writeln!(self.input, "{command}").expect("a command");
        self.line()
    }

    /// Fails unless all its data is right.
    pub fn check(&mut self) {
        assert_eq!(self.ask("check"), "right");
    }

    /// The first address of a chunk.
    pub fn chunk(&self, at: usize) -> u64 {
        self.base + (at * CHUNK) as u64
    }

    /// Ends it.
    pub fn end(mut self) {
        self.check();
        assert_eq!(self.ask("exit"), "exits");
        assert!(self.child.wait().expect("its end").success());
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Memory {
    base: usize,
    scratch: usize,
    chunks: usize,
    unmapped: bool,
    hot: usize,
    passes: u64,
}

impl Memory {
    fn word(&self, page: usize, word: usize) -> *mut u64 {
        assert!(page * PAGE < self.chunks * CHUNK);
        (self.base + page * PAGE + word * 8) as *mut u64
    }

    fn pattern(page: usize) -> u64 {
        (page as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    fn fill(&self) {
        for page in 0..self.chunks * CHUNK / PAGE {
            // SAFETY: `word` checks that the page is one of this mapping, which is this process's own.
            unsafe { self.word(page, 0).write_volatile(Self::pattern(page)) };
        }
    }

    /// DAMON sees an access only if it walks the page tables. A real processor forgets translations all the time, the
    /// emulated one keeps them for good, unless the rights of many pages change.
    fn forget_translations(&self) {
        for rights in [libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE] {
            let scratch = self.scratch as *mut c_void;
            // SAFETY: the scratch pages are this process's own, and nothing else uses them.
            let outcome = unsafe { libc::mprotect(scratch, SCRATCH_PAGES * PAGE, rights) };
            assert_eq!(outcome, 0);
        }
        for page in 0..SCRATCH_PAGES {
            // SAFETY: as above; the pages are writable again.
            unsafe { ((self.scratch + page * PAGE) as *mut u8).write_volatile(1) };
        }
    }

    fn pass(&mut self) {
        self.passes += 1;
        self.forget_translations();
        for page in 0..self.hot * CHUNK / PAGE {
            let place = self.word(page, 1);
            // SAFETY: as in `fill`.
            unsafe { place.write_volatile(place.read_volatile() + 1) };
        }
    }

    /// The last quarter may be unmapped.
    fn chunks_mapped(&self) -> usize {
        if self.unmapped { self.chunks - self.chunks / 4 } else { self.chunks }
    }

    fn is_right(&self) -> bool {
        (0..self.chunks_mapped() * CHUNK / PAGE).all(|page| {
            let passes = if page < self.hot * CHUNK / PAGE { self.passes } else { 0 };
            // SAFETY: as in `fill`; only mapped chunks are read.
            let (pattern, count) =
                unsafe { (self.word(page, 0).read_volatile(), self.word(page, 1).read_volatile()) };
            pattern == Self::pattern(page) && count == passes
        })
    }

    /// A child that writes to all it inherited while this process goes on.
    fn fork(&mut self) -> bool {
        // SAFETY: this process has one thread.
        let child = unsafe { libc::fork() };
        if child == 0 {
            for _ in 0..20 {
                self.pass();
            }
            let right = self.is_right();
            // SAFETY: ends the copy at once.
            unsafe { libc::_exit(i32::from(!right)) };
        }
        for _ in 0..20 {
            self.pass();
        }
        let mut status = 0;
        // SAFETY: the status lives during the call.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        waited == child && status == 0 && self.is_right()
    }

    fn unmap(&mut self) {
        let mapped = self.chunks - self.chunks / 4;
        // SAFETY: nothing of the last quarter is accessed from now on: see `chunks_mapped`.
        let outcome = unsafe {
            libc::munmap((self.base + mapped * CHUNK) as *mut c_void, (self.chunks - mapped) * CHUNK)
        };
        assert_eq!(outcome, 0);
        self.unmapped = true;
    }
}

fn mapped(bytes: usize) -> usize {
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let raw = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    assert_ne!(raw, libc::MAP_FAILED);
    raw as usize
}

/// The process itself: `CHUNKS HOT huge|base`.
pub fn run(options: &[&str]) {
    let [chunks, hot, pages] = options else { panic!("workload CHUNKS HOT huge|base") };
    let (chunks, hot): (usize, usize) = (chunks.parse().expect("chunks"), hot.parse().expect("hot chunks"));
    let raw = mapped((chunks + 1) * CHUNK);
    let scratch = mapped(SCRATCH_PAGES * PAGE);
    let base = raw.next_multiple_of(CHUNK);
    let advice = if *pages == "huge" { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
    // SAFETY: the range lies inside the mapping of above.
    assert_eq!(unsafe { libc::madvise(base as *mut c_void, chunks * CHUNK, advice) }, 0);
    let mut memory = Memory { base, scratch, chunks, unmapped: false, hot, passes: 0 };
    memory.fill();
    println!("{base}");
    let stdin = std::io::stdin();
    loop {
        memory.pass();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&now)) == Ok(0) {
            continue;
        }
        let mut line = String::new();
        if stdin.lock().read_line(&mut line).expect("a command") == 0 {
            return;
        }
        let answer = match line.trim() {
            "check" => {
                if memory.is_right() {
                    "right"
                } else {
                    "wrong"
                }
            }
            "fork" => {
                if memory.fork() {
                    "right"
                } else {
                    "wrong"
                }
            }
            "unmap" => {
                memory.unmap();
                "unmapped"
            }
            "exit" => {
                println!("exits");
                return;
            }
            _ => "unknown",
        };
        println!("{answer}");
    }
}
