//! Files and queues without a kernel: for a scheduler that a seed drives (`--cfg shuttle`), and for Miri.
//!
//! A [`Disk`] is a directory in memory. It has so many bytes, and what was not synced is not in its image. A queue
//! carries its requests out one by one in any order, on a thread of its own.
//!
//! Invariant: of two requests for the same bytes one is over before the other begins, as the store has them.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use super::queue::{Op, Request, stalled};

#[cfg(shuttle)]
use shuttle::{sync as scheduled, thread};
#[cfg(not(shuttle))]
use std::{sync as scheduled, thread};

/// Alignment in bytes that offsets, lengths and addresses need for direct I/O.
pub const DIRECT_ALIGN_BYTES: usize = 4096;

/// A directory, and the disk that it is alone on.
#[derive(Debug, Default)]
pub struct Disk {
    names: Mutex<BTreeMap<PathBuf, Arc<Inode>>>,
    /// What a crash leaves.
    durable: Mutex<BTreeMap<PathBuf, Vec<u8>>>,
    capacity_bytes: AtomicU64,
    taken_bytes: AtomicU64,
    number: u64,
    /// Files can be made.
    works: AtomicBool,
}

#[derive(Debug)]
struct Inode {
    bytes: Mutex<Vec<u8>>,
    allocated: AtomicU64,
    disk: Arc<Disk>,
}

static DISKS: LazyLock<Mutex<HashMap<PathBuf, Arc<Disk>>>> = LazyLock::new(Mutex::default);
static NUMBER: AtomicU64 = AtomicU64::new(1);

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Never held while anybody else runs.
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Disk {
    /// Makes an empty one, as this directory.
    pub fn make(dir: &Path, capacity_bytes: u64) -> Arc<Self> {
        let disk = Arc::new(Self {
            capacity_bytes: AtomicU64::new(capacity_bytes),
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            works: AtomicBool::new(true),
            ..Self::default()
        });
        locked(&DISKS).insert(dir.to_owned(), Arc::clone(&disk));
        disk
    }

    /// Nobody finds it any more.
    pub fn forget(dir: &Path) {
        locked(&DISKS).remove(dir);
    }

    fn of(dir: &Path) -> io::Result<Arc<Self>> {
        locked(&DISKS).get(dir).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn of_file(path: &Path) -> io::Result<Arc<Self>> {
        Self::of(path.parent().unwrap_or(path))
    }

    /// Others take space, or give some back.
    pub fn set_capacity(&self, bytes: u64) {
        self.capacity_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether files can be made.
    pub fn set_works(&self, works: bool) {
        self.works.store(works, Ordering::Relaxed);
    }

    /// Bytes of files.
    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Ordering::Relaxed)
    }

    /// What is there after a crash at this moment, as a directory of its own.
    pub fn image(&self, dir: &Path) -> Arc<Self> {
        let disk = Self::make(dir, u64::MAX);
        for (path, bytes) in locked(&self.durable).iter() {
            let name = dir.join(path.file_name().unwrap_or_default());
            locked(&disk.names).insert(name, Inode::new(&disk, bytes.clone()));
        }
        disk
    }

    fn take(&self, bytes: u64) -> io::Result<()> {
        let capacity = self.capacity_bytes.load(Ordering::Relaxed);
        let taken = self.taken_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            taken.checked_add(bytes).filter(|&total| total <= capacity)
        });
        taken.map(drop).map_err(|_| io::ErrorKind::StorageFull.into())
    }
}

impl Inode {
    fn new(disk: &Arc<Disk>, bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { bytes: Mutex::new(bytes), allocated: AtomicU64::new(0), disk: Arc::clone(disk) })
    }
}

impl Drop for Inode {
    fn drop(&mut self) {
        self.disk.taken_bytes.fetch_sub(self.allocated.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// An open file of cached bytes.
#[derive(Debug)]
pub struct DataFile(Arc<Inode>);

impl DataFile {
    /// A file without a name.
    pub fn anonymous(dir: &Path) -> io::Result<Self> {
        let disk = Disk::of(dir)?;
        if !disk.works.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(Self(Inode::new(&disk, Vec::new())))
    }

    /// A file that has one.
    pub fn open_buffered(path: &Path) -> io::Result<Self> {
        let found = locked(&Disk::of_file(path)?.names).get(path).cloned();
        found.map(Self).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The same file once more.
    pub fn reopen_to_read(file: &Self) -> io::Result<Self> {
        Ok(Self(Arc::clone(&file.0)))
    }

    /// Always.
    pub fn is_direct(&self) -> bool {
        true
    }

    /// Length in bytes.
    pub fn len(&self) -> io::Result<u64> {
        Ok(locked(&self.0.bytes).len() as u64)
    }

    /// Takes space.
    pub fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let grown = (offset + len).saturating_sub(self.0.allocated.load(Ordering::Relaxed));
        self.0.disk.take(grown)?;
        self.0.allocated.fetch_add(grown, Ordering::Relaxed);
        Ok(())
    }

    /// What is left on the disk.
    pub fn free_bytes(&self) -> io::Result<u64> {
        let disk = &self.0.disk;
        Ok(disk.capacity_bytes.load(Ordering::Relaxed).saturating_sub(disk.taken_bytes()))
    }

    /// The disk's number.
    pub fn file_system(&self) -> io::Result<u64> {
        Ok(self.0.disk.number)
    }

    /// Reads what there is.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let file = locked(&self.0.bytes);
        let there = file.get(offset as usize..).unwrap_or_default();
        let count = there.len().min(bytes.len());
        bytes[..count].copy_from_slice(&there[..count]);
        Ok(count)
    }

    /// Writes all of it.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut file = locked(&self.0.bytes);
        let end = offset as usize + bytes.len();
        if file.len() < end {
            file.resize(end, 0);
        }
        file[offset as usize..end].copy_from_slice(bytes);
        Ok(bytes.len())
    }
}

/// A file that appears under its name whole or not at all.
#[derive(Debug)]
pub struct Publish {
    file: Appended,
    target: PathBuf,
}

/// What is written to it.
#[derive(Debug)]
pub struct Appended(Arc<Inode>);

impl io::Write for Appended {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.disk.take(bytes.len() as u64)?;
        self.0.allocated.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        locked(&self.0.bytes).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Publish {
    /// Starts a file.
    pub fn begin(target: &Path) -> io::Result<Self> {
        let disk = Disk::of_file(target)?;
        Ok(Self { file: Appended(Inode::new(&disk, Vec::new())), target: target.to_owned() })
    }

    /// To write to.
    pub fn file(&mut self) -> &mut Appended {
        &mut self.file
    }

    /// Syncs the bytes, names the file, and syncs the name.
    pub fn commit(self) -> io::Result<()> {
        let inode = self.file.0;
        let synced = locked(&inode.bytes).clone();
        thread::yield_now();
        locked(&inode.disk.names).insert(self.target.clone(), Arc::clone(&inode));
        thread::yield_now();
        locked(&inode.disk.durable).insert(self.target, synced);
        Ok(())
    }
}

/// There is no ring here.
#[derive(Debug)]
pub enum UringQueue {}

impl UringQueue {
    pub(super) fn start() -> io::Result<Self> {
        Err(io::Error::other("no io_uring in a simulation"))
    }

    pub(super) fn submit(&self, _: Request) {
        match *self {}
    }

    pub(super) fn hasten(&self, _: u64) {
        match *self {}
    }
}

/// One thread that carries requests out, in any order.
pub struct ThreadQueue {
    shared: Arc<(scheduled::Mutex<Waiting>, scheduled::Condvar)>,
    worker: Option<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Waiting {
    requests: Vec<Request>,
    closing: bool,
}

impl ThreadQueue {
    pub(super) fn start() -> io::Result<Self> {
        let shared = Arc::new((scheduled::Mutex::new(Waiting::default()), scheduled::Condvar::new()));
        let queue = Arc::clone(&shared);
        let worker = thread::Builder::new().name("warmset-io".into()).spawn(move || {
            let (waiting, wake) = &*queue;
            loop {
                let mut waiting = waiting.lock().expect("no panic");
                while waiting.requests.is_empty() && !waiting.closing {
                    waiting = wake.wait(waiting).expect("no panic");
                }
                if waiting.requests.is_empty() {
                    return;
                }
                let next = any_of(waiting.requests.len());
                let request = waiting.requests.swap_remove(next);
                drop(waiting);
                let outcome = transfer(&request);
                request.finish(outcome);
            }
        })?;
        Ok(Self { shared, worker: Some(worker) })
    }

    pub(super) fn submit(&self, request: Request) {
        self.shared.0.lock().expect("no panic").requests.push(request);
        self.shared.1.notify_one();
    }

    pub(super) fn hasten(&self, _: u64) {}
}

impl Drop for ThreadQueue {
    fn drop(&mut self) {
        self.shared.0.lock().expect("no panic").closing = true;
        self.shared.1.notify_all();
        if let Some(worker) = self.worker.take().filter(|it| it.thread().id() != thread::current().id()) {
            drop(worker.join());
        }
    }
}

#[cfg(shuttle)]
fn any_of(count: usize) -> usize {
    use shuttle::rand::Rng;
    shuttle::rand::thread_rng().gen_range(0..count)
}

#[cfg(not(shuttle))]
fn any_of(_: usize) -> usize {
    0
}

fn transfer(request: &Request) -> io::Result<()> {
    let moved = match request.op {
        Op::Read => {
            // SAFETY: `IoQueue::submit`'s caller promised that this memory is mapped and nobody else's until `done`
            // has run.
            let bytes = unsafe { std::slice::from_raw_parts_mut(request.address as *mut u8, request.len) };
            request.file.read_at(bytes, request.offset)?
        }
        Op::Write => {
            // SAFETY: as above; for a write the memory is promised not to change.
            let bytes = unsafe { std::slice::from_raw_parts(request.address as *const u8, request.len) };
            request.file.write_at(bytes, request.offset)?
        }
    };
    if moved < request.len { Err(stalled(request.op)) } else { Ok(()) }
}
