//! Whether this process is the one that made something, or was forked from it: a fork shares rings and files with its
//! parent, but has none of its threads and none of the memory that is kept from it.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many forks lie between the first process that asked and this one.
static GENERATION: AtomicU64 = AtomicU64::new(0);
static WATCHED: Once = Once::new();

#[cfg(not(miri))]
extern "C" fn forked() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Calls `before` in each thread that is about to fork, with nothing of the program's between it and the fork, and
/// `after` when it has, in the parent and in the child. In the child no other thread runs, and locks that others had
/// stay locked. Later calls add more handlers.
///
/// # Errors
/// No memory.
#[cfg(not(miri))]
pub fn on_fork(before: Handler, after: Handler) -> std::io::Result<()> {
    register(Some(before), Some(after), Some(after))
}

#[cfg(not(miri))]
type Handler = extern "C" fn();

#[cfg(not(miri))]
fn register(
    before: Option<Handler>,
    in_parent: Option<Handler>,
    in_child: Option<Handler>,
) -> std::io::Result<()> {
    let c = |handler: Option<Handler>| handler.map(|handler| handler as unsafe extern "C" fn());
    // SAFETY: safe functions of the program, which live as long as it does; C's fork may call them in any thread.
    match unsafe { libc::pthread_atfork(c(before), c(in_parent), c(in_child)) } {
        0 => Ok(()),
        code => Err(std::io::Error::from_raw_os_error(code)),
    }
}

/// The process in which something was made.
#[derive(Debug, Clone, Copy)]
pub struct Origin {
    generation: u64,
}

impl Origin {
    /// This process.
    #[must_use]
    pub fn here() -> Self {
        WATCHED.call_once(|| {
            // The handler adds to an atomic, which a forked child may do. A failure (no memory) leaves forks unnoticed,
            // as if nobody had asked.
            #[cfg(not(miri))]
            let _ = register(None, None, Some(forked));
        });
        Self { generation: GENERATION.load(Ordering::Relaxed) }
    }

    /// Whether this is still that process. One load.
    #[must_use]
    pub fn is_here(self) -> bool {
        self.generation == GENERATION.load(Ordering::Relaxed)
    }
}
