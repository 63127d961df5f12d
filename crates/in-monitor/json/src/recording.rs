//! Recordings: documents in JSON lines, compressed with zstd (docs/recording.md).
//!
//! A recording is a series of zstd frames with complete lines. Before each frame is a skippable frame with its length, the time of its
//! first line and its number of lines. So `zstdcat` prints the whole recording, and a reader can find any time without unpacking earlier
//! frames. If the recorder is killed, the file is valid up to the last complete frame.

use std::io::{self, Read, Seek, SeekFrom, Write};

use serde_json::{Value, json};
use ttmon_model::limits::DOCUMENT_BYTES_MAX;
use ttmon_model::units::UnixTime;
use zstd::stream::read::Decoder;

/// Version of the recording format, independent of the version of the documents.
pub const VERSION: u64 = 1;
/// One of zstd's magic numbers for user data. Other readers skip frames that begin with it.
const SKIPPABLE: u32 = 0x184D_2A57;
/// Length of a mark: the length of the frame, the time of its first line, and its number of lines.
const MARK_BYTES: u32 = 20;
/// A frame is closed after this time. A killed recorder loses at most this much.
const FRAME_NANOS: u64 = 5_000_000_000;
/// A frame is closed after this many bytes, to limit a reader's memory.
const FRAME_BYTES: usize = 8 * 1024 * 1024;
/// A frame that unpacks to more bytes is invalid.
const UNPACKED_BYTES_MAX: usize = DOCUMENT_BYTES_MAX + FRAME_BYTES;
/// Maximum window of a frame, as a power of two. zstd uses 2 MiB at this level.
const WINDOW_LOG_MAX: u32 = 23;
/// Maximum number of lines in a frame. The shortest document is longer than the 64 bytes assumed for each line.
const FRAME_LINES_MAX: usize = FRAME_BYTES / 64;
/// zstd's default level. Its window covers all lines of a frame, which are similar.
const LEVEL: i32 = 3;
/// Maximum number of frames in a recording: half a year, with an index of 100 MB.
const FRAMES_MAX: usize = 4 * 1024 * 1024;

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the texts document the causes")]
pub enum Error {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is not a recording of ttmon")]
    NotOurs,
    #[error("it is of version {0}, and this ttmon knows {VERSION}")]
    Version(u64),
    /// The recording has no complete frame.
    #[error("the recording is empty")]
    Empty,
    #[error("a part of the recording is damaged")]
    Damaged,
}

/// Writes a recording.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    lines: Vec<u8>,
    first: Option<UnixTime>,
    /// Time of the previous document.
    last: Option<UnixTime>,
    count: u32,
}

impl<W: Write> Writer<W> {
    /// Starts a recording with a header line.
    pub fn new(out: W, program: &str, started: UnixTime) -> io::Result<Self> {
        let mut writer = Self { out, lines: Vec::new(), first: None, last: None, count: 0 };
        let header = json!({ "ttmon_recording": VERSION, "version": program, "started": started.rfc3339() });
        writer.add(&header.to_string(), started);
        writer.flush()?;
        Ok(writer)
    }

    /// Adds a document, one line of text. Writes the waiting lines if, at the current interval, the next document would exceed the maximum
    /// time of a frame. The first document is written at once, because the interval is unknown. So is the first document after the clock
    /// was set.
    pub fn push(&mut self, line: &str, time: UnixTime) -> io::Result<()> {
        if line.len() > DOCUMENT_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the sample is too large for a recording"));
        }
        self.add(line, time);
        let since = self.first.map_or(0, |first| time.0.abs_diff(first.0));
        let is_due = self.last.replace(time).is_none_or(|last| since.saturating_add(time.0.abs_diff(last.0)) >= FRAME_NANOS);
        if is_due || self.lines.len() >= FRAME_BYTES { self.flush() } else { Ok(()) }
    }

    fn add(&mut self, line: &str, time: UnixTime) {
        self.first.get_or_insert(time);
        self.lines.extend(line.as_bytes());
        self.lines.push(b'\n');
        self.count += 1;
    }

    /// Writes the waiting lines as a frame. This must also be called at the end.
    pub fn flush(&mut self) -> io::Result<()> {
        let Some(first) = self.first.take() else { return Ok(()) };
        let frame = zstd::bulk::compress(&self.lines, LEVEL)?;
        let mut mark = Vec::with_capacity(8 + MARK_BYTES as usize);
        mark.extend(SKIPPABLE.to_le_bytes());
        mark.extend(MARK_BYTES.to_le_bytes());
        mark.extend((frame.len() as u64).to_le_bytes());
        mark.extend(first.0.to_le_bytes());
        mark.extend(self.count.to_le_bytes());
        self.lines.clear();
        self.count = 0;
        self.out.write_all(&mark)?;
        self.out.write_all(&frame)?;
        self.out.flush()
    }
}

/// The position of a frame. There may be millions, so the struct is small.
#[derive(Clone, Copy, Debug)]
struct FramePosition {
    offset: u64,
    time: UnixTime,
    bytes: u32,
    /// Number of the line after its last line, not counting the header.
    end_line: u32,
}

const _: () = assert!(size_of::<FramePosition>() * FRAMES_MAX <= 100 << 20);

/// Reads a recording at any position.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    frames: Vec<FramePosition>,
    is_cut: bool,
    unpacked: Option<Unpacked>,
}

/// The last unpacked frame: its text, and the end of each line.
#[derive(Debug)]
struct Unpacked {
    index: usize,
    text: String,
    ends: Vec<usize>,
}

impl Unpacked {
    fn line(&self, number: usize) -> Option<&str> {
        let begin = number.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).map(|end| end + 1))?;
        self.text.get(begin..*self.ends.get(number)?)
    }
}

impl<R: Read + Seek> Reader<R> {
    /// Reads all marks. The search ends at the first incomplete frame.
    pub fn new(mut source: R) -> Result<Self, Error> {
        let length = source.seek(SeekFrom::End(0))?;
        source.rewind()?;
        let mut frames: Vec<FramePosition> = Vec::new();
        let (mut offset, mut end_line) = (0, 0_u32);
        while offset < length && frames.len() < FRAMES_MAX {
            let Some((bytes, time, lines)) = read_mark(&mut source)? else {
                if frames.is_empty() {
                    return Err(Error::NotOurs);
                }
                break;
            };
            let begin = offset + 8 + u64::from(MARK_BYTES);
            let Some(end) = begin.checked_add(bytes).filter(|end| *end <= length) else { break };
            let (Ok(bytes), Some(lines)) = (u32::try_from(bytes), end_line.checked_add(lines)) else { break };
            end_line = if frames.is_empty() { 0 } else { lines };
            frames.push(FramePosition { offset: begin, time, bytes, end_line });
            offset = end;
            source.seek(SeekFrom::Start(end))?;
        }
        let mut reader = Self { source, frames, is_cut: offset < length, unpacked: None };
        reader.check_header()?;
        reader.frames.remove(0);
        reader.unpacked = None;
        if reader.frames.is_empty() { Err(Error::Empty) } else { Ok(reader) }
    }

    fn check_header(&mut self) -> Result<(), Error> {
        if self.frames.is_empty() {
            return Err(Error::Empty);
        }
        let header = self.unpack(0, 1).map_err(|_| Error::NotOurs)?.line(0).ok_or(Error::NotOurs)?;
        let header: Value = serde_json::from_str(header).map_err(|_| Error::NotOurs)?;
        match header["ttmon_recording"].as_u64() {
            Some(VERSION) => Ok(()),
            Some(other) => Err(Error::Version(other)),
            None => Err(Error::NotOurs),
        }
    }

    /// Returns the number of documents.
    pub fn len(&self) -> usize {
        self.frames.last().map_or(0, |frame| frame.end_line as usize)
    }

    /// Returns whether there are no documents. A reader always has at least one.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the end of the recording is missing.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns a document, by its number.
    pub fn line(&mut self, number: usize) -> Result<&str, Error> {
        let index = self.frame_of(number);
        let first_line = self.first_line(index);
        let end_line = self.frames.get(index).ok_or(Error::Damaged)?.end_line as usize;
        self.unpack(index, end_line - first_line)?.line(number - first_line).ok_or(Error::Damaged)
    }

    /// Returns the index of the frame that contains a document.
    fn frame_of(&self, number: usize) -> usize {
        self.frames.partition_point(|frame| frame.end_line as usize <= number)
    }

    fn first_line(&self, index: usize) -> usize {
        index.checked_sub(1).and_then(|before| self.frames.get(before)).map_or(0, |frame| frame.end_line as usize)
    }

    /// Returns the number of the first document after the frame that contains a document. Callers skip a damaged frame with it.
    pub fn behind_frame_of(&self, number: usize) -> usize {
        self.frames.get(self.frame_of(number)).map_or(self.len(), |frame| frame.end_line as usize)
    }

    /// Returns the number of the first document of the frame that contains a time. A frame covers five seconds.
    pub fn number_at(&self, time: UnixTime) -> usize {
        let after = self.frames.partition_point(|frame| frame.time <= time);
        self.first_line(after.saturating_sub(1))
    }

    /// Unpacks a frame. A frame whose number of lines differs from its mark is damaged, so the index of lines cannot need more memory than
    /// the text.
    fn unpack(&mut self, index: usize, lines: usize) -> Result<&Unpacked, Error> {
        if self.unpacked.as_ref().is_none_or(|unpacked| unpacked.index != index) {
            let frame = self.frames.get(index).ok_or(Error::Damaged)?;
            self.source.seek(SeekFrom::Start(frame.offset))?;
            let mut decoder = Decoder::new((&mut self.source).take(frame.bytes.into())).map_err(|_| Error::Damaged)?;
            decoder.window_log_max(WINDOW_LOG_MAX)?;
            let mut text = String::new();
            decoder.take(UNPACKED_BYTES_MAX as u64 + 1).read_to_string(&mut text).map_err(|_| Error::Damaged)?;
            if text.len() > UNPACKED_BYTES_MAX {
                return Err(Error::Damaged);
            }
            let ends: Vec<usize> = text.match_indices('\n').map(|(end, _)| end).take(lines + 1).collect();
            if ends.len() != lines {
                return Err(Error::Damaged);
            }
            self.unpacked = Some(Unpacked { index, text, ends });
        }
        self.unpacked.as_ref().ok_or(Error::Damaged)
    }
}

/// Reads a mark. Returns `None` if the mark is incomplete, or if its frame is invalid.
fn read_mark(source: &mut impl Read) -> io::Result<Option<(u64, UnixTime, u32)>> {
    let mut bytes = [0; 28];
    match source.read_exact(&mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    let is_ours = word(0) == SKIPPABLE && word(4) == MARK_BYTES;
    let lines = word(24);
    Ok((is_ours && (1..=FRAME_LINES_MAX).contains(&(lines as usize))).then(|| (long(8), UnixTime(long(16)), lines)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    const SECOND: u64 = 1_000_000_000;

    fn recorded(seconds: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out, "0.1.0", UnixTime(100 * SECOND)).unwrap();
        for second in 0..seconds {
            writer
                .push(&format!("{{\"second\":{second},\"text\":\"{}\"}}", "same ".repeat(50)), UnixTime((100 + second) * SECOND))
                .unwrap();
        }
        writer.flush().unwrap();
        out
    }

    fn second(line: &str) -> u64 {
        serde_json::from_str::<Value>(line).unwrap()["second"].as_u64().unwrap()
    }

    #[test]
    fn every_line_comes_back_in_any_order() {
        let mut reader = Reader::new(Cursor::new(recorded(100))).unwrap();
        assert_eq!((reader.len(), reader.is_cut()), (100, false));
        for number in (0..100).rev() {
            assert_eq!(second(reader.line(number).unwrap()), number as u64);
        }
        assert!(reader.line(100).is_err());
        let found = reader.number_at(UnixTime(150 * SECOND));
        assert!((45..=50).contains(&found), "{found}");
        assert_eq!(reader.number_at(UnixTime(0)), 0);
        let next = reader.behind_frame_of(found);
        assert!((found + 1..=found + 6).contains(&next) && reader.behind_frame_of(next) > next, "{found} {next}");
        assert_eq!([99, 100].map(|number| reader.behind_frame_of(number)), [100, 100]);
    }

    /// If the file ends anywhere, all frames before that position are readable.
    #[test]
    fn a_cut_off_tail_costs_one_frame() {
        let whole = recorded(40);
        let mut last = 0;
        for length in 0..whole.len() {
            let Ok(mut reader) = Reader::new(Cursor::new(whole[..length].to_vec())) else { continue };
            assert!(reader.len() >= last && reader.len() < 40);
            last = reader.len();
            assert_eq!(second(reader.line(last - 1).unwrap()), last as u64 - 1);
        }
        assert!(last >= 34, "{last}");
    }

    /// The documents that remain when a recorder is killed after writing documents at these seconds.
    #[test]
    fn a_recorder_that_is_killed_loses_less_than_five_seconds() {
        let left = |seconds: &[u64]| {
            let mut out = Vec::new();
            let mut writer = Writer::new(&mut out, "0.1.0", UnixTime(100 * SECOND)).unwrap();
            for second in seconds {
                writer.push("{}", UnixTime(second * SECOND)).unwrap();
            }
            drop(writer);
            Reader::new(Cursor::new(out)).unwrap().len()
        };
        assert_eq!(left(&[100, 110, 120, 50, 51]), 4, "only the last one, a second after the one before, is lost");
        assert_eq!((left(&[100, 104]), left(&[100, 104, 108]), left(&[100, 104, 108, 112, 116])), (1, 3, 5));
        assert_eq!((left(&[100, 101, 102, 103, 104]), left(&[100, 101, 102, 103, 104, 105])), (1, 6));
    }

    #[test]
    fn a_frame_whose_lines_differ_from_its_mark_is_damaged() {
        let with_frame = |text: &str, lines: u32| {
            let (mut bytes, frame) = (recorded(0), zstd::bulk::compress(text.as_bytes(), LEVEL).unwrap());
            bytes.extend(SKIPPABLE.to_le_bytes());
            bytes.extend(MARK_BYTES.to_le_bytes());
            bytes.extend((frame.len() as u64).to_le_bytes());
            bytes.extend(SECOND.to_le_bytes());
            bytes.extend(lines.to_le_bytes());
            bytes.extend(frame);
            Reader::new(Cursor::new(bytes))
        };
        let mut good = with_frame("a\n\nc\n", 3).unwrap();
        assert_eq!([0, 1, 2].map(|number| good.line(number).unwrap().to_owned()), ["a", "", "c"]);
        assert!(matches!(with_frame(&"\n".repeat(1 << 20), 3).unwrap().line(0), Err(Error::Damaged)));
        assert!(matches!(with_frame("a\n", 2).unwrap().line(0), Err(Error::Damaged)));
        for lines in [0, u32::MAX] {
            assert!(matches!(with_frame("a\n", lines), Err(Error::Empty)), "no frame of ours has {lines}");
        }
    }

    #[test]
    fn a_frame_larger_than_any_of_ours_is_damaged() {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out, "0.1.0", UnixTime(100 * SECOND)).unwrap();
        assert!(writer.push(&"x".repeat(DOCUMENT_BYTES_MAX + 1), UnixTime(100 * SECOND)).is_err());
        writer.push("{}", UnixTime(100 * SECOND)).unwrap();
        writer.add(&"x".repeat(UNPACKED_BYTES_MAX), UnixTime(101 * SECOND));
        writer.flush().unwrap();
        let mut reader = Reader::new(Cursor::new(out)).unwrap();
        assert_eq!(reader.line(0).unwrap(), "{}");
        assert!(matches!(reader.line(1), Err(Error::Damaged)));
    }

    #[test]
    fn other_files_are_rejected() {
        let read = |bytes: &[u8]| Reader::new(Cursor::new(bytes.to_vec())).err();
        assert!(matches!(read(b""), Some(Error::Empty)));
        assert!(matches!(read(b"{\"schema\":1}\n, and so on and so forth"), Some(Error::NotOurs)));
        assert!(matches!(read(&recorded(0)), Some(Error::Empty)));
    }

    proptest! {
        #[test]
        fn damage_is_an_error_and_never_a_panic(at in 0usize..4000, value: u8) {
            let mut bytes = recorded(30);
            let at = at % bytes.len();
            bytes[at] = value;
            if let Ok(mut reader) = Reader::new(Cursor::new(bytes)) {
                for number in 0..reader.len().min(100) {
                    let _ = reader.line(number);
                }
            }
        }
    }
}
