//! What `warmset top` shows of a program whose files are being fetched.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use warmset_platform::status::{Published, publish};

use crate::fetch::Fetched;
use crate::profile::Profile;

#[derive(Debug, Default)]
struct Figures {
    fetched_bytes: AtomicU64,
    stale_bytes: AtomicU64,
    waiting: AtomicU64,
    fired: AtomicU64,
}

/// How far it is; shown until it is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    figures: Arc<Figures>,
    _published: Published,
}

impl Progress {
    /// Shows what is fetched of this profile for a process.
    pub fn publish(profile: &Profile, process: u32, waiting: usize) -> Self {
        let figures = Arc::new(Figures { waiting: AtomicU64::new(waiting as u64), ..Figures::default() });
        let source = Arc::clone(&figures);
        let (program, bytes) = (profile.program.display().to_string(), profile.bytes());
        let published = publish(move || {
            let now = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
            let status = json!({
                "kind": "prefetch", "target_pid": process, "program": program, "bytes": bytes,
                "fetched_bytes": now(&source.fetched_bytes), "stale_bytes": now(&source.stale_bytes),
                "triggers_waiting": now(&source.waiting), "triggers_fired": now(&source.fired),
            });
            Some(status.to_string())
        });
        Self { figures, _published: published }
    }

    /// Adds what was fetched.
    pub fn add(&self, fetched: &Fetched) {
        self.figures.fetched_bytes.fetch_add(fetched.bytes, Ordering::Relaxed);
        self.figures.stale_bytes.fetch_add(fetched.stale_bytes, Ordering::Relaxed);
    }

    /// So many triggers are left.
    pub fn wait_for(&self, triggers: usize) {
        self.figures.waiting.store(triggers as u64, Ordering::Relaxed);
    }

    /// So many of them have fired.
    pub fn fire(&self, triggers: usize) {
        self.figures.waiting.fetch_sub(triggers as u64, Ordering::Relaxed);
        self.figures.fired.fetch_add(triggers as u64, Ordering::Relaxed);
    }
}
