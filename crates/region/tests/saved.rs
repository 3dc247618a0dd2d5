//! Saved regions: what comes back, and what is refused.

use std::fs;

use proptest::prelude::*;
use warmset_region::region_file::{encode, parse_header, parse_table};
use warmset_region::{Config, Error, FRAME_BYTES, Region, Store};

mod support;
use support::{FRAME, assert_bytes, bytes, dir, fill};

#[path = "support/region_file.rs"]
mod region_file;

fn filled(store: &Store, segments: u64) -> Region {
    let region = store.create_region().expect("region");
    fill(&region, segments, len);
    region
}

fn len(n: u64) -> usize {
    1 + (n as usize * 300_007) % (2 * FRAME_BYTES)
}

#[test]
fn a_saved_region_comes_back_in_another_store() {
    let dir = dir();
    let path = dir.path().join("region");
    let store = Store::open(Config::new(dir.path(), 8 * FRAME)).expect("open");
    filled(&store, 20).save(&path).expect("save");
    store.close();
    let store = Store::open(Config::new(dir.path(), 8 * FRAME)).expect("open");
    let region = store.open_saved(&path).expect("open");
    for n in (0..20).chain((0..20).rev()) {
        assert_bytes(&region.pin(n).expect("pin"), n, len(n));
    }
    assert_eq!(store.stats().written_bytes_total, 0, "a clean segment is not written again");
    // Everything held: the rest is read outside the pool.
    let pins: Vec<_> = (0..20).map(|n| region.pin(n).expect("pin")).collect();
    for (n, pin) in pins.iter().enumerate() {
        assert_bytes(pin, n as u64, len(n as u64));
    }
    assert!(store.stats().mapped_total > 0);
    assert_eq!(fs::read_dir(dir.path()).expect("dir").count(), 1);
}

#[test]
fn what_stays_does_not_count_as_streamed() {
    let dir = dir();
    let path = dir.path().join("region");
    let store = Store::open(Config::new(dir.path(), 32 * FRAME)).expect("open");
    let region = store.create_region().expect("region");
    fill(&region, 24, |_| FRAME_BYTES);
    region.save(&path).expect("save");
    for (frames, streams) in [(32, false), (8, true)] {
        let store = Store::open(Config::new(dir.path(), frames * FRAME)).expect("open");
        let region = store.open_saved(&path).expect("open");
        (0..24).for_each(|n| drop(region.pin(n).expect("pin")));
        let stats = store.stats();
        assert_eq!(stats.promotions_total, 24);
        assert_eq!(stats.streamed_total > 0, streams, "{} of {frames} frames", stats.streamed_total);
        assert!(stats.streamed_total < 24, "the first found room");
    }
}

#[test]
fn abandoned_segments_are_not_saved() {
    let dir = dir();
    let store = Store::open(Config::new(dir.path(), 16 * FRAME)).expect("open");
    let region = store.create_region().expect("region");
    drop(region.draft(FRAME_BYTES).expect("draft"));
    region.write(bytes(1, len(1))).expect("write");
    drop(region.draft(FRAME_BYTES).expect("draft"));
    region.write(bytes(2, len(2))).expect("write");
    let path = dir.path().join("region");
    region.save(&path).expect("save");
    let opened = store.open_saved(&path).expect("open");
    assert_eq!(opened.segments().expect("segments"), 2);
    assert_bytes(&opened.pin(0).expect("pin"), 1, len(1));
    assert_bytes(&opened.pin(1).expect("pin"), 2, len(2));
}

#[test]
fn damage_is_named() {
    let dir = dir();
    let path = dir.path().join("region");
    let store = Store::open(Config::new(dir.path(), 8 * FRAME)).expect("open");
    filled(&store, 3).save(&path).expect("save");
    let good = fs::read(&path).expect("read");
    let refused = |damaged: &[u8]| {
        fs::write(&path, damaged).expect("write");
        store.open_saved(&path).expect_err("damaged").to_string()
    };
    assert!(refused(&good[..good.len() - 4096]).contains("truncated"));
    assert!(refused(&good[..100]).contains("truncated"));
    assert!(refused(&[]).contains("fewer than a header"));
    assert!(
        refused(b"PAR1 and so on, a file of something else altogether")
            .contains("does not begin as a region file")
    );
    let mut header = good.clone();
    header[9] ^= 1;
    assert!(refused(&header).contains("header's checksum"));
    let mut table = good.clone();
    table[4096 + 3] ^= 1;
    assert!(refused(&table).contains("table's checksum"));
    let missing = store.open_saved(&dir.path().join("nothing")).expect_err("missing");
    assert!(missing.to_string().contains("nothing"), "{missing}");

    let mut data = good.clone();
    let last = data.len() - 4096;
    data[last] ^= 1;
    fs::write(&path, &data).expect("write");
    let region = store.open_saved(&path).expect("header and table are right");
    assert_bytes(&region.pin(0).expect("undamaged"), 0, len(0));
    let error = region.pin(2).expect_err("its checksum is wrong");
    assert!(matches!(error, Error::BadFile { .. }), "{error}");
    fs::write(&path, &good[..4096 * 3]).expect("truncate under the reader");
    let error = region.pin(1).expect_err("its bytes are gone");
    assert!(matches!(error, Error::Io { .. }), "{error}");
}

/// An entry that is not what `encode` makes, in a file whose checksums are right: each bound by itself.
#[test]
fn a_bad_entry_with_right_checksums_is_refused() {
    let (mut good, _) = encode(&[(5000, 1), (1, 2), (4096, 3)]);
    let data = good.len();
    good.resize(data + 8192 + 4096 + 4096, 0);
    region_file::repair(&mut good);
    assert!(region_file::check(&good));
    let refused = |segment: usize, bytes: u64| {
        let mut file = good.clone();
        file[4096 + 16 * segment..][..8].copy_from_slice(&bytes.to_le_bytes());
        region_file::repair(&mut file);
        let header = parse_header(&file[..4096], file.len() as u64).expect("the header is right");
        let table = &file[4096..4096 + header.table_bytes as usize];
        parse_table(&header, table).expect_err("a bad entry")
    };
    // Empty; past the end, by one block and by far; longer than any number of blocks says; the sum comes out wrong.
    for (segment, bytes) in [(0, 0), (2, 4097), (0, 1 << 40), (1, u64::MAX), (0, u64::MAX - 4096), (0, 4096)]
    {
        let why = refused(segment, bytes);
        let wrong_sum = why.contains("its segments end at");
        assert!(wrong_sum == (bytes == 4096) && (wrong_sum || why.contains("segment")), "{why}");
    }
    let mut file = good.clone();
    file[8..16].copy_from_slice(&4u64.to_le_bytes());
    region_file::repair(&mut file);
    assert!(!region_file::check(&file), "an entry of zeros more");
    file[8..16].copy_from_slice(&(1u64 << 60).to_le_bytes());
    region_file::repair(&mut file);
    assert!(!region_file::check(&file), "a table that is longer than the file");
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused(
        segments in prop::collection::vec((1u64..20_000, any::<u64>()), 0..40),
        changes in prop::collection::vec((0usize..6000, any::<u8>()), 0..4),
        cut in 0usize..20_000,
        repair in any::<bool>(),
    ) {
        let (mut file, entries) = encode(&segments);
        let len = entries.last().map_or(file.len() as u64, |last| last.offset + last.bytes.next_multiple_of(4096));
        file.resize(len as usize, 0);
        prop_assert!(region_file::check(&file), "what encode makes is accepted");
        for (at, byte) in changes {
            let at = at % file.len();
            file[at] = byte;
        }
        file.truncate(file.len().saturating_sub(cut));
        if repair {
            region_file::repair(&mut file);
        }
        region_file::check(&file);
    }

    #[test]
    fn random_bytes_are_refused(file in prop::collection::vec(any::<u8>(), 0..9000)) {
        prop_assert!(!region_file::check(&file));
    }
}
