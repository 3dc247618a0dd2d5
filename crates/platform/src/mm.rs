//! Address ranges: reserved once, given pages on demand, never unmapped.
//!
//! Invariant: a [`Reservation`] stays mapped and readable until the process ends, so an address inside it
//! can be stale but can never fault. Dropping one therefore leaks address space on purpose (not memory:
//! see [`Reservation::discard`]). It knows nothing of who uses which byte; callers keep writers apart.

#[cfg(not(miri))]
use std::ffi::c_void;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ptr;

#[cfg(not(miri))]
use rustix::mm::MprotectFlags;
use rustix::mm::{self, Advice, MapFlags, ProtFlags};

/// Bytes in a base page. x86-64, and aarch64 as distributions build it for servers with 4 KiB pages.
pub const BASE_PAGE_BYTES: usize = 4096;
/// Bytes in a huge page, the alignment of every reservation.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Whether a child made by `fork` gets the pages of a part of a reservation (as they are then), or no mapping at all.
///
/// # Errors
/// The kernel's, for addresses that are not mapped.
///
/// # Safety
/// The range lies in a [`Reservation`]. While children inherit it nobody starts to write to it by direct I/O.
#[cfg(not(miri))]
pub unsafe fn inherit(address: usize, len: usize, inherits: bool) -> io::Result<()> {
    let advice = if inherits { Advice::LinuxDoFork } else { Advice::LinuxDontFork };
    // SAFETY: neither advice touches pages; the caller says whose they are.
    unsafe { mm::madvise(address as *mut c_void, len, advice) }?;
    Ok(())
}

/// A range of addresses that stays mapped for the life of the process.
///
/// Who changes pages promises that nobody looks:
/// ```compile_fail,E0133
/// fn discard(range: &warmset_platform::mm::Reservation) {
///     range.discard(0, range.len()).unwrap();
/// }
/// ```
/// ```compile_fail,E0133
/// fn populate(range: &warmset_platform::mm::Reservation) {
///     range.populate(0, range.len()).unwrap();
/// }
/// ```
#[derive(Debug)]
pub struct Reservation {
    base: usize,
    len: usize,
    hugetlb: bool,
}

impl Reservation {
    /// Reserves `len` bytes (a multiple of 2 MiB) of private anonymous memory, 2 MiB aligned, with no page
    /// behind it yet. A child made by `fork` does not inherit it.
    ///
    /// # Errors
    /// The kernel's, when address space or the commit limit (`vm.overcommit_memory=2`) is exhausted.
    #[cfg(not(miri))]
    pub fn anonymous(len: usize) -> io::Result<Self> {
        assert!(len > 0 && len % HUGE_PAGE_BYTES == 0, "a reservation is a multiple of 2 MiB");
        let wide = len.checked_add(2 * HUGE_PAGE_BYTES).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches nobody's memory.
        let raw = unsafe {
            mm::mmap_anonymous(
                ptr::null_mut(),
                wide,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        } as usize;
        // The margins stay as guards: without them the kernel would merge two neighbouring reservations into one
        // mapping, and smaps could not tell them apart.
        let base = (raw + 1).next_multiple_of(HUGE_PAGE_BYTES);
        for (start, end) in [(raw, base), (base + len, raw + wide)] {
            // SAFETY: the margins were mapped just above and no address in them was given out.
            unsafe { mm::mprotect(start as *mut c_void, end - start, MprotectFlags::empty())? };
        }
        let range = Self { base, len, hugetlb: false };
        range.advise(0, len, Advice::LinuxDontFork)?;
        Ok(range)
    }

    /// As memory of the allocator that nobody gives back: Miri knows no protections and no advice.
    #[cfg(miri)]
    pub fn anonymous(len: usize) -> io::Result<Self> {
        let layout = std::alloc::Layout::from_size_align(len, HUGE_PAGE_BYTES).expect("a multiple of 2 MiB");
        // SAFETY: the layout is not empty.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        Ok(Self { base: start.expose_provenance(), len, hugetlb: false })
    }

    /// Reserves `len` bytes of hugetlb pages; they are taken from `vm.nr_hugepages` now. A touch may fail all the same,
    /// with a signal: at the limit of a cgroup, or where the nodes that the process may use have none. Populating
    /// says so in words.
    ///
    /// # Errors
    /// `ENOMEM` when fewer huge pages are reserved than asked for; `Unsupported` before Linux 5.14, which can populate
    /// only by a touch.
    pub fn hugetlb(len: usize) -> io::Result<Self> {
        assert!(len > 0 && len % HUGE_PAGE_BYTES == 0, "a reservation is a multiple of 2 MiB");
        // SAFETY: it changes nothing: there are no bytes in the range. Whether the kernel knows the advice it looks at first.
        let known = unsafe { mm::madvise(ptr::null_mut(), 0, Advice::LinuxPopulateWrite) };
        known.map_err(|_| {
            io::Error::new(
                io::ErrorKind::Unsupported,
                "Linux before 5.14 cannot say that a page is not to be had",
            )
        })?;
        // SAFETY: as in `anonymous`; hugetlb mappings are aligned to their page size by the kernel.
        let raw = unsafe {
            mm::mmap_anonymous(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB,
            )?
        };
        let range = Self { base: raw as usize, len, hugetlb: true };
        range.advise(0, len, Advice::LinuxDontFork)?;
        Ok(range)
    }

    /// First address.
    #[must_use]
    pub fn base(&self) -> usize {
        self.base
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never true; a reservation has at least one huge page.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Asks for huge pages at first touch (`MADV_HUGEPAGE`); call before anything is touched.
    ///
    /// # Errors
    /// `EINVAL` on a kernel without transparent huge pages.
    pub fn prefer_huge_pages(&self) -> io::Result<()> {
        if self.hugetlb { Ok(()) } else { self.advise(0, self.len, Advice::LinuxHugepage) }
    }

    /// Asks for base pages (`MADV_NOHUGEPAGE`).
    ///
    /// # Errors
    /// `EINVAL` on a kernel without transparent huge pages, where base pages are all there is.
    pub fn prefer_base_pages(&self) -> io::Result<()> {
        self.advise(0, self.len, Advice::LinuxNoHugepage)
    }

    /// Takes all pages from one NUMA node; call before anything is touched.
    ///
    /// # Errors
    /// `EINVAL` for a node that does not exist or has no memory.
    pub fn bind_to_node(&self, node: u32) -> io::Result<()> {
        crate::migrate::bind(self.base, self.len, node)
    }

    /// Puts writable pages behind a part of the range: `MADV_POPULATE_WRITE`, or before Linux 5.14, where there are no
    /// reserved huge pages, by touching each.
    ///
    /// # Errors
    /// `ENOMEM` at a memory limit.
    ///
    /// # Safety
    /// Nobody may access that part meanwhile.
    pub unsafe fn populate(&self, offset: usize, len: usize) -> io::Result<()> {
        match self.advise(offset, len, Advice::LinuxPopulateWrite) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput && !self.hugetlb => {
                // SAFETY: as promised by the caller.
                unsafe { self.touch(offset, len) };
                Ok(())
            }
            other => other,
        }
    }

    /// # Safety
    /// As for [`Reservation::populate`].
    unsafe fn touch(&self, offset: usize, len: usize) {
        let start = self.at(offset, len);
        for page in (start..start + len).step_by(BASE_PAGE_BYTES) {
            let byte = page as *mut u8;
            // SAFETY: the byte lies inside this reservation (checked by `at`), which is mapped and writable, and
            // the caller promises that nobody else accesses it.
            unsafe { ptr::write_volatile(byte, ptr::read_volatile(byte)) };
        }
    }

    /// Gives the pages of a part of the range back to the kernel; the addresses stay readable.
    ///
    /// # Errors
    /// The kernel's: `EINVAL` for reserved huge pages before Linux 5.18. The part keeps its pages then.
    ///
    /// # Safety
    /// Nobody has a reference into that part: its bytes become zeros.
    pub unsafe fn discard(&self, offset: usize, len: usize) -> io::Result<()> {
        self.advise(offset, len, Advice::LinuxDontNeed)
    }

    #[cfg(miri)]
    fn advise(&self, offset: usize, len: usize, advice: Advice) -> io::Result<()> {
        let start = self.at(offset, len);
        if matches!(advice, Advice::LinuxDontNeed) {
            // SAFETY: inside this reservation; the caller of `discard` has promised that nobody sees it.
            unsafe { ptr::write_bytes(start as *mut u8, 0, len) };
        }
        Ok(())
    }

    #[cfg(not(miri))]
    fn advise(&self, offset: usize, len: usize, advice: Advice) -> io::Result<()> {
        let start = self.at(offset, len);
        // SAFETY: the part lies inside this reservation (checked by `at`), and none of the advices used here
        // unmaps; `LinuxDontNeed` zeroes pages, which the caller of `discard` has promised that nobody sees.
        unsafe { mm::madvise(start as *mut c_void, len, advice)? };
        Ok(())
    }

    fn at(&self, offset: usize, len: usize) -> usize {
        let end = offset.checked_add(len);
        assert!(end.is_some_and(|end| end <= self.len), "{offset}+{len} lies outside the reservation");
        self.base + offset
    }
}

/// What the kernel holds behind a range of this process's addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RangeUse {
    /// Bytes with a page behind them.
    pub resident_bytes: u64,
    /// Of those, bytes on huge pages (transparent or hugetlb).
    pub huge_bytes: u64,
}

/// Gives what the C library's allocator keeps of freed memory back to the kernel. It keeps most of what was freed in blocks
/// of less than 32 MiB, once one of that size was freed: by itself it gives back only what lies at an arena's end.
pub fn trim_heap() {
    #[cfg(all(target_env = "gnu", not(miri)))]
    // SAFETY: it has no arguments that matter, and may be called at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Reads `/proc/self/smaps` for the mappings that start inside `[base, base + len)`.
///
/// # Errors
/// When `/proc` is not mounted or not readable.
pub fn range_use(base: usize, len: usize) -> io::Result<RangeUse> {
    let mut total = RangeUse::default();
    let mut inside = false;
    for line in BufReader::new(File::open("/proc/self/smaps")?).lines() {
        let line = line?;
        if let Some(start) = mapping_start(&line) {
            if start >= base + len && start < usize::MAX / 2 {
                break;
            }
            inside = start >= base;
        } else if inside {
            count_field(&line, &mut total);
        }
    }
    Ok(total)
}

/// The start address if this is the headline of a mapping (`7f00-7fff rw-p …`).
fn mapping_start(line: &str) -> Option<usize> {
    let (range, _) = line.split_once(' ')?;
    let (start, _) = range.split_once('-')?;
    usize::from_str_radix(start, 16).ok()
}

fn count_field(line: &str, total: &mut RangeUse) {
    let Some((name, rest)) = line.split_once(':') else { return };
    let kib: u64 = rest.trim().trim_end_matches(" kB").parse().unwrap_or(0);
    let bytes = kib << 10;
    match name {
        "Rss" => total.resident_bytes += bytes,
        "AnonHugePages" => total.huge_bytes += bytes,
        // hugetlb pages are not part of Rss.
        "Private_Hugetlb" => {
            total.huge_bytes += bytes;
            total.resident_bytes += bytes;
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn byte(address: usize) -> u8 {
        // SAFETY: the tests only pass addresses of live reservations.
        unsafe { ptr::read_volatile(address as *const u8) }
    }

    /// Lets this thread's kernel be one that does not know `MADV_POPULATE_WRITE`: it answers `EINVAL`.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn forget_populate_write() {
        let line = |code: u32, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf, k };
        let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
        let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        let answer = libc::BPF_RET | libc::BPF_K;
        // The call's number, and the third of its arguments (`struct seccomp_data`).
        let filter = [
            line(load, 0, 0),
            line(equal, 3, libc::SYS_madvise as u32),
            line(load, 0, 16 + 2 * 8),
            line(equal, 1, libc::MADV_POPULATE_WRITE as u32),
            line(answer, 0, libc::SECCOMP_RET_ERRNO | libc::EINVAL as u32),
            line(answer, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
        // SAFETY: the kernel copies the filter, which lives until the call returns; the other arguments are numbers.
        let set = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
        };
        assert!(set, "{}", io::Error::last_os_error());
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[test]
    fn before_linux_5_14_there_are_no_reserved_huge_pages_and_others_are_touched() {
        std::thread::spawn(|| {
            forget_populate_write();
            let refused = Reservation::hugetlb(HUGE_PAGE_BYTES).expect_err("its touch could be a signal");
            assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
            let range = Reservation::anonymous(HUGE_PAGE_BYTES).expect("reserve");
            // SAFETY: the range is ours.
            unsafe { range.populate(0, HUGE_PAGE_BYTES) }.expect("touched");
            assert!(
                range_use(range.base(), range.len()).expect("/proc").resident_bytes >= HUGE_PAGE_BYTES as u64
            );
        })
        .join()
        .expect("the thread");
    }

    #[test]
    fn a_reservation_is_aligned_and_keeps_its_addresses() {
        let range = Reservation::anonymous(4 * HUGE_PAGE_BYTES).expect("reserve");
        assert!(range.base() % HUGE_PAGE_BYTES == 0);
        // SAFETY: the range is ours.
        unsafe { range.populate(0, HUGE_PAGE_BYTES).expect("populate") };
        // SAFETY: the range is ours and populated.
        unsafe { ptr::write_volatile(range.base() as *mut u8, 7) };
        assert_eq!(byte(range.base()), 7);
        assert!(
            range_use(range.base(), range.len()).expect("smaps").resident_bytes >= HUGE_PAGE_BYTES as u64
        );
        // SAFETY: nobody has a reference into it.
        unsafe { range.discard(0, range.len()).expect("discard") };
        assert_eq!(byte(range.base()), 0, "discarded pages read as zero");
        assert_eq!(range_use(range.base(), range.len()).expect("smaps").huge_bytes, 0);
    }

    #[test]
    fn touching_does_what_populating_does() {
        let range = Reservation::anonymous(2 * HUGE_PAGE_BYTES).expect("reserve");
        // SAFETY: the range is ours.
        unsafe { ptr::write_volatile((range.base() + BASE_PAGE_BYTES) as *mut u8, 7) };
        // SAFETY: the range is ours.
        unsafe { range.touch(0, HUGE_PAGE_BYTES) };
        let held = range_use(range.base(), range.len()).expect("smaps").resident_bytes;
        assert_eq!(held, HUGE_PAGE_BYTES as u64);
        assert_eq!(byte(range.base() + BASE_PAGE_BYTES), 7, "what was there stays");
    }

    #[test]
    fn neighbours_are_told_apart() {
        let ranges: Vec<_> =
            (0..4).map(|_| Reservation::anonymous(HUGE_PAGE_BYTES).expect("reserve")).collect();
        for range in &ranges {
            // SAFETY: the range is ours.
            unsafe { range.populate(0, HUGE_PAGE_BYTES).expect("populate") };
            let held = range_use(range.base(), range.len()).expect("smaps").resident_bytes;
            assert_eq!(held, HUGE_PAGE_BYTES as u64);
        }
    }
}
