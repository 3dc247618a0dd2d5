//! Any bytes as a region file. The header's checksum is repaired in half of the runs, so that the fuzzer gets past it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warmset_region::region_file::checksum;

#[path = "../../tests/support/region_file.rs"]
mod region_file;

fuzz_target!(|input: (bool, Vec<u8>)| {
    let (repair, mut file) = input;
    if repair && file.len() >= 40 {
        file[..8].copy_from_slice(b"WARMSET\x01");
        let len = file.len() as u64;
        file[16..24].copy_from_slice(&len.to_le_bytes());
        let sum = checksum(&file[..32]);
        file[32..40].copy_from_slice(&sum.to_le_bytes());
    }
    region_file::check(&file);
});
