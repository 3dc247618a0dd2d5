//! Any bytes as a profile. The header is repaired in half of the runs, so that the fuzzer gets past it. What is accepted
//! must survive writing and reading, and must not ask for more than its files hold.
#![no_main]

use libfuzzer_sys::fuzz_target;
use twox_hash::XxHash3_64;
use warmset_prefetch::{Profile, VERSION, pieces};

const HEADER_BYTES: usize = 20;

fuzz_target!(|input: (bool, Vec<u8>)| {
    let (repair, mut bytes) = input;
    if repair && bytes.len() >= HEADER_BYTES {
        bytes[..8].copy_from_slice(b"WARMSETP");
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let sum = XxHash3_64::oneshot(&bytes[HEADER_BYTES..]);
        bytes[12..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
    }
    let Ok(profile) = Profile::parse(&bytes) else { return };
    let again = Profile::parse(&profile.to_bytes().expect("it was read from bytes")).expect("it was valid");
    assert_eq!(again, profile);
    assert_eq!(profile.divided().map(|(_, reads)| reads.len()).sum::<usize>(), profile.reads.len());
    // Many pieces are slow, not wrong.
    let limited = pieces(&profile.files, &profile.reads, 64 << 20);
    for piece in limited {
        assert!(piece.start + piece.bytes <= profile.files[piece.file].size_bytes);
    }
});
