//! Finds the line of an instruction in the line table of a code object.
//!
//! The table is untrusted memory. For any bytes, decoding ends with a line or `None`.

/// The format of a line table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// CPython 3.10: pairs of a length in bytes and a signed line delta.
    Pairs,
    /// CPython 3.11 and later: entries of one to several bytes, with columns.
    Locations,
}

/// Returns the line of the instruction at a byte offset; `None` if it has none, or the table ends before it. `bytes` is the table.
pub fn find(format: Format, bytes: impl Iterator<Item = u8>, first_line: u32, offset: u32) -> Option<u32> {
    match format {
        Format::Pairs => in_pairs(bytes, first_line, offset),
        Format::Locations => in_locations(bytes, first_line, offset),
    }
}

/// The line delta in 3.10 that means "no line".
const NO_LINE: i8 = -128;

fn in_pairs(mut bytes: impl Iterator<Item = u8>, first_line: u32, offset: u32) -> Option<u32> {
    let mut line = i64::from(first_line);
    let mut end = 0_u32;
    loop {
        let (length, step) = (bytes.next()?, bytes.next()?.cast_signed());
        if step != NO_LINE {
            line += i64::from(step);
        }
        end = end.checked_add(length.into())?;
        if offset < end {
            return if step == NO_LINE { None } else { u32::try_from(line).ok() };
        }
    }
}

/// Codes of an entry. All other codes have a column and no line delta.
const ONE_LINE_FIRST: u8 = 10;
const ONE_LINE_LAST: u8 = 12;
const NO_COLUMNS: u8 = 13;
const LONG: u8 = 14;
const NO_LOCATION: u8 = 15;

fn in_locations(bytes: impl Iterator<Item = u8>, first_line: u32, offset: u32) -> Option<u32> {
    let mut bytes = bytes.peekable();
    let mut line = i64::from(first_line);
    let mut end = 0_u32;
    loop {
        let first = bytes.next()?;
        let (code, units) = (first >> 3 & 15, u32::from(first & 7) + 1);
        let step = match code {
            ONE_LINE_FIRST..=ONE_LINE_LAST => i64::from(code - ONE_LINE_FIRST),
            NO_COLUMNS | LONG => signed(&mut bytes)?,
            _ => 0,
        };
        line = line.checked_add(step)?;
        end = end.checked_add(units * 2)?;
        if offset < end {
            return if code == NO_LOCATION { None } else { u32::try_from(line).ok() };
        }
        // Skips columns, and fields of a later version: a new entry has the high bit set.
        while bytes.next_if(|byte| byte & 0x80 == 0).is_some() {}
    }
}

/// Reads a number of six bits per byte, lowest first. Bit 6 means that more bytes follow. Bit 0 of the number is its sign.
fn signed(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let mut number = 0_u64;
    for shift in (0..36).step_by(6) {
        let byte = bytes.next()?;
        number |= u64::from(byte & 0x3F) << shift;
        if byte & 0x40 == 0 {
            let value = i64::try_from(number >> 1).ok()?;
            return Some(if number & 1 == 0 { value } else { -value });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(format: Format, table: &[u8], offsets: &[u32]) -> Vec<Option<u32>> {
        offsets.iter().map(|offset| find(format, table.iter().copied(), 10, *offset)).collect()
    }

    #[test]
    fn lines_are_found_in_tables_of_pairs() {
        // Two instructions of line 11, one without a line, then line 9 after a large delta.
        let table = [4, 1, 2, 0x80, 0, 127, 0, 127, 4, 0];
        assert_eq!(lines(Format::Pairs, &table, &[0, 3, 4, 6, 9, 10]), [Some(11), Some(11), None, Some(265), Some(265), None]);
        assert_eq!(lines(Format::Pairs, &[2, 0xFB], &[0]), [Some(5)]);
        assert_eq!(lines(Format::Pairs, &[2, 0x81, 2, 0x81], &[2]), [None], "a line before the first");
        assert_eq!(lines(Format::Pairs, &[], &[0]), [None]);
        assert_eq!(lines(Format::Pairs, &[2], &[0]), [None], "half a pair");
    }

    #[test]
    fn lines_are_found_in_tables_of_locations() {
        let table = [
            0x80 | 3 << 3 | 1,
            0x11, // two units, column only
            0x80 | 11 << 3,
            0x01,
            0x02,           // one unit, one line on
            0x80 | 15 << 3, // one without a location
            0x80 | 13 << 3,
            0x03, // one line back
            0x80 | 14 << 3 | 7,
            0x48,
            0x01,
            0x00,
            0x01,
            0x02, // eight units, 36 lines on
        ];
        let offsets = [0, 3, 4, 6, 8, 10, 25, 26];
        let expected = [Some(10), Some(10), Some(11), None, Some(10), Some(46), Some(46), None];
        assert_eq!(lines(Format::Locations, &table, &offsets), expected);
        assert_eq!(lines(Format::Locations, &[], &[0]), [None]);
        assert_eq!(
            lines(Format::Locations, &[0x80 | 13 << 3, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F], &[0]),
            [None],
            "a number without end"
        );
        assert_eq!(lines(Format::Locations, &[0x80 | 13 << 3, 0x7F], &[0]), [None], "cut");
    }

    proptest! {
        #[test]
        fn decoding_ends_for_any_bytes(table in prop::collection::vec(any::<u8>(), 0..300), first in any::<u32>(), offset in any::<u32>()) {
            find(Format::Pairs, table.iter().copied(), first, offset);
            find(Format::Locations, table.iter().copied(), first, offset);
        }
    }
}
