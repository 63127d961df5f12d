//! Compressed scrapes.
//!
//! The series of the machine are compressed once per snapshot, the series of the service for each scrape. Both are parts of one deflate
//! stream: every part except the last ends with an empty block, so that another part can follow.

use std::io::Write;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

/// Series repeat the same words, so a fast level is nearly as good as a slow one.
const LEVEL: u32 = 1;
/// RFC 1952: deflate, no name, no time, any system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// Why compressing cannot fail.
const IN_MEMORY: &str = "memory accepts every write";

/// Compresses a part of a stream that another part follows.
pub(crate) fn deflated(text: &[u8]) -> Vec<u8> {
    encoder(text).flush_finish().expect(IN_MEMORY)
}

fn encoder(text: &[u8]) -> DeflateEncoder<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::with_capacity(text.len() / 8), Compression::new(LEVEL));
    encoder.write_all(text).expect(IN_MEMORY);
    encoder
}

/// Returns a gzip file of two texts. [`deflated`] has already compressed the first one.
pub(crate) fn gzip_of(first: &[u8], first_deflated: &[u8], last: &str) -> Vec<u8> {
    let last_deflated = encoder(last.as_bytes()).finish().expect(IN_MEMORY);
    let mut crc = Crc::new();
    crc.update(first);
    crc.update(last.as_bytes());
    [&HEADER[..], first_deflated, &last_deflated, &crc.sum().to_le_bytes(), &crc.amount().to_le_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Short and long texts, in one part or two, are decompressed unchanged.
    #[test]
    fn both_texts_come_back() {
        let noise: String =
            (0..200_000_u32).map(|number| char::from(b' ' + (number.wrapping_mul(2_654_435_761) >> 24) as u8 % 90)).collect();
        let series = "ttmon_device_power_watts{device=\"0\",board=\"n300\"} 12.5\n".repeat(5000);
        for (first, last) in [("", ""), ("", "a"), ("a", ""), ("first\n", "last\n"), (&series, "end"), (&noise, &series), ("", &noise)] {
            let file = gzip_of(first.as_bytes(), &deflated(first.as_bytes()), last);
            let mut text = String::new();
            let mut reader = flate2::read::GzDecoder::new(&file[..]);
            reader.read_to_string(&mut text).expect("a gzip file");
            assert!(text == format!("{first}{last}"), "{} and {} bytes", first.len(), last.len());
        }
    }
}
