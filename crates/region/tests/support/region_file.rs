//! What must hold for any bytes given to the parser of region files; shared with the fuzz target.

use warmset_region::region_file::{BLOCK_BYTES, parse_header, parse_table};

/// Parses `file` as a region file and panics if something is accepted that would be read outside of it.
pub fn check(file: &[u8]) -> bool {
    let len = file.len() as u64;
    let Ok(header) = parse_header(&file[..file.len().min(BLOCK_BYTES as usize)], len) else { return false };
    assert!(header.table_bytes <= len, "the table's buffer is no larger than the file");
    let start = (BLOCK_BYTES as usize).min(file.len());
    let end = (start + header.table_bytes as usize).min(file.len());
    let Ok(entries) = parse_table(&header, &file[start..end]) else { return false };
    assert_eq!(entries.len() as u64, header.segments);
    let mut at = BLOCK_BYTES;
    for entry in &entries {
        assert!(entry.offset >= at && entry.offset % BLOCK_BYTES == 0 && entry.bytes > 0);
        at = entry.offset + entry.bytes.next_multiple_of(BLOCK_BYTES);
    }
    assert!(at <= len);
    true
}
