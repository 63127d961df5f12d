//! `cargo xtask screens shot`: creates a picture of any program in a terminal, for visual comparison.

use std::path::Path;
use std::time::{Duration, Instant};

use portable_pty::CommandBuilder;
use vt100::Parser;

use super::svg;
use crate::files;
use crate::stop::Stop;
use crate::terminal::{self, Terminal};

const USAGE: &str = "screens shot OUT.svg COLUMNSxROWS SECONDS dark|light KEYS COMMAND...";
/// Pause between two keys, so that each is drawn.
const KEY_PAUSE: Duration = Duration::from_millis(400);

/// Runs a command for some seconds, presses keys, waits for the output of the last key and writes the screen. Prints the bytes per second
/// that the command wrote before the first key.
pub(super) fn run(arguments: &[String]) -> Result<(), Stop> {
    let [out, size, seconds, paper, keys, program, rest @ ..] = arguments else { return Err(Stop::Usage(USAGE.to_owned())) };
    let usage = || Stop::Usage(USAGE.to_owned());
    let (columns, rows) = size.split_once('x').ok_or_else(usage)?;
    let number = |text: &str| text.parse::<u16>().ok().filter(|number| *number > 0).ok_or_else(usage);
    let size = (number(columns)?, number(rows)?);
    let seconds: u64 = seconds.parse().map_err(|_| usage())?;
    let paper = if paper == "light" { svg::LIGHT } else { svg::DARK };
    let mut command = CommandBuilder::new(program);
    command.args(rest);
    for (name, value) in [("LANG", "C.UTF-8"), ("TERM", "xterm-256color"), ("COLORTERM", "truecolor")] {
        command.env(name, value);
    }
    let mut terminal = Terminal::start(command, size)?;
    let mut parser = terminal::parser(size);
    let read = |terminal: &Terminal, parser: &mut Parser, time: Duration| {
        let deadline = Instant::now() + time;
        let mut count = 0;
        while let Some(left) = deadline.checked_duration_since(Instant::now())
            && let Ok((_, bytes)) = terminal.output.recv_timeout(left)
        {
            count += bytes.len();
            parser.process(&bytes);
        }
        count
    };
    // The first screen is not part of the steady output rate.
    read(&terminal, &mut parser, Duration::from_secs(2));
    let written = read(&terminal, &mut parser, Duration::from_secs(seconds));
    for key in keys.chars() {
        terminal.press(key.encode_utf8(&mut [0; 4]))?;
        read(&terminal, &mut parser, KEY_PAUSE);
    }
    files::write(Path::new(out), svg::of(parser.screen(), paper))?;
    println!("screens: wrote {out}; {} bytes/s", written as u64 / seconds.max(1));
    let _ = terminal.press("q");
    read(&terminal, &mut parser, KEY_PAUSE);
    Ok(())
}
