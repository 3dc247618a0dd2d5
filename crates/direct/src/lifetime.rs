//! The ends of a process and the births of its children.

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::kernel::next;
use crate::{descriptors, fault, files, kernel, lock, served, stats};

type Handler = extern "C" fn();

/// A page that is zero again in a copy of the process, and 1 where this library knows the process.
static KNOWN: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());

extern "C" fn before_fork() {
    // The child may look at times that it can't bring up to date.
    files::date_all();
    descriptors::share_descriptions();
    if served::any() {
        lock::take_before_fork();
    }
}

extern "C" fn after_fork_in_parent() {
    if served::any() {
        lock::give_back_after_fork();
    }
}

extern "C" fn after_fork_in_child() {
    if served::any() {
        begin_copy();
        lock::give_back_after_fork();
    }
}

/// For a process that was copied by a way that does not tell (`_Fork`, `clone`): before the tables are used.
pub fn notice_copy() {
    // SAFETY: null, or a page that stays.
    let known = unsafe { KNOWN.load(Ordering::Acquire).as_ref() };
    if known.is_some_and(|known| known.load(Ordering::Relaxed) == 0) {
        lock::free_in_copy();
        begin_copy();
    }
}

fn begin_copy() {
    // SAFETY: null, or a page that stays.
    if let Some(known) = unsafe { KNOWN.load(Ordering::Acquire).as_ref() } {
        known.store(1, Ordering::Relaxed);
    }
    stats::restart_in_child();
    files::forget_dirt();
    descriptors::belong_to_this_process();
}

extern "C" fn on_exit() {
    before_end();
}

/// What destructors of other libraries wrote after that.
extern "C" fn on_unload() {
    files::date_all();
}

#[used]
#[unsafe(link_section = ".fini_array")]
static ON_UNLOAD: extern "C" fn() = on_unload;

/// Called once, when the library is loaded.
pub fn watch_forks_and_exit() {
    if let Some(page) = kernel::map_own_page() {
        KNOWN.store(page.cast(), Ordering::Release);
    }
    // Before this thread has a slot, which then needs no locked instruction.
    stats::prepare_barriers();
    begin_copy();
    fault::allow_faults();
    // A signal handler may be the first to call these, and finding libc's takes a lock.
    crate::calls::find_next();
    // The functions live as long as the process: a preloaded library is never unloaded.
    next!(__register_atfork: fn(Handler, Handler, Handler, *mut libc::c_void) -> libc::c_int;
        before_fork, after_fork_in_parent, after_fork_in_child, core::ptr::null_mut());
    // SAFETY: as above.
    unsafe { libc::atexit(on_exit) };
}

/// Before the process ends or becomes another program.
pub extern "C" fn before_end() {
    files::date_all();
    // A child of `vfork` had the descriptors of its parent.
    descriptors::share_descriptions();
    // In a child of `vfork` the counters are its parent's, which goes on.
    if served::stats_file().is_some() && descriptors::are_this_process_s() {
        stats::report();
    }
}
