//! Destination of the output: standard output, or a file that appears only when it is complete.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use crate::failure::Failure;

const STREAM_BYTES: usize = 64 * 1024;

#[derive(Clone, Debug)]
pub(crate) enum Output {
    Stdout,
    File(PathBuf),
}

impl Output {
    pub(crate) fn write(&self, text: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(text)?;
                stdout.flush()?;
                Ok(())
            }
            Self::File(path) => ttmon_os::write(path, text)
                .map_err(|error| Failure::new(format!("cannot write {}: {error}; nothing was changed", path.display()))),
        }
    }

    /// Checks whether writing is likely to work, for commands that write only after a long time.
    pub(crate) fn try_out(&self) -> io::Result<()> {
        match self {
            Self::Stdout => Ok(()),
            Self::File(path) => ttmon_os::check_writable(path),
        }
    }
}

/// Writes to standard output without keeping the whole text in memory.
pub(crate) fn stream(write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut stdout = BufWriter::with_capacity(STREAM_BYTES, io::stdout().lock());
    write(&mut stdout)?;
    stdout.flush()?;
    Ok(())
}
