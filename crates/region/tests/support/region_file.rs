//! What must hold for any bytes given to the parser of region files; shared with the fuzz target.

use warmset_region::region_file::{BLOCK_BYTES, checksum, parse_header, parse_table};

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

/// Makes the checksums and the length of damaged bytes right again, as far as they have a header and a table: what is
/// wrong beside them is found then, or not.
pub fn repair(file: &mut [u8]) {
    if file.len() < 40 {
        return;
    }
    let len = file.len() as u64;
    file[..8].copy_from_slice(b"WARMSET\x01");
    file[16..24].copy_from_slice(&len.to_le_bytes());
    let segments = u64::from_le_bytes(file[8..16].try_into().expect("8 bytes"));
    let table = segments.checked_mul(16).and_then(|bytes| BLOCK_BYTES.checked_add(bytes));
    if let Some(table) = table.and_then(|end| file.get(BLOCK_BYTES as usize..usize::try_from(end).ok()?)) {
        let sum = checksum(table);
        file[24..32].copy_from_slice(&sum.to_le_bytes());
    }
    let sum = checksum(&file[..32]);
    file[32..40].copy_from_slice(&sum.to_le_bytes());
}
