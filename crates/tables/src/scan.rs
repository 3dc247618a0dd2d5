//! Scans: batches or rows in order or shuffled, again and again, with what comes next on its way.
//!
//! Invariant: at most `ahead` segments are held for what comes next, so that a scan never holds the memory it waits for.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::RecordBatch;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use warmset_region::Prefetch;

use crate::error::Error;
use crate::held::Bytes;
use crate::layout::Kind;
use crate::table::Table;

/// Bytes on their way ahead of the reader: enough for a flash device to be busy (8 reads of 8 MiB).
const AHEAD_BYTES: u64 = 64 << 20;
/// Of the memory, at most one part in so many is held for what comes next.
const AHEAD_PART: u64 = 8;

/// How to scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanOptions {
    /// How many times.
    pub epochs: u64,
    /// In another order each time, which this number decides.
    pub shuffle: Option<u64>,
}

/// What a scan gives.
pub enum Piece {
    /// Of a table.
    Batch(RecordBatch),
    /// Of an array: the bytes, the first row and how many.
    Rows(Bytes, u64, u64),
}

/// A scan of a table or array.
pub struct Scan {
    table: Arc<Table>,
    options: ScanOptions,
    epoch: u64,
    /// Pieces of this epoch that are not asked for yet.
    order: VecDeque<usize>,
    next: VecDeque<(usize, Option<Prefetch>)>,
    ahead: usize,
}

impl Scan {
    pub(crate) fn new(table: Arc<Table>, options: ScanOptions, budget_bytes: u64) -> Self {
        let bytes = AHEAD_BYTES.min(budget_bytes / AHEAD_PART);
        let ahead = (bytes / table.piece_bytes_max().max(1)).clamp(1, 64) as usize;
        Self { table, options, epoch: 0, order: VecDeque::new(), next: VecDeque::new(), ahead }
    }

    /// The order of the next epoch.
    fn begin_epoch(&mut self) {
        let mut order: Vec<usize> = (0..self.table.pieces()).collect();
        if let Some(seed) = self.options.shuffle {
            order.shuffle(&mut Pcg64Mcg::seed_from_u64(seed.wrapping_add(self.epoch)));
        }
        self.order = order.into();
        self.epoch += 1;
    }

    fn look_ahead(&mut self) -> Result<(), Error> {
        // One more than is on its way: the one that is returned next.
        while self.next.len() <= self.ahead {
            if self.order.is_empty() {
                if self.epoch == self.options.epochs || self.table.pieces() == 0 {
                    return Ok(());
                }
                self.begin_epoch();
            }
            let Some(&piece) = self.order.front() else { return Ok(()) };
            let prefetch = self.table.prefetch(piece)?;
            if prefetch.is_none() && !self.next.is_empty() {
                return Ok(());
            }
            self.order.pop_front();
            self.next.push_back((piece, prefetch));
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Option<Piece>, Error> {
        self.look_ahead()?;
        let Some((piece, prefetch)) = self.next.pop_front() else { return Ok(None) };
        let bytes = self.table.hold(piece, prefetch)?;
        if self.table.kind() == Kind::Table {
            return Ok(Some(Piece::Batch(self.table.decode(piece, bytes)?)));
        }
        let (bytes, first, rows) = self.table.cut_rows(piece, &bytes);
        Ok(Some(Piece::Rows(bytes, first, rows)))
    }

    /// What is scanned.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }
}

impl Iterator for Scan {
    type Item = Result<Piece, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take().transpose()
    }
}
