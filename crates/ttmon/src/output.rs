//! Where the output goes: standard output, or a file that is written whole or not at all.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use crate::failure::Failure;

/// What a stream writes at once.
const STREAM_BYTES: usize = 64 * 1024;

/// Where to.
#[derive(Clone, Debug)]
pub(crate) enum Output {
    Stdout,
    File(PathBuf),
}

impl Output {
    /// Writes one complete text.
    pub(crate) fn write(&self, text: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(text)?;
                stdout.flush()?;
                Ok(())
            }
            Self::File(path) => ttmon_files::write(path, text)
                .map_err(|error| Failure::new(format!("cannot write {}: {error}; nothing was changed", path.display()))),
        }
    }

    /// Whether a text is likely to be written, for those who will have one only after a long time.
    pub(crate) fn try_out(&self) -> io::Result<()> {
        match self {
            Self::Stdout => Ok(()),
            Self::File(path) => ttmon_files::check_writable(path),
        }
    }
}

/// Standard output for a text that is better not held in memory as a whole.
pub(crate) fn stream(write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut stdout = BufWriter::with_capacity(STREAM_BYTES, io::stdout().lock());
    write(&mut stdout)?;
    stdout.flush()?;
    Ok(())
}
