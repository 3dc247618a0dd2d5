//! Any bytes as a region file. In half of the runs its checksums are made right, and its table short enough to be in the
//! file, so that the fuzzer gets to the entries.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/support/region_file.rs"]
mod region_file;

fuzz_target!(|input: (bool, Vec<u8>)| {
    let (repair, mut file) = input;
    if repair && file.len() > 4096 {
        let table_max = (file.len() as u64 - 4096) / 16;
        let segments = u64::from_le_bytes(file[8..16].try_into().expect("8 bytes")) % (table_max + 1);
        file[8..16].copy_from_slice(&segments.to_le_bytes());
        region_file::repair(&mut file);
    }
    region_file::check(&file);
});
