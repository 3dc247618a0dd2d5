//! A column of one batch: bytes and how values lie in them.
//!
//! Invariant: once [`Column::check`] has passed for a number of rows, reading any of these rows stays inside the bytes.

/// The bytes of a column are not what its description says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("damaged column: {0}")]
pub struct Damaged(pub(crate) &'static str);

/// A column of one batch.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    /// Which rows have no value.
    pub nulls: Nulls<'a>,
    /// The values. What a row without a value has is arbitrary.
    pub values: Values<'a>,
}

/// Which rows are null.
#[derive(Clone, Copy, Debug)]
pub enum Nulls<'a> {
    /// None.
    None,
    /// All.
    All,
    /// Those whose bit, least significant first, is 0.
    Bits(&'a [u8]),
}

/// Values of one type in one of its encodings. Numbers are little-endian.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// Whole numbers of up to 64 bits.
    Packed(Packed<'a>),
    /// Whole numbers of 128 bits.
    Wide(&'a [u8]),
    /// Doubles, 8 bytes each.
    Doubles(&'a [u8]),
    /// One double for all rows.
    ConstantDouble(f64),
    /// Doubles by their number among distinct ones, 8 bytes each.
    DoubleCodes(Codes<'a>, &'a [u8]),
    /// Whole numbers that are doubles once divided.
    ScaledDoubles(Packed<'a>, f64),
    /// Text.
    Text(Text<'a>),
    /// Values that are not looked at.
    Opaque,
}

/// A base plus an unsigned number of `width` bytes per row.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    /// What is added to each number.
    pub base: i64,
    /// Bytes per row, 0 to `word`.
    pub width: usize,
    /// 4: sums wrap at 32 bits; 8: at 64.
    pub word: usize,
    /// Numbers, and `word - width` bytes more.
    pub data: &'a [u8],
}

/// An unsigned number of 0 to 2 bytes per row.
#[derive(Clone, Copy, Debug)]
pub struct Codes<'a> {
    /// Bytes per row.
    pub width: usize,
    /// The numbers.
    pub data: &'a [u8],
}

/// Values of bytes behind offsets on a line, one per row or one per distinct value.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// Which value each row has; none: its own.
    pub codes: Option<Codes<'a>>,
    /// Number of values.
    pub count: usize,
    /// Bytes per offset, 0 to 8.
    pub offset_width: usize,
    /// Numbers of `offset_width` bytes, `count + 1` of them, and `8 - offset_width` bytes more.
    pub offsets: &'a [u8],
    /// Where the line of offsets begins.
    pub base: i64,
    /// How much it rises from value to value, in 65,536ths.
    pub slope: i64,
    /// The values, one behind the other.
    pub bytes: &'a [u8],
}

const SLOPE_SHIFT: u32 = 16;
/// Codes have at most two bytes.
const CODES_MAX: usize = 1 << 16;

impl Column<'_> {
    /// Whether the bytes are enough for so many rows.
    ///
    /// # Errors
    /// [`Damaged`], saying which part is too short.
    pub fn check(&self, rows: usize) -> Result<(), Damaged> {
        let long_enough = |data: &[u8], bytes: usize| {
            if data.len() < bytes { Err(Damaged("too few bytes")) } else { Ok(()) }
        };
        if let Nulls::Bits(bits) = self.nulls {
            long_enough(bits, rows.div_ceil(8))?;
        }
        match self.values {
            Values::Packed(packed) | Values::ScaledDoubles(packed, _) => packed.check(rows),
            Values::Wide(data) => long_enough(data, rows.saturating_mul(16)),
            Values::Doubles(data) => long_enough(data, rows.saturating_mul(8)),
            Values::DoubleCodes(codes, _) => codes.check(rows),
            Values::Text(text) => text.check(rows),
            Values::ConstantDouble(_) | Values::Opaque => Ok(()),
        }
    }

    pub(crate) fn is_present(&self, row: usize) -> bool {
        match self.nulls {
            Nulls::None => true,
            Nulls::All => false,
            Nulls::Bits(bits) => bits[row >> 3] >> (row & 7) & 1 == 1,
        }
    }
}

impl Packed<'_> {
    fn check(&self, rows: usize) -> Result<(), Damaged> {
        if (self.word != 4 && self.word != 8) || self.width > self.word {
            return Err(Damaged("impossible width"));
        }
        let bytes = match self.width {
            0 => 0,
            width => rows.saturating_mul(width).saturating_add(self.word - width),
        };
        if rows > 0 && self.data.len() < bytes { Err(Damaged("too few bytes")) } else { Ok(()) }
    }

    /// The greatest number that the width can hold.
    pub(crate) fn span(&self) -> u64 {
        if self.width >= 8 { u64::MAX } else { (1 << (8 * self.width)) - 1 }
    }

    /// Whether base plus number may wrap.
    pub(crate) fn wraps(&self) -> bool {
        self.width == self.word
    }

    #[inline]
    pub(crate) fn stored(&self, row: usize) -> u64 {
        let at = row * self.width;
        match self.width {
            0 => 0,
            1 => u64::from(self.data[at]),
            2 => u64::from(u16::from_le_bytes(array(&self.data[at..]))),
            3 if self.word == 4 => u64::from(u32::from_le_bytes(array(&self.data[at..])) & 0xFF_FFFF),
            4 => u64::from(u32::from_le_bytes(array(&self.data[at..]))),
            _ => u64::from_le_bytes(array(&self.data[at..])) & self.span(),
        }
    }

    #[inline]
    pub(crate) fn value(&self, row: usize) -> i64 {
        self.shown(self.stored(row))
    }

    /// The value that a stored number stands for.
    #[inline]
    pub(crate) fn shown(&self, stored: u64) -> i64 {
        let sum = self.base.wrapping_add(stored as i64);
        if self.word == 4 { i64::from(sum as i32) } else { sum }
    }
}

impl Codes<'_> {
    fn check(&self, rows: usize) -> Result<(), Damaged> {
        if self.width > 2 {
            Err(Damaged("impossible width of codes"))
        } else if self.data.len() < rows.saturating_mul(self.width) {
            Err(Damaged("too few bytes of codes"))
        } else {
            Ok(())
        }
    }

    #[inline]
    pub(crate) fn code(&self, row: usize) -> usize {
        match self.width {
            0 => 0,
            1 => usize::from(self.data[row]),
            _ => usize::from(u16::from_le_bytes(array(&self.data[row * 2..]))),
        }
    }
}

impl<'a> Text<'a> {
    fn check(&self, rows: usize) -> Result<(), Damaged> {
        if self.offset_width > 8 {
            return Err(Damaged("impossible width of offsets"));
        }
        match self.codes {
            // So that what is kept per value is bounded.
            Some(_) if self.count > CODES_MAX => return Err(Damaged("more values than there are codes")),
            Some(codes) => codes.check(rows)?,
            None if self.count < rows => return Err(Damaged("fewer values than rows")),
            None => {}
        }
        let offsets = self.count.saturating_add(1).saturating_mul(self.offset_width);
        if self.offset_width > 0 && self.offsets.len() < offsets.saturating_add(8 - self.offset_width) {
            return Err(Damaged("too few bytes of offsets"));
        }
        Ok(())
    }

    fn offset(&self, index: usize) -> i64 {
        let on_line = (index as i64).wrapping_mul(self.slope) >> SLOPE_SHIFT;
        let rest = match self.offset_width {
            0 => 0,
            width => {
                let mask = if width >= 8 { u64::MAX } else { (1 << (8 * width)) - 1 };
                u64::from_le_bytes(array(&self.offsets[index * width..])) & mask
            }
        };
        self.base.wrapping_add(on_line).wrapping_add(rest as i64)
    }

    /// The value of a row.
    #[inline]
    pub(crate) fn of_row(&self, row: usize) -> Result<&'a [u8], Damaged> {
        self.value(self.codes.map_or(row, |codes| codes.code(row)))
    }

    /// The value of that number.
    pub(crate) fn value(&self, index: usize) -> Result<&'a [u8], Damaged> {
        if index >= self.count {
            return Err(Damaged("a code of no value"));
        }
        let (from, to) = (self.offset(index), self.offset(index + 1));
        usize::try_from(from)
            .ok()
            .zip(usize::try_from(to).ok())
            .and_then(|(from, to)| self.bytes.get(from..to))
            .ok_or(Damaged("an offset outside its bytes"))
    }
}

/// The first `N` of these bytes.
#[inline]
pub(crate) fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut first = [0; N];
    first.copy_from_slice(&bytes[..N]);
    first
}
