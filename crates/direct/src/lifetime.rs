//! The ends of a process and the births of its children.

use crate::{descriptors, files, lock, stats};

unsafe extern "C" {
    fn __register_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
        library: *mut libc::c_void,
    ) -> libc::c_int;
}

extern "C" fn before_fork() {
    descriptors::share_descriptions();
    lock::take_before_fork();
}

extern "C" fn after_fork_in_parent() {
    lock::give_back_after_fork();
}

extern "C" fn after_fork_in_child() {
    stats::restart_in_child();
    files::forget_dirt();
    descriptors::belong_to_this_process();
    lock::give_back_after_fork();
}

extern "C" fn on_exit() {
    before_end();
}

/// Called once, when the library is loaded.
pub fn watch_forks_and_exit() {
    descriptors::belong_to_this_process();
    stats::prepare_barriers();
    // A signal handler may be the first to call these, and finding libc's takes a lock.
    crate::calls::find_next();
    // SAFETY: the functions live as long as the process: a preloaded library is never unloaded.
    unsafe {
        __register_atfork(
            Some(before_fork),
            Some(after_fork_in_parent),
            Some(after_fork_in_child),
            core::ptr::null_mut(),
        );
        libc::atexit(on_exit);
    }
}

/// Before the process ends or becomes another program.
pub fn before_end() {
    files::date_all();
    // A child of `vfork` had the descriptors of its parent.
    descriptors::share_descriptions();
    // In a child of `vfork` the counters are its parent's, which goes on.
    if descriptors::are_this_process_s() {
        stats::report();
    }
}
