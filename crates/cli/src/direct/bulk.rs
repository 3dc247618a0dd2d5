//! `warmset direct cat` and `cp`: whole files, moved past the page cache by several threads.
//!
//! Invariant: offsets, lengths and addresses of direct transfers are multiples of [`DIRECT_ALIGN_BYTES`]; the end of a
//! file that is none goes through a plain descriptor, and so does everything where the file system refuses the rest. A
//! copy has its name only when it is whole and on the device.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use indicatif::ProgressBar;
use warmset_platform::io::{DIRECT_ALIGN_BYTES, DataFile, Publish};

use crate::progress::progress;

/// One transfer: long enough that the device sets the pace.
const BLOCK_BYTES: usize = 2 << 20;
/// Transfers under way at once.
const DEPTH: u64 = 4;
/// Blocks of each reader of `cat`: one is read while the other is written out.
const BLOCKS_PER_READER: usize = 2;

fn named(path: &Path) -> impl Fn(io::Error) -> io::Error {
    let path = path.to_owned();
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

// ---- One file, by two descriptors

/// Memory for direct transfers.
struct Block {
    memory: Vec<u8>,
    start: usize,
    filled: usize,
}

impl Block {
    fn new() -> Self {
        let memory = vec![0; BLOCK_BYTES + DIRECT_ALIGN_BYTES];
        let start = memory.as_ptr().align_offset(DIRECT_ALIGN_BYTES);
        Self { memory, start, filled: 0 }
    }

    fn room(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + BLOCK_BYTES]
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.filled]
    }
}

struct Source {
    plain: File,
    direct: DataFile,
    len: u64,
}

impl Source {
    /// Opens a file; `None` if it is something else, which is read as a stream.
    fn open(path: &Path) -> io::Result<(File, Option<Self>)> {
        let plain = File::open(path)?;
        let metadata = plain.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // What the kernel makes up when it is read has no length.
        if !metadata.is_file() || metadata.len() == 0 {
            return Ok((plain, None));
        }
        let source = Self { plain: plain.try_clone()?, direct: DataFile::open(path)?, len: metadata.len() };
        Ok((plain, Some(source)))
    }

    /// Fills a block from `offset`, as far as the file goes.
    fn read(&self, block: &mut Block, offset: u64) -> io::Result<()> {
        let wanted = (self.len - offset).min(BLOCK_BYTES as u64) as usize;
        block.filled = 0;
        while block.filled < wanted {
            let (at, filled) = (offset + block.filled as u64, block.filled);
            let room = &mut block.room()[filled..];
            let aligned = filled % DIRECT_ALIGN_BYTES == 0;
            let got = match if aligned { self.direct.read_at(room, at) } else { self.plain.read_at(room, at) }
            {
                // Only whole disk blocks of another size, or none at all.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.plain.read_at(room, at),
                other => other,
            };
            match got {
                Ok(0) => return Err(io::Error::other("it became shorter while it was read")),
                Ok(count) => block.filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        block.filled = wanted;
        Ok(())
    }
}

struct Target<'a> {
    plain: &'a File,
    direct: DataFile,
}

impl Target<'_> {
    fn write(&self, block: &Block, offset: u64) -> io::Result<()> {
        let bytes = block.bytes();
        let whole = bytes.len() / DIRECT_ALIGN_BYTES * DIRECT_ALIGN_BYTES;
        let mut done = 0;
        while done < whole {
            match self.direct.write_at(&bytes[done..whole], offset + done as u64) {
                Ok(count) if count > 0 && (done + count) % DIRECT_ALIGN_BYTES == 0 => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() != io::ErrorKind::InvalidInput => return Err(error),
                // Refused, or cut short inside a disk block: the rest goes the plain way.
                _ => break,
            }
        }
        self.plain.write_all_at(&bytes[done..], offset + done as u64)
    }
}

// ---- Progress

// ---- cat

/// Writes files to stdout.
pub fn cat(files: &[PathBuf]) -> io::Result<ExitCode> {
    let out = io::stdout();
    let on_terminal = out.is_terminal();
    let mut out = out.lock();
    for path in files {
        let (mut plain, source) = Source::open(path).map_err(named(path))?;
        let Some(source) = source else {
            io::copy(&mut plain, &mut out).map_err(named(path))?;
            continue;
        };
        let bar = progress(source.len, on_terminal);
        stream(&source, &mut out, &bar).map_err(|error| {
            // A reader of the output that has gone is no error of the file.
            if error.kind() == io::ErrorKind::BrokenPipe { error } else { named(path)(error) }
        })?;
        bar.finish_and_clear();
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Reader `n` reads the blocks `n`, `n + DEPTH`, ...; they are taken from the readers in turn.
fn stream(source: &Source, out: &mut impl Write, bar: &ProgressBar) -> io::Result<()> {
    thread::scope(|scope| {
        let mut readers = Vec::new();
        for first in 0..DEPTH {
            let (filled, full) = sync_channel(BLOCKS_PER_READER);
            let (give_back, empty) = sync_channel(BLOCKS_PER_READER);
            scope.spawn(move || read_blocks(source, first, &filled, &empty));
            readers.push((full, give_back));
        }
        let blocks = source.len.div_ceil(BLOCK_BYTES as u64);
        for index in 0..blocks {
            let (full, give_back) = &readers[(index % DEPTH) as usize];
            let block: Block = full.recv().map_err(|_| io::Error::other("a reader ended"))??;
            out.write_all(block.bytes())?;
            bar.inc(block.filled as u64);
            // The reader may have ended after its last block.
            let _ = give_back.send(block);
        }
        Ok(())
    })
}

fn read_blocks(source: &Source, first: u64, filled: &SyncSender<io::Result<Block>>, empty: &Receiver<Block>) {
    let mut fresh = BLOCKS_PER_READER;
    let mut offset = first * BLOCK_BYTES as u64;
    while offset < source.len {
        let mut block = if fresh > 0 {
            fresh -= 1;
            Block::new()
        } else {
            // Nobody takes any more: the output is gone.
            let Ok(block) = empty.recv() else { return };
            block
        };
        let read = source.read(&mut block, offset).map(|()| block);
        let failed = read.is_err();
        if filled.send(read).is_err() || failed {
            return;
        }
        offset += DEPTH * BLOCK_BYTES as u64;
    }
}

// ---- cp

/// Copies a file.
pub fn copy(source_path: &Path, target: &Path) -> io::Result<ExitCode> {
    let (mut plain, source) = Source::open(source_path).map_err(named(source_path))?;
    let metadata = plain.metadata()?;
    if !metadata.is_file() {
        let shown = source_path.display();
        return Err(io::Error::other(format!(
            "{shown}: only files can be copied; `warmset direct cat` reads streams"
        )));
    }
    let target = place(source_path, target)?;
    if std::fs::metadata(&target).is_ok_and(|old| (old.dev(), old.ino()) == (metadata.dev(), metadata.ino()))
    {
        let (one, two) = (source_path.display(), target.display());
        return Err(io::Error::other(format!("{one} and {two} are the same file")));
    }
    let mut publish = Publish::begin(&target).map_err(named(&target))?;
    if let Some(source) = source {
        let bar = progress(source.len, false);
        move_all(&source, publish.file(), &bar)
            .map_err(|(of_source, error)| named(if of_source { source_path } else { &target })(error))?;
        bar.finish();
    } else {
        io::copy(&mut plain, publish.file()).map_err(named(&target))?;
    }
    publish.file().set_permissions(metadata.permissions()).map_err(named(&target))?;
    publish.commit().map_err(named(&target))?;
    Ok(ExitCode::SUCCESS)
}

/// The copy's path: in the directory, if that is what was named, and behind a link, if there is one.
fn place(source: &Path, target: &Path) -> io::Result<PathBuf> {
    if target.is_dir() {
        let name = source.file_name().ok_or_else(|| named(source)(io::ErrorKind::InvalidInput.into()))?;
        return Ok(target.join(name));
    }
    Ok(target.canonicalize().unwrap_or_else(|_| target.to_owned()))
}

/// Moves all bytes; an error says whether it is the source's.
fn move_all(source: &Source, plain: &File, bar: &ProgressBar) -> Result<(), (bool, io::Error)> {
    let target = Target { plain, direct: DataFile::reopen(plain).map_err(|error| (false, error))? };
    // A full disk is found out before anything is moved.
    target.direct.allocate(0, source.len).map_err(|error| (false, error))?;
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let work = || -> Result<(), (bool, io::Error)> {
        let mut block = Block::new();
        while !failed.load(Ordering::Relaxed) {
            let offset = next.fetch_add(BLOCK_BYTES as u64, Ordering::Relaxed);
            if offset >= source.len {
                break;
            }
            let moved = source.read(&mut block, offset).map_err(|error| (true, error));
            let moved = moved.and_then(|()| target.write(&block, offset).map_err(|error| (false, error)));
            if moved.is_err() {
                failed.store(true, Ordering::Relaxed);
                return moved;
            }
            bar.inc(block.filled as u64);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..DEPTH).map(|_| scope.spawn(work)).collect();
        let ended = |worker: thread::ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or_else(|_| Err((false, io::Error::other("a thread ended"))))
        };
        let results: Vec<_> = workers.into_iter().map(ended).collect();
        results.into_iter().collect()
    })
}
