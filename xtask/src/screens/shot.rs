//! `cargo xtask screens shot`: creates a picture of any program in a terminal, for visual comparison.

use std::fs;
use std::io::Write;
use std::num::NonZeroU16;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use vt100::Parser;

use super::svg::{self, Paper};
use crate::stop::Stop;

const USAGE: &str = "screens shot OUT.svg COLUMNSxROWS SECONDS dark|light KEYS COMMAND...";
/// Pause between two keys, so that each is drawn.
const KEY_PAUSE: Duration = Duration::from_millis(400);

/// Runs a command for some seconds, presses keys, waits for the output of the last key and writes the screen. Prints the bytes per second
/// that the command wrote before the first key.
pub(super) fn run(arguments: &[String]) -> Result<(), Stop> {
    let [out, size, seconds, paper, keys, program, rest @ ..] = arguments else { return Err(Stop::Usage(USAGE.to_owned())) };
    let usage = || Stop::Usage(USAGE.to_owned());
    let (columns, rows) = size.split_once('x').ok_or_else(usage)?;
    let number = |text: &str| text.parse::<NonZeroU16>().map_err(|_| usage());
    let (columns, rows) = (number(columns)?, number(rows)?);
    let seconds: u64 = seconds.parse().map_err(|_| usage())?;
    let paper = if paper == "light" { Paper::Light } else { Paper::Dark };
    let failed = |error: &dyn std::fmt::Display| Stop::from(format!("{program}: {error}"));
    let size = PtySize { rows: rows.get(), cols: columns.get(), pixel_width: 0, pixel_height: 0 };
    let pair = native_pty_system().openpty(size).map_err(|error| failed(&error))?;
    let mut command = CommandBuilder::new(program);
    command.args(rest);
    for (name, value) in [("LANG", "C.UTF-8"), ("TERM", "xterm-256color"), ("COLORTERM", "truecolor")] {
        command.env(name, value);
    }
    let mut child = pair.slave.spawn_command(command).map_err(|error| failed(&error))?;
    drop(pair.slave);
    let output = super::listen(pair.master.try_clone_reader().map_err(|error| failed(&error))?);
    let mut keyboard = pair.master.take_writer().map_err(|error| failed(&error))?;
    let mut parser = Parser::new(rows, columns, 0);
    let read = |parser: &mut Parser, time: Duration| {
        let deadline = Instant::now() + time;
        let mut count = 0;
        while let Some(left) = deadline.checked_duration_since(Instant::now()) {
            match output.recv_timeout(left) {
                Ok(bytes) => {
                    count += bytes.len();
                    parser.process(&bytes);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        count
    };
    // The first screen is not part of the steady output rate.
    read(&mut parser, Duration::from_secs(2));
    let written = read(&mut parser, Duration::from_secs(seconds));
    for key in keys.chars() {
        keyboard.write_all(key.encode_utf8(&mut [0; 4]).as_bytes()).and_then(|()| keyboard.flush()).map_err(|error| failed(&error))?;
        read(&mut parser, KEY_PAUSE);
    }
    fs::write(out, svg::of(parser.screen(), paper)).map_err(|error| format!("{out}: {error}"))?;
    println!("screens: wrote {out}; {} bytes/s", written as u64 / seconds.max(1));
    let _ = keyboard.write_all(b"q").and_then(|()| keyboard.flush());
    read(&mut parser, KEY_PAUSE);
    let _ = child.kill();
    let _ = child.wait();
    Ok(())
}
