//! The format of a named region's file. Pure: bytes in, entries or a reason out.
//!
//! ```text
//! 0      magic "WARMSET\x01"      8
//! 8      segment count            u64, little-endian as all numbers
//! 16     length of the file       u64
//! 24     XXH3-64 of the table     u64
//! 32     XXH3-64 of bytes 0..32   u64
//! 4096   table: per segment its length and the XXH3-64 of its bytes, u64 each
//! then, from the next multiple of 4096: each segment, padded with zeros to a multiple of 4096
//! ```
//! Offsets follow from the lengths, so no file can name bytes outside itself or the same bytes twice.
//! Invariant: [`parse_header`] and [`parse_table`] accept only what [`encode`] makes, and never allocate more
//! than the file is long.

use twox_hash::XxHash3_64;

/// Alignment of the table and of every segment.
pub const BLOCK_BYTES: u64 = 4096;
const MAGIC: [u8; 8] = *b"WARMSET\x01";
const HEADER_BYTES: usize = 40;
const ENTRY_BYTES: u64 = 16;

/// One segment of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Where its bytes begin, in bytes from the start of the file.
    pub offset: u64,
    /// How many there are.
    pub bytes: u64,
    /// Their XXH3-64.
    pub checksum: u64,
}

/// The checksum of some bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    /// Where they begin, in bytes from the start of the file.
    pub offset: u64,
    /// How many there are.
    pub bytes: u64,
    /// Their XXH3-64.
    pub checksum: u64,
}

impl Check {
    /// Whether it is true of `bytes`, which begin at `start`. Who opened the file saw that it lies within.
    pub(crate) fn holds(&self, start: u64, bytes: &[u8]) -> bool {
        let from = (self.offset - start) as usize;
        checksum(&bytes[from..from + self.bytes as usize]) == self.checksum
    }
}

/// What the header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Segments in the file.
    pub segments: u64,
    /// Bytes of the table.
    pub table_bytes: u64,
    table_checksum: u64,
    file_bytes: u64,
}

/// XXH3-64.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// Everything before the segments, for segments of these lengths and checksums; and where each begins.
#[must_use]
pub fn encode(segments: &[(u64, u64)]) -> (Vec<u8>, Vec<Entry>) {
    let data_start = (BLOCK_BYTES + segments.len() as u64 * ENTRY_BYTES).next_multiple_of(BLOCK_BYTES);
    let mut entries = Vec::with_capacity(segments.len());
    let mut table = Vec::with_capacity(segments.len() * ENTRY_BYTES as usize);
    let mut offset = data_start;
    for &(bytes, checksum) in segments {
        entries.push(Entry { offset, bytes, checksum });
        table.extend_from_slice(&bytes.to_le_bytes());
        table.extend_from_slice(&checksum.to_le_bytes());
        offset += bytes.next_multiple_of(BLOCK_BYTES);
    }
    let mut head = Vec::with_capacity(data_start as usize);
    head.extend_from_slice(&MAGIC);
    head.extend_from_slice(&(segments.len() as u64).to_le_bytes());
    head.extend_from_slice(&offset.to_le_bytes());
    head.extend_from_slice(&checksum(&table).to_le_bytes());
    head.extend_from_slice(&checksum(&head).to_le_bytes());
    head.resize(BLOCK_BYTES as usize, 0);
    head.extend_from_slice(&table);
    head.resize(data_start as usize, 0);
    (head, entries)
}

/// Reads the first bytes of a file of `file_bytes`.
///
/// # Errors
/// What is wrong with it.
pub fn parse_header(head: &[u8], file_bytes: u64) -> Result<Header, String> {
    if head.len() < HEADER_BYTES {
        return Err(format!("it has {} bytes, fewer than a header", head.len()));
    }
    if head[..8] != MAGIC {
        return Err("it does not begin as a region file of this version does".to_owned());
    }
    if checksum(&head[..32]) != number(head, 32) {
        return Err("the header's checksum is wrong".to_owned());
    }
    let (segments, stated) = (number(head, 8), number(head, 16));
    if stated != file_bytes {
        return Err(format!("it has {file_bytes} bytes instead of {stated}: truncated, or written to since"));
    }
    let table_bytes =
        segments.checked_mul(ENTRY_BYTES).filter(|&bytes| bytes <= file_bytes.saturating_sub(BLOCK_BYTES));
    let table_bytes =
        table_bytes.ok_or_else(|| format!("a table of {segments} segments does not fit in it"))?;
    Ok(Header { segments, table_bytes, table_checksum: number(head, 24), file_bytes })
}

/// Reads the table that follows the header.
///
/// # Errors
/// What is wrong with it.
pub fn parse_table(header: &Header, table: &[u8]) -> Result<Vec<Entry>, String> {
    if table.len() as u64 != header.table_bytes || checksum(table) != header.table_checksum {
        return Err("the table's checksum is wrong".to_owned());
    }
    let mut offset = (BLOCK_BYTES + header.table_bytes).next_multiple_of(BLOCK_BYTES);
    let mut entries = Vec::with_capacity(table.len() / ENTRY_BYTES as usize);
    for entry in table.chunks_exact(ENTRY_BYTES as usize) {
        let bytes = number(entry, 0);
        let end = bytes.checked_next_multiple_of(BLOCK_BYTES).and_then(|padded| offset.checked_add(padded));
        let end = end.filter(|&end| bytes > 0 && end <= header.file_bytes);
        entries.push(Entry { offset, bytes, checksum: number(entry, 8) });
        offset = end.ok_or_else(|| format!("segment {} has {bytes} bytes", entries.len() - 1))?;
    }
    if offset != header.file_bytes {
        return Err(format!("its segments end at {offset} of {} bytes", header.file_bytes));
    }
    Ok(entries)
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}
