//! Tables and arrays: what is written comes back, in place, and nothing else does.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::{Arc, Mutex};

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int64Array, RecordBatch, StringArray, StringViewArray,
};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Schema};
use arrow_select::concat::concat_batches;
use proptest::prelude::*;
use tempfile::TempDir;
use twox_hash::XxHash3_64;
use warmset_tables::{ArraySource, Element, Error, Options, Piece, ScanOptions, Store};

const MEMORY_BYTES: u64 = 32 << 20;

fn dir() -> TempDir {
    tempfile::tempdir().expect("dir")
}

fn open(dir: &TempDir) -> Store {
    Store::open(Options::new(dir.path(), MEMORY_BYTES)).expect("open")
}

fn batch(start: i64, rows: usize) -> RecordBatch {
    let numbers = || (start..).take(rows);
    let words: Vec<Option<String>> = numbers().map(|n| (n % 7 != 0).then(|| format!("word {n}"))).collect();
    let keys: DictionaryArray<Int32Type> = numbers().map(|n| ["a", "b", "c"][(n % 3) as usize]).collect();
    let columns: [(&str, ArrayRef); 5] = [
        ("n", Arc::new(Int64Array::from_iter_values(numbers()))),
        ("x", Arc::new(Float64Array::from_iter(numbers().map(|n| (n % 5 != 0).then_some(n as f64))))),
        ("word", Arc::new(StringArray::from(words.clone()))),
        ("view", Arc::new(StringViewArray::from_iter(words))),
        ("key", Arc::new(keys)),
    ];
    RecordBatch::try_from_iter(columns).expect("columns")
}

fn write(store: &Store, name: &str, batches: &[RecordBatch], part_rows: Option<usize>) {
    let mut writer = store.writer(name, &batches[0].schema(), part_rows).expect("writer");
    for batch in batches {
        writer.append(batch).expect("append");
    }
    writer.commit().expect("commit");
}

fn read(store: &Store, name: &str) -> RecordBatch {
    let table = store.table(name).expect("table");
    let batches: Vec<_> = (0..table.pieces()).map(|n| table.batch(n).expect("batch")).collect();
    concat_batches(table.schema(), &batches).expect("one")
}

fn array(rows: u64, columns: u64) -> ArraySource {
    let data: Vec<f64> = (0..rows * columns).map(|n| n as f64).collect();
    ArraySource {
        element: Element { data_type: DataType::Float64, bytes: 8 },
        shape: vec![rows, columns],
        dtype: "<f8".to_owned(),
        data: Buffer::from_vec(data),
    }
}

#[test]
fn a_table_larger_than_memory_comes_back_batch_by_batch() {
    let dir = dir();
    let batches: Vec<_> = (0..60).map(|n| batch(n * 30_000, 30_000)).collect();
    write(&open(&dir), "t", &batches, None);
    let store = open(&dir);
    let table = store.table("t").expect("table");
    assert!(table.bytes() > 2 * MEMORY_BYTES && table.pieces() > 10, "{} bytes", table.bytes());
    let options = ScanOptions { epochs: 3, shuffle: None };
    let mut rows = 0;
    for piece in store.scan(Arc::clone(&table), options) {
        let Piece::Batch(found) = piece.expect("read") else { panic!("a table has batches") };
        let start = rows % 1_800_000;
        assert_eq!(found, batch(start, found.num_rows()));
        rows += found.num_rows() as i64;
    }
    assert_eq!(rows, 3 * 1_800_000);
    let read_bytes = store.stats().read_bytes_total;
    assert!(read_bytes < 3 * table.bytes(), "{read_bytes} bytes: a part stays from epoch to epoch");
}

#[test]
fn shuffled_epochs_have_every_batch_once() {
    let dir = dir();
    let store = open(&dir);
    write(&store, "t", &[batch(0, 1000)], Some(100));
    let order = |seed| -> Vec<i64> {
        let options = ScanOptions { epochs: 2, shuffle: Some(seed) };
        let scan = store.scan(store.table("t").expect("table"), options);
        scan.map(|piece| match piece.expect("read") {
            Piece::Batch(found) => found["n"].as_any().downcast_ref::<Int64Array>().expect("n").value(0),
            Piece::Rows(..) => panic!("a table has batches"),
        })
        .collect()
    };
    let (first, again, other) = (order(1), order(1), order(2));
    assert_eq!(first, again);
    assert_ne!(first, other);
    assert_ne!(first[..10], first[10..]);
    for epoch in [&first[..10], &first[10..]] {
        let mut sorted = epoch.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..10).map(|n| n * 100).collect::<Vec<_>>());
    }
}

#[test]
fn batches_are_shown_in_place_as_long_as_anything_refers_to_them() {
    let dir = dir();
    let store = open(&dir);
    write(&store, "t", &[batch(0, 1000)], None);
    let address = |batch: &RecordBatch| batch["n"].to_data().buffers()[0].as_ptr() as usize;
    let first = store.table("t").expect("table").batch(0).expect("batch");
    let second = store.table("t").expect("table").batch(0).expect("batch");
    assert_eq!(address(&first), address(&second), "no byte is copied");
    assert_eq!(address(&first) % 64, 0);
    store.remove("t").expect("removed");
    assert!(matches!(store.table("t"), Err(Error::Missing { .. })));
    drop((second, store));
    assert_eq!(first, batch(0, 1000));
}

#[test]
fn arrays_are_whole_or_in_rows() {
    let dir = dir();
    let store = open(&dir);
    for (rows, columns) in [(1, 1), (7, 3), (100_000, 13), (65_536, 16), (3, 300_000), (0, 4), (4, 0)] {
        let source = array(rows, columns);
        store.put_array("X", &source, None).expect("put");
        let table = store.table("X").expect("open");
        assert_eq!(table.array().expect("an array").shape, [rows, columns]);
        let whole = store.array(&table).expect("whole");
        // SAFETY: the bytes live in `whole`.
        let bytes = unsafe { std::slice::from_raw_parts(whole.as_ptr(), whole.len()) };
        assert!(bytes == source.data.as_slice());
        let mut next = 0;
        for piece in store.scan(Arc::clone(&table), ScanOptions { epochs: 1, shuffle: None }) {
            let Piece::Rows(part, first, count) = piece.expect("read") else { panic!("an array has rows") };
            assert_eq!(first, next);
            let at = (first * columns * 8) as usize;
            // SAFETY: the bytes live in `part`.
            let bytes = unsafe { std::slice::from_raw_parts(part.as_ptr(), part.len()) };
            assert!(bytes == &source.data[at..at + (count * columns * 8) as usize]);
            next += count;
        }
        assert_eq!(next, if columns == 0 { 0 } else { rows });
    }
    let error = store.put_array("X", &array(1, 5_000_000), None).expect_err("a row of 40 MB");
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    store.put_array("X", &array(50_000, 100), None).expect("put");
    let error = store.array(&store.table("X").expect("open")).err().expect("40 MB");
    assert!(error.to_string().contains("scan it"), "{error}");
}

#[test]
fn one_process_writes_and_names_are_replaced_whole() {
    let dir = dir();
    let (store, other) = (open(&dir), open(&dir));
    write(&store, "t", &[batch(0, 10)], None);
    let mut writer = store.writer("t", &batch(0, 1).schema(), None).expect("writer");
    writer.append(&batch(5, 10)).expect("append");
    assert!(matches!(other.writer("u", &batch(0, 1).schema(), None), Err(Error::Busy { .. })));
    assert!(matches!(other.remove("t"), Err(Error::Busy { .. })));
    assert_eq!(read(&other, "t"), batch(0, 10));
    writer.commit().expect("commit");
    assert_eq!(read(&other, "t"), batch(5, 10));
    drop(other.writer("u", &batch(0, 1).schema(), None).expect("the lock is free"));
    assert_eq!(other.names().expect("names"), ["t"]);
    let error = store.writer("t", &Schema::empty(), None).expect("writer").append(&batch(0, 1)).err();
    assert!(error.expect("other columns").to_string().contains("n: Int64"));
}

#[test]
fn every_byte_that_is_changed_is_found_and_named() {
    let dir = dir();
    let store = open(&dir);
    write(&store, "t", &[batch(0, 3000)], Some(1000));
    store.put_array("X", &array(10_000, 8), Some(3000)).expect("put");
    for name in ["t", "X"] {
        let path = dir.path().join(format!("{name}.arrow"));
        let whole = fs::read(&path).expect("read");
        assert_eq!(store.verify(name).expect("known"), []);
        let file = OpenOptions::new().write(true).open(&path).expect("open");
        for at in (0..whole.len()).step_by(whole.len() / 150) {
            file.write_at(&[whole[at] ^ 0x55], at as u64).expect("write");
            let store = open(&dir);
            let outcome = store.table(name).and_then(|table| {
                let shown: Result<Vec<_>, _> =
                    store.scan(table, ScanOptions { epochs: 1, shuffle: None }).collect();
                shown.map(drop)
            });
            let seen = match store.verify(name) {
                Ok(damage) => damage.iter().any(|part| part.offset <= at as u64),
                Err(Error::BadFile { .. }) => true,
                Err(error) => panic!("{error}"),
            };
            // The footer repeats the schema for other readers, and its bytes between tables mean nothing.
            let in_footer = at > whole.len() - footer_bytes(&whole);
            assert!(in_footer || (seen && outcome.is_err()), "{name}: byte {at} of {}", whole.len());
            file.write_at(&whole[at..=at], at as u64).expect("write");
        }
        for length in [0, 1, 9, 4096, whole.len() / 2, whole.len() - 1] {
            fs::write(&path, &whole[..length]).expect("write");
            let store = open(&dir);
            assert!(matches!(store.table(name), Err(Error::BadFile { .. })), "{length} bytes");
            assert!(matches!(store.verify(name), Err(Error::BadFile { .. })));
        }
        fs::write(&path, &whole).expect("write");
        assert_eq!(open(&dir).verify(name).expect("known"), []);
    }
}

#[test]
fn a_changed_footer_is_refused_or_changes_nothing() {
    let dir = dir();
    let store = open(&dir);
    write(&store, "t", &[batch(0, 3000)], Some(700));
    let expected = read(&store, "t");
    let path = dir.path().join("t.arrow");
    let whole = fs::read(&path).expect("read");
    let file = OpenOptions::new().write(true).open(&path).expect("open");
    let first = whole.len() - footer_bytes(&whole);
    let mut refused = 0;
    // The layout's padding is in the text that has a checksum.
    for at in (first..whole.len()).filter(|&at| whole[at] != b' ') {
        for change in [0x01, 0x08, 0x80] {
            file.write_at(&[whole[at] ^ change], at as u64).expect("write");
            let outcome = store.table("t").and_then(|table| {
                let shown: Result<Vec<_>, _> = (0..table.pieces()).map(|n| table.batch(n)).collect();
                Ok((table, shown?))
            });
            match outcome {
                Ok((table, shown)) => {
                    let shown = concat_batches(table.schema(), &shown).expect("one");
                    assert_eq!(shown, expected, "byte {at} of {} changed by {change}", whole.len());
                }
                Err(_) => refused += 1,
            }
        }
        file.write_at(&whole[at..=at], at as u64).expect("write");
    }
    assert!(refused > 1000, "{refused}");
    assert_eq!(read(&store, "t"), expected);
}

fn footer_bytes(whole: &[u8]) -> usize {
    let at = whole.len() - 10;
    i32::from_le_bytes(whole[at..at + 4].try_into().expect("four")) as usize + 10 + 8
}

#[test]
fn other_files_are_refused_with_a_reason() {
    let dir = dir();
    let store = open(&dir);
    let path = dir.path().join("t.arrow");
    let data = batch(0, 10);
    let mut writer =
        arrow_ipc::writer::FileWriter::try_new(File::create(&path).expect("file"), &data.schema())
            .expect("writer");
    writer.write(&data).expect("write");
    writer.finish().expect("finish");
    let error = store.table("t").err().expect("not ours").to_string();
    assert!(error.contains("no Warmset store has written"), "{error}");
    fs::write(&path, vec![7; 100_000]).expect("write");
    let error = store.table("t").err().expect("not Arrow").to_string();
    assert!(error.contains("does not end as an Arrow file"), "{error}");
    // What a later Warmset may write: another layout, and what this one does not know of.
    let newer = r#"{"version":2,"layout":{"kind":"graph"}}"#;
    let checksum = format!("{:016x}", XxHash3_64::oneshot(newer.as_bytes()));
    let mut writer =
        arrow_ipc::writer::FileWriter::try_new(File::create(&path).expect("file"), &data.schema())
            .expect("writer");
    writer.write(&data).expect("write");
    writer.write_metadata("warmset", newer);
    writer.write_metadata("warmset.xxh3", checksum);
    writer.finish().expect("finish");
    let error = store.table("t").err().expect("newer").to_string();
    assert!(
        error.contains("it has layout 2, and this Warmset reads up to 1: install a newer one"),
        "{error}"
    );
    assert!(matches!(store.table("../t"), Err(Error::Invalid(_))));
    assert!(!store.contains("none").expect("looked"));
}

/// As many mappings as the process may have, until it is dropped; none of them is inherited.
struct Mappings(*mut libc::c_void, usize);

impl Mappings {
    fn all() -> Self {
        let most = fs::read_to_string("/proc/sys/vm/max_map_count").expect("Linux has it");
        let pages = most.trim().parse::<usize>().expect("a number") + 2;
        let (kind, page) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, 4096);
        // SAFETY: a mapping of its own, of which nothing is ever read or written.
        unsafe {
            let start = libc::mmap(std::ptr::null_mut(), pages * page, libc::PROT_NONE, kind, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            assert_eq!(libc::madvise(start, pages * page, libc::MADV_DONTFORK), 0);
            // Each of these is one between two others.
            let refused = |n: &usize| libc::mprotect(start.add(n * page), page, libc::PROT_READ) != 0;
            assert!((1..pages).step_by(2).any(|n| refused(&n)), "{pages} are too many");
            Self(start, pages * page)
        }
    }
}

impl Drop for Mappings {
    fn drop(&mut self) {
        // SAFETY: it is this value's, and nobody has an address in it.
        assert_eq!(unsafe { libc::munmap(self.0, self.1) }, 0);
    }
}

/// Whether a forked process reads these numbers.
fn a_child_reads(numbers: &[i64], expected: i64) -> bool {
    // SAFETY: the child reads memory and ends; it takes no lock and allocates nothing.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(i32::from(numbers.iter().sum::<i64>() != expected));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }
}

/// In a process of its own, in which nobody else wants a mapping.
#[test]
fn a_child_that_does_not_get_what_is_held_is_warned_of() {
    const ALONE: &str = "WARMSET_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let this = std::env::current_exe().expect("this program");
        let test = "a_child_that_does_not_get_what_is_held_is_warned_of";
        let done = Command::new(this).args([test, "--exact", "--nocapture"]).env(ALONE, "1").output();
        let done = done.expect("it runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        return;
    }
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&warnings);
    warmset_region::hand_warnings_to(move |line| seen.lock().expect("no panic").push(line.to_owned()));
    let dir = dir();
    let store = open(&dir);
    write(&store, "t", &[batch(0, 1000)], None);
    let shown = store.table("t").expect("table").batch(0).expect("batch");
    let data = shown["n"].to_data();
    let held = data.buffers()[0].typed_data::<i64>();
    let sum = held.iter().sum();
    assert!(a_child_reads(held, sum));
    let mappings = Mappings::all();
    for _ in 0..2 {
        assert!(!a_child_reads(held, sum), "it has no such memory");
    }
    drop(mappings);
    assert!(a_child_reads(held, sum), "it has again");
    let warnings = warnings.lock().expect("no panic");
    assert!(warnings.len() == 1 && warnings[0].contains("vm.max_map_count"), "{warnings:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_cut_into_batches_comes_back(
        sizes in proptest::collection::vec(0_usize..3000, 1..6),
        part_rows in proptest::option::of(1_usize..2000),
    ) {
        let dir = dir();
        let store = open(&dir);
        let batches: Vec<_> = sizes.iter().map(|&rows| batch(7, rows)).collect();
        let whole = concat_batches(&batches[0].schema(), &batches).expect("one");
        // One dictionary, as an Arrow file has.
        let mut writer = store.writer("t", &whole.schema(), part_rows).expect("writer");
        let mut start = 0;
        for &rows in &sizes {
            writer.append(&whole.slice(start, rows)).expect("append");
            start += rows;
        }
        writer.commit().expect("commit");
        prop_assert_eq!(read(&store, "t"), whole);
        prop_assert_eq!(store.verify("t").expect("known"), []);
    }
}
