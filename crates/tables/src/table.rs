//! An open file: its batches and rows, shown in place.
//!
//! Invariant: the schema comes from bytes that were compared with their checksum, as all else that is shown does.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::{Block, MetadataVersion, root_as_footer, root_as_message};
use arrow_schema::SchemaRef;
use twox_hash::XxHash3_64;
use warmset_platform::io::DataFile;
use warmset_region::{Check, Extent, Prefetch, Region, Store as RegionStore};

use crate::array::without_padding;
use crate::catalog::Identity;
use crate::error::Error;
use crate::held::Bytes;
use crate::layout::{ArrayShape, Kind, Layout, Part};

const MAGIC: &[u8; 6] = b"ARROW1";
/// Of Arrow's format, which the writer writes.
const VERSION: MetadataVersion = MetadataVersion::V5;
/// Length of the footer and magic.
const TAIL_BYTES: u64 = 10;
/// The schema's message follows the magic, which the writer pads to this.
const HEAD_BYTES: u64 = 64;
/// A continuation mark, and the message's length.
const PREFIX_BYTES: u64 = 8;

/// What a file says of itself, checked.
pub(crate) struct Described {
    pub layout: Layout,
    pub schema: SchemaRef,
    pub dictionaries: Vec<Block>,
    pub batches: Vec<Block>,
    /// The segment of each batch.
    pub segments_of: Vec<usize>,
}

impl Described {
    pub fn read(file: &File, path: &Path) -> Result<Self, Error> {
        let failed = |error| Error::io("read", path, error);
        let bad = |problem: String| Error::bad(path, problem);
        let file_bytes = file.metadata().map_err(failed)?.len();
        let footer = read_footer(file, file_bytes).map_err(failed)?.map_err(bad)?;
        let footer = root_as_footer(&footer)
            .map_err(|error| Error::bad(path, format!("its footer cannot be read: {error}")))?;
        let pairs = footer.custom_metadata().into_iter().flatten();
        let metadata =
            pairs.filter_map(|pair| Some((pair.key()?.to_owned(), pair.value()?.to_owned()))).collect();
        let layout = Layout::parse(&metadata, file_bytes).map_err(bad)?;
        if footer.version() != VERSION {
            return Err(
                bad("its footer names another version of Arrow's format than was written".to_owned()),
            );
        }
        let head = read_part(file, &layout.parts[0]).map_err(failed)?;
        check_part(&head, &layout.parts[0]).map_err(bad)?;
        let schema = parse_schema(&head).map_err(bad)?;

        let mut described = Self {
            schema,
            dictionaries: footer.dictionaries().into_iter().flatten().copied().collect(),
            batches: footer.recordBatches().into_iter().flatten().copied().collect(),
            layout,
            segments_of: Vec::new(),
        };
        described.place_blocks().map_err(bad)?;
        Ok(described)
    }

    /// Finds the segment of each batch. The footer's blocks have no checksum: they have to follow each other through all
    /// parts, and [`framed`] compares the rest with bytes that have one.
    fn place_blocks(&mut self) -> Result<(), String> {
        let segments = self.layout.segments();
        let within = |block: &Block, part: &Part| {
            let (start, meta, body) = (block.offset(), i64::from(block.metaDataLength()), block.bodyLength());
            let end = start.checked_add(meta).and_then(|end| end.checked_add(body));
            start >= part.offset as i64
                && meta >= 8
                && body >= 0
                && end.is_some_and(|end| end <= part.end() as i64)
        };
        let elsewhere = || "its footer names batches elsewhere than the layout does".to_owned();
        match self.layout.kind {
            Kind::Array if self.batches.len() != 1 => return Err(elsewhere()),
            Kind::Array => return Ok(()),
            Kind::Table => {}
        }
        let mut end = self.layout.parts[0].end() as i64;
        for block in self.dictionaries.iter().chain(&self.batches) {
            let lengths = i64::from(block.metaDataLength()).checked_add(block.bodyLength());
            match lengths.and_then(|bytes| end.checked_add(bytes)).filter(|_| block.offset() == end) {
                Some(next) => end = next,
                None => return Err(elsewhere()),
            }
        }
        if self.layout.parts.last().is_none_or(|part| part.end() as i64 != end) {
            return Err(elsewhere());
        }
        let mut segment = 0;
        let mut segments_of = Vec::with_capacity(self.batches.len());
        for block in &self.batches {
            while segments.get(segment).is_some_and(|part| !within(block, part)) {
                segment += 1;
            }
            if segment == segments.len() {
                return Err(elsewhere());
            }
            segments_of.push(segment);
        }
        let dictionaries = match segments.first().filter(|_| self.layout.has_dictionaries) {
            Some(part) => self.dictionaries.iter().all(|block| within(block, part)),
            None => self.dictionaries.is_empty(),
        };
        if !dictionaries {
            return Err(elsewhere());
        }
        self.segments_of = segments_of;
        Ok(())
    }
}

/// A batch's message and body, if the message in these bytes is as long as the footer says: a wrong length would lead
/// into other bytes of the body.
fn framed(block: &Block, bytes: Buffer) -> Result<Buffer, String> {
    let frame = i64::from(block.metaDataLength()) - PREFIX_BYTES as i64;
    let says = (bytes.get(..4), bytes.get(4..8));
    if says == (Some(&[0xff; 4]), Some(&(frame as i32).to_le_bytes())) {
        return Ok(bytes);
    }
    Err(format!("its footer names a batch at offset {} that begins otherwise", block.offset()))
}

fn read_footer(file: &File, file_bytes: u64) -> io::Result<Result<Vec<u8>, String>> {
    if file_bytes < HEAD_BYTES + TAIL_BYTES {
        return Ok(Err(format!("it has {file_bytes} bytes, fewer than any Arrow file")));
    }
    let mut tail = [0; TAIL_BYTES as usize];
    file.read_exact_at(&mut tail, file_bytes - TAIL_BYTES)?;
    if tail[4..] != *MAGIC {
        return Ok(Err("it does not end as an Arrow file does: truncated, or something else".to_owned()));
    }
    let length = i32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]);
    let length = u64::try_from(length).ok().filter(|&length| length <= file_bytes - HEAD_BYTES - TAIL_BYTES);
    let Some(length) = length else {
        return Ok(Err("its footer is longer than it is".to_owned()));
    };
    let mut footer = vec![0; length as usize];
    file.read_exact_at(&mut footer, file_bytes - TAIL_BYTES - length)?;
    Ok(Ok(footer))
}

pub(crate) fn read_part(file: &File, part: &Part) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; part.bytes as usize];
    file.read_exact_at(&mut bytes, part.offset)?;
    Ok(bytes)
}

pub(crate) fn check_part(bytes: &[u8], part: &Part) -> Result<(), String> {
    if XxHash3_64::oneshot(bytes) == part.checksum {
        return Ok(());
    }
    Err(format!("the checksum of {} bytes at offset {} is wrong", part.bytes, part.offset))
}

/// The schema that a file begins with.
fn parse_schema(head: &[u8]) -> Result<SchemaRef, String> {
    let message = head.get((HEAD_BYTES + PREFIX_BYTES) as usize..).ok_or("it begins too short")?;
    let message = root_as_message(message).map_err(|error| format!("its schema cannot be read: {error}"))?;
    let schema = message.header_as_schema().ok_or("it does not begin with a schema")?;
    Ok(without_padding(&fb_to_schema(schema).into()))
}

/// A table or an array of a store.
pub struct Table {
    described: Described,
    region: Region,
    decoder: FileDecoder,
    file: File,
    path: PathBuf,
    identity: Identity,
    /// All rows of an array as one segment, when somebody asked for that.
    whole: OnceLock<Region>,
}

impl Table {
    pub(crate) fn open(store: &RegionStore, path: &Path) -> Result<Self, Error> {
        let failed = |error| Error::io("open", path, error);
        let file = File::open(path).map_err(failed)?;
        let identity = Identity::of(&file.metadata().map_err(failed)?);
        let described = Described::read(&file, path)?;
        let direct = DataFile::reopen_to_read(&file).map_err(failed)?;
        let region = store.open_extents(direct, path, extents(described.layout.segments()))?;
        let mut decoder = FileDecoder::new(described.schema.clone(), VERSION);
        // SAFETY: a file with this layout was written by this crate from valid arrays, and what is decoded was compared
        // with its checksum: the segment's, when it was read.
        decoder = unsafe { decoder.with_skip_validation(true) }.with_require_alignment(true);
        if described.layout.has_dictionaries {
            let bytes = Bytes::new(region.pin(0)?);
            for block in &described.dictionaries {
                let at = (block.offset() as u64 - described.layout.segments()[0].offset) as usize;
                let len = block.metaDataLength() as usize + block.bodyLength() as usize;
                let buffer = framed(block, bytes.slice(at, len).into_buffer());
                decoder.read_dictionary(block, &buffer.map_err(|problem| Error::bad(path, problem))?)?;
            }
        }
        let (path, whole) = (path.to_owned(), OnceLock::new());
        Ok(Self { described, region, decoder, file, path, identity, whole })
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    pub(crate) fn region_id(&self) -> u64 {
        self.region.id()
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.described.layout.kind
    }

    /// Its columns; an array has one.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.described.schema
    }

    /// Rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.described.layout.rows
    }

    /// Bytes of its batches or rows in memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.described.layout.segments().iter().map(|part| part.bytes).sum()
    }

    /// The shape, if it is an array.
    #[must_use]
    pub fn array(&self) -> Option<&ArrayShape> {
        self.described.layout.array.as_ref()
    }

    /// How many batches it has, or parts of rows.
    #[must_use]
    pub fn pieces(&self) -> usize {
        match self.array() {
            Some(_) if self.described.layout.segments().is_empty() => 0,
            Some(array) => array.rows().div_ceil(array.batch_rows) as usize,
            None => self.described.batches.len() - self.first_piece(),
        }
    }

    /// Batches before the first that has rows.
    fn first_piece(&self) -> usize {
        usize::from(self.described.layout.has_dictionaries)
    }

    fn segment_of(&self, piece: usize) -> usize {
        match self.array() {
            Some(array) => piece / (array.part_rows / array.batch_rows) as usize,
            None => self.described.segments_of[piece + self.first_piece()],
        }
    }

    pub(crate) fn piece_bytes_max(&self) -> u64 {
        self.described.layout.segments().iter().map(|part| part.bytes).max().unwrap_or_default()
    }

    /// Starts bringing a batch or part in.
    pub(crate) fn prefetch(&self, piece: usize) -> Result<Option<Prefetch>, Error> {
        Ok(self.region.prefetch(self.segment_of(piece) as u64)?)
    }

    /// Holds the bytes of a batch or part.
    pub(crate) fn hold(&self, piece: usize, prefetch: Option<Prefetch>) -> Result<Bytes, Error> {
        let pin = match prefetch {
            Some(prefetch) => prefetch.wait(),
            None => self.region.pin(self.segment_of(piece) as u64),
        };
        Ok(Bytes::new(pin?))
    }

    /// A batch in place.
    ///
    /// # Errors
    /// [`Error::Region`] if it cannot be read, is damaged, or there is no memory that is not held;
    /// [`Error::Invalid`] for one that there is not.
    pub fn batch(&self, n: usize) -> Result<RecordBatch, Error> {
        if self.kind() != Kind::Table || n >= self.pieces() {
            return Err(Error::Invalid(format!("{} has no batch {n}", self.path.display())));
        }
        self.decode(n, self.hold(n, None)?)
    }

    pub(crate) fn decode(&self, n: usize, bytes: Bytes) -> Result<RecordBatch, Error> {
        let block = &self.described.batches[n + self.first_piece()];
        let at =
            (block.offset() as u64 - self.described.layout.segments()[self.segment_of(n)].offset) as usize;
        let len = block.metaDataLength() as usize + block.bodyLength() as usize;
        let buffer = framed(block, bytes.slice(at, len).into_buffer());
        let buffer = buffer.map_err(|problem| Error::bad(&self.path, problem))?;
        let found = self.decoder.read_record_batch(block, &buffer)?;
        found.ok_or_else(|| Error::bad(&self.path, format!("batch {n} is not one")))
    }

    /// Some rows of an array in place: the bytes, the first row and how many.
    ///
    /// # Errors
    /// As [`Table::batch`].
    pub fn rows_of(&self, n: usize) -> Result<(Bytes, u64, u64), Error> {
        if self.kind() != Kind::Array || n >= self.pieces() {
            return Err(Error::Invalid(format!("{} has no part {n} of rows", self.path.display())));
        }
        Ok(self.cut_rows(n, &self.hold(n, None)?))
    }

    pub(crate) fn cut_rows(&self, n: usize, bytes: &Bytes) -> (Bytes, u64, u64) {
        let Some(array) = self.array() else { return (Bytes::empty(), 0, 0) };
        let first = n as u64 * array.batch_rows;
        let rows = array.batch_rows.min(array.rows() - first);
        let part = &self.described.layout.segments()[self.segment_of(n)];
        let start = array.data_offset + first * array.row_bytes - part.offset;
        (bytes.slice(start as usize, (rows * array.row_bytes) as usize), first, rows)
    }

    /// All rows of an array in one piece.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if they do not fit in the store's memory at once; [`Error::Invalid`] for a table; as
    /// [`Table::batch`].
    pub fn whole(&self, store: &RegionStore, budget_bytes: u64) -> Result<Bytes, Error> {
        let Some(array) = self.array() else {
            return Err(Error::Invalid(format!(
                "{} is a table: read it as one, or scan it",
                self.path.display()
            )));
        };
        let data_bytes = array.rows() * array.row_bytes;
        if data_bytes == 0 {
            return Ok(Bytes::empty());
        }
        let parts = self.described.layout.segments();
        let offset = parts[0].offset;
        if data_bytes > budget_bytes {
            return Err(Error::TooLarge {
                what: format!("the array in {}", self.path.display()),
                bytes: data_bytes,
                memory_bytes: budget_bytes,
                remedy: "scan it, or open the store with more memory",
            });
        }
        if self.whole.get().is_none() {
            let checks = parts.iter().map(check).collect();
            let bytes = array.data_offset + data_bytes - offset;
            let direct =
                DataFile::reopen_to_read(&self.file).map_err(|error| Error::io("open", &self.path, error))?;
            let region = store.open_extents(direct, &self.path, vec![Extent { offset, bytes, checks }])?;
            // Somebody else may have been faster; theirs is the same.
            drop(self.whole.set(region));
        }
        let region = self.whole.get().ok_or_else(|| Error::Invalid("the array is not open".to_owned()))?;
        let bytes = Bytes::new(region.pin(0)?);
        Ok(bytes.slice((array.data_offset - offset) as usize, data_bytes as usize))
    }
}

fn check(part: &Part) -> Check {
    Check { offset: part.offset, bytes: part.bytes, checksum: part.checksum }
}

fn extents(parts: &[Part]) -> Vec<Extent> {
    let extent = |part: &Part| Extent { offset: part.offset, bytes: part.bytes, checks: vec![check(part)] };
    parts.iter().map(extent).collect()
}
