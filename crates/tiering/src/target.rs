//! The process that is managed.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, getuid, pidfd_open};
use warmset_platform::sysinfo::Root;
use warmset_platform::sysinfo::process::{CAP_SYS_NICE, capabilities, has, process};

use crate::Error;

/// A process, told from a later one of the same number by its descriptor and its start time.
#[derive(Debug)]
pub struct Target {
    pid: u32,
    name: String,
    start_ticks: u64,
    descriptor: Option<OwnedFd>,
}

impl Target {
    /// Looks at a process.
    ///
    /// # Errors
    /// When there is none, it is a kernel thread, or it is another user's and this process may not manage it.
    pub fn new(pid: u32) -> Result<Self, Error> {
        let root = Root::live();
        let known = process(&root, pid).filter(|known| !known.ended).ok_or(Error::NoProcess(pid))?;
        if known.kernel_thread {
            return Err(Error::KernelThread { pid, name: known.name });
        }
        let user = known.user.unwrap_or(0);
        if user != getuid().as_raw() && !has(capabilities(&root), CAP_SYS_NICE) {
            return Err(Error::OtherUser { pid, name: known.name, user });
        }
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Error::NoProcess(pid))?;
        // Linux 5.3 and newer; without it the end is noticed by the next look.
        let descriptor = pidfd_open(number, PidfdFlags::empty()).ok();
        Ok(Self { pid, name: known.name, start_ticks: known.start_ticks, descriptor })
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it still runs.
    #[must_use]
    pub fn runs(&self) -> bool {
        process(&Root::live(), self.pid).is_some_and(|now| now.start_ticks == self.start_ticks && !now.ended)
    }

    /// Waits for its end, no longer than `timeout`, or until a signal comes in.
    pub fn wait(&self, timeout: Duration) {
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let mut waited = Vec::new();
        if let Some(descriptor) = &self.descriptor {
            waited.push(PollFd::new(descriptor, PollFlags::IN));
        }
        let _ = poll(&mut waited, Some(&timeout));
    }

    /// The descriptor, where the kernel has such.
    #[must_use]
    pub fn descriptor(&self) -> Option<impl AsFd + '_> {
        self.descriptor.as_ref()
    }
}
