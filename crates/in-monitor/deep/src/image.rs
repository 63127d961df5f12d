//! The image of a simulated chip in a file: runs of words in hexadecimal, `X Y ADDRESS WORD...`, or `ones` for a chip that reads all ones.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use ttmon_model::{Arch, Missing, Reading};

use crate::contents::Run;
use crate::transport::{Tile, Transport, Window, window_bytes};

/// Maximum size of an image. An image with a table of 255 tags has 10 kB.
const BYTES_MAX: u64 = 64 * 1024;
/// Upper limit of addresses on any chip.
const ADDRESS_MAX: u64 = 1 << 40;

/// The image of a chip that left the bus.
pub const ALL_ONES: &str = "ones\n";

/// Returns the text of an image with these words.
pub fn text(runs: &[Run]) -> String {
    let mut text = String::new();
    for (tile, address, words) in runs {
        let _ = write!(text, "{:x} {:x} {address:x}", tile.x, tile.y);
        words.iter().for_each(|word| _ = write!(text, " {word:x}"));
        text.push('\n');
    }
    text
}

/// A file with the words of a chip. It is read again at each open, because it may have been replaced.
#[derive(Debug)]
pub struct Image {
    path: PathBuf,
    arch: Arch,
}

impl Image {
    /// Creates the image of a chip of this architecture.
    pub fn new(path: &Path, arch: Arch) -> Self {
        Self { path: path.to_owned(), arch }
    }
}

impl Transport for Image {
    type Open = OpenImage;

    fn open(&mut self) -> Reading<OpenImage> {
        let mut text = String::new();
        let file = File::open(&self.path).map_err(|_| Missing::NoPermission)?;
        file.take(BYTES_MAX).read_to_string(&mut text).map_err(|_| Missing::IoError)?;
        let mut image = OpenImage { arch: self.arch, words: HashMap::new(), is_all_ones: false, target: None };
        for line in text.lines() {
            if line == ALL_ONES.trim_end() {
                image.is_all_ones = true;
            } else {
                let (tile, address, words) = run(line).ok_or(Missing::IoError)?;
                image.words.extend((address..).step_by(4).zip(words).map(|(address, word)| ((tile, address), word)));
            }
        }
        Ok(image)
    }
}

/// The words of an image, and the window into them.
#[derive(Debug)]
pub struct OpenImage {
    arch: Arch,
    /// Words that are not in the image are 0.
    words: HashMap<(Tile, u64), u32>,
    is_all_ones: bool,
    target: Option<(Tile, u64)>,
}

impl Window for OpenImage {
    fn configure(&mut self, tile: Tile, address: u64) -> Reading<()> {
        if !address.is_multiple_of(window_bytes(self.arch)) {
            return Err(Missing::IoError);
        }
        self.target = Some((tile, address));
        Ok(())
    }

    fn read(&mut self, offset: usize, words: &mut [u32]) -> Reading<()> {
        let (tile, base) = self.target.ok_or(Missing::IoError)?;
        if (offset + 4 * words.len()) as u64 > window_bytes(self.arch) {
            return Err(Missing::IoError);
        }
        for (address, word) in (base + offset as u64..).step_by(4).zip(words) {
            let written = self.words.get(&(tile, address)).copied().unwrap_or(0);
            *word = if self.is_all_ones { u32::MAX } else { written };
        }
        Ok(())
    }
}

fn run(line: &str) -> Option<Run> {
    let mut parts = line.split(' ');
    let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
    let (x, y, address) = (u16::try_from(number()?).ok()?, u16::try_from(number()?).ok()?, number()?);
    let words: Result<Vec<u32>, _> = parts.map(|word| u32::from_str_radix(word, 16)).collect();
    (address < ADDRESS_MAX).then_some((Tile { x, y }, address, words.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Session;
    use std::time::Duration;
    use ttmon_model::Missing;
    use ttmon_model::deep::tag;

    #[test]
    fn an_image_is_read_anew_for_each_sample() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0");
        let mut session = Session::new(Image::new(&path, Arch::Wormhole), Arch::Wormhole);
        let mut second = 0;
        let mut power = |content: Option<&str>| {
            if let Some(content) = content {
                std::fs::write(&path, content).unwrap();
            }
            second += 20;
            session.sample(Duration::from_secs(second), Some(true), Duration::ZERO).and_then(|sample| sample.tag(tag::INPUT_POWER))
        };
        let with = |watts: u32| text(&crate::contents::tags(Arch::Wormhole, &[(tag::TIMER_HEARTBEAT, 1), (tag::INPUT_POWER, watts)]));
        assert_eq!(power(None), Err(Missing::NoPermission));
        assert_eq!(power(Some(&with(75))), Ok(75));
        assert_eq!(power(Some(&with(80))), Ok(80));
        assert_eq!(power(Some(ALL_ONES)), Err(Missing::OutOfRange));
        for bad in ["0 a", "0 a x 1", "0 a 10000000000 1", "0 a ffffffffffffffff 1 2", "0 a 0 100000000", "10000 0 0 1", "\u{fffd}"] {
            assert_eq!(power(Some(bad)), Err(Missing::IoError), "{bad}");
        }
        assert_eq!(power(Some("")), Err(Missing::NoSource));
        assert_eq!(power(Some(&with(75))), Ok(75));
    }
}
