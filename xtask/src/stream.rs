//! Runs a command and reads its output while it runs.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use crate::project::{called, succeeded};

/// Which of the two outputs is read. The other one passes through.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    Stdout,
    Stderr,
}

/// Calls a function with each line as it arrives. The error of a failed command follows its last line.
pub(crate) fn listen(command: &mut Command, voice: Voice, hear: impl FnMut(&[u8]) -> io::Result<()>) -> Result<(), String> {
    match voice {
        Voice::Stdout => command.stdout(Stdio::piped()),
        Voice::Stderr => command.stderr(Stdio::piped()),
    };
    let failed = |error: io::Error| error.to_string();
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", called(command)))?;
    let heard = match voice {
        Voice::Stdout => child.stdout.take().map(|output| lines(output, hear)),
        Voice::Stderr => child.stderr.take().map(|output| lines(output, hear)),
    };
    let heard = heard.ok_or("the pipe to the command was not made")?.map_err(failed);
    let status = child.wait().map_err(failed)?;
    heard?;
    succeeded(command, status)
}

fn lines(from: impl Read, mut hear: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let (mut from, mut line) = (BufReader::new(from), Vec::new());
    // The output may not be UTF-8, and the last line may lack its end.
    while from.read_until(b'\n', &mut line)? > 0 {
        hear(&line)?;
        line.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(script: &str, voice: Voice) -> (Vec<u8>, Result<(), String>) {
        let mut all = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::null()).stderr(Stdio::null());
        let ended = listen(&mut command, voice, |line| {
            all.extend_from_slice(line);
            all.push(b'|');
            Ok(())
        });
        (all, ended)
    }

    #[test]
    fn lines_come_whole_from_the_voice_that_was_asked_for() {
        assert_eq!(heard("printf 'a\\nb'; echo c >&2", Voice::Stdout), (b"a\n|b|".to_vec(), Ok(())));
        assert_eq!(heard("echo a; printf '\\377\\n' >&2", Voice::Stderr), (b"\xff\n|".to_vec(), Ok(())));
    }

    #[test]
    fn a_failure_follows_the_last_line() {
        let (lines, ended) = heard("echo a; exit 3", Voice::Stdout);
        assert_eq!(lines, b"a\n|");
        assert_eq!(ended, Err("sh -c echo a; exit 3: exit status: 3".to_owned()));
    }
}
