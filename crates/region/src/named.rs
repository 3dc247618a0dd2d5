//! Named regions: saved to a file that other runs open.
//!
//! Invariant: a file under its name is whole. What opens it trusts nothing: header and table are checked on
//! opening, each segment's checksum when it is promoted, and the file is never mapped (somebody may truncate it).

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use warmset_platform::io::{DataFile, Publish};
use warmset_platform::units;

use crate::FRAME_BYTES;
use crate::backing::Backing;
use crate::error::{Error, is_full_disk};
use crate::handle::{Pin, Region};
use crate::names::Names;
use crate::region_file::{BLOCK_BYTES, Entry, checksum, encode, parse_header, parse_table};
use crate::segment::Segment;
use crate::store::Store;

impl Region {
    /// Writes all segments to a file that appears as `path` once it is whole and synced, in place of what was
    /// there. Every segment must be sealed; abandoned ones (see [`Draft`](crate::Draft)) are left out, and those
    /// after them move up.
    ///
    /// # Errors
    /// [`Error::NoSpace`] and [`Error::Io`] for the file; those of [`Region::pin`] for segments.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let kept = self.kept_segments()?;
        let summaries =
            kept.iter().map(|&segment| Summary::of(&self.pin(segment)?)).collect::<Result<Vec<_>, _>>()?;
        let lengths: Vec<(u64, u64)> =
            summaries.iter().map(|summary| (summary.bytes, summary.checksum)).collect();
        let (head, entries) = encode(&lengths);
        let failed = |error| save_error(self.names(), path, error);
        let mut publish = Publish::begin(path).map_err(failed)?;
        publish.file().write_all(&head).map_err(failed)?;
        for (segment, entry) in kept.into_iter().zip(&entries) {
            let pin = self.pin(segment)?;
            write_segment(publish.file(), &pin, entry).map_err(failed)?;
        }
        publish.commit().map_err(failed)
    }
}

/// What the table says of a segment.
struct Summary {
    bytes: u64,
    checksum: u64,
}

impl Summary {
    fn of(pin: &Pin) -> Result<Self, Error> {
        if pin.is_empty() {
            return Err(Error::misuse("a region with an empty segment cannot be saved"));
        }
        Ok(Self { bytes: pin.len() as u64, checksum: checksum(pin) })
    }
}

fn write_segment(file: &mut impl Write, bytes: &[u8], entry: &Entry) -> io::Result<()> {
    let padding = entry.bytes.next_multiple_of(BLOCK_BYTES) - entry.bytes;
    file.write_all(bytes)?;
    file.write_all(&[0; BLOCK_BYTES as usize][..padding as usize])
}

fn save_error(names: &Names, path: &Path, error: io::Error) -> Error {
    if is_full_disk(&error) {
        let dir = path.parent().unwrap_or(path);
        Error::no_space(names, dir, format!("{error} (saving {})", path.display()))
    } else {
        Error::io("save a region", path, error)
    }
}

impl Store {
    /// Opens a saved region; its segments are absent until they are read.
    ///
    /// # Errors
    /// [`Error::BadFile`] for a file that is truncated, damaged or not a region file; [`Error::Io`] if it
    /// cannot be opened; [`Error::Misuse`] if it has a segment larger than this store's pool.
    pub fn open_saved(&self, path: &Path) -> Result<Region, Error> {
        self.shared.check_open()?;
        let file = DataFile::open_buffered(path).map_err(|error| Error::io("open a region", path, error))?;
        let entries = read_entries(&file, path)?;
        let pool_bytes = self.shared.pool.segment_bytes_max();
        if let Some(large) = entries.iter().find(|entry| entry.bytes > pool_bytes) {
            let needed = large.bytes.next_multiple_of(FRAME_BYTES as u64);
            return Err(Error::misuse(format!(
                "{} has a segment of {}: `{}` must be at least {}",
                path.display(),
                units::bytes(large.bytes),
                self.shared.config.names.budget_bytes_max,
                units::bytes(needed)
            )));
        }
        // The file that was checked, whatever has that name by now.
        let file =
            DataFile::reopen_to_read(&file).map_err(|error| Error::io("open a region", path, error))?;
        let (backing, device) = Backing::saved(Arc::clone(&self.shared.devices), file, path.to_owned());
        let table = self.shared.regions.add(backing);
        table.core.live.store(entries.len() as u64, Ordering::Release);
        for entry in entries {
            self.shared.clock.add_live_bytes(entry.bytes);
            table.segments.push(Arc::new(Segment::saved(
                self.shared.next_key(),
                &table.core,
                table.segments.count(),
                entry,
                device,
                self.shared.clock.now(),
            )));
        }
        Ok(Region::of(Arc::clone(&self.shared), table.core.id))
    }
}

fn read_entries(file: &DataFile, path: &Path) -> Result<Vec<Entry>, Error> {
    let failed = |error| Error::io("open a region", path, error);
    let bad = |problem| Error::BadFile { path: path.to_owned(), problem };
    let file_bytes = file.len().map_err(failed)?;
    let head = read_part(file, 0, BLOCK_BYTES.min(file_bytes)).map_err(failed)?;
    let header = parse_header(&head, file_bytes).map_err(bad)?;
    let table = read_part(file, BLOCK_BYTES, header.table_bytes).map_err(failed)?;
    parse_table(&header, &table).map_err(bad)
}

/// As many of these bytes as the file has.
fn read_part(file: &DataFile, start: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut part = vec![0; bytes as usize];
    let mut filled = 0;
    while filled < part.len() {
        match file.read_at(&mut part[filled..], start + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    part.truncate(filled);
    Ok(part)
}
