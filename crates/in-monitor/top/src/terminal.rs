//! The terminal of a program that uses the whole screen: taken over, read in threads, and restored in every case.

use std::io::{self, Write};
use std::panic;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;

use crossterm::event::read;
use rustix::process::getpgrp;
use rustix::stdio::stdin;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

pub use crossterm::event::{Event as Input, KeyCode};

/// How a program uses the terminal.
#[derive(Debug)]
pub struct Mode {
    /// What is written to take the terminal over.
    pub enter: &'static str,
    /// What is written to give it back.
    pub leave: &'static str,
    /// Whether Ctrl-C and Ctrl-Z are keys and not signals. A program without this also runs without a keyboard.
    pub is_raw: bool,
}

/// The terminal, taken over. It is given back when this is dropped, before a panic is printed, and by [`obey`].
#[derive(Debug)]
pub struct Session(());

struct Taken {
    mode: &'static Mode,
    /// The original settings of the keyboard, if they were changed.
    keyboard: Option<Termios>,
}

fn taken() -> MutexGuard<'static, Option<Taken>> {
    static TAKEN: Mutex<Option<Taken>> = Mutex::new(None);
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Takes the terminal over. A panic, in any thread, gives it back before it is printed.
    pub fn enter(mode: &'static Mode) -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let print_panic = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                give_back();
                print_panic(info);
            }));
        });
        take_over(mode)?;
        Ok(Self(()))
    }

    /// Whether keys can be read.
    pub fn has_keyboard(&self) -> bool {
        taken().as_ref().is_some_and(|taken| taken.keyboard.is_some())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        give_back();
    }
}

/// Whether the terminal is taken over now.
pub(crate) fn is_taken() -> bool {
    taken().is_some()
}

fn take_over(mode: &'static Mode) -> io::Result<()> {
    let keyboard = take_keyboard(mode.is_raw)?;
    *taken() = Some(Taken { mode, keyboard });
    write(mode.enter.as_bytes())
}

/// Gives the terminal back, once. Returns how it was used.
fn give_back() -> Option<&'static Mode> {
    let Taken { mode, keyboard } = taken().take()?;
    // If the terminal is gone, both fail, and there is nothing to restore.
    let _ = write(mode.leave.as_bytes());
    let _ = keyboard.map(|keyboard| tcsetattr(stdin(), OptionalActions::Now, &keyboard));
    Some(mode)
}

/// Turns off lines and echo, and in raw mode the keys of signals. Returns the original settings, or `None` without a keyboard.
fn take_keyboard(is_raw: bool) -> io::Result<Option<Termios>> {
    // Changing the settings would stop a background job.
    let is_ours = is_raw || tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp());
    let saved = match tcgetattr(stdin()) {
        Ok(saved) if is_ours => saved,
        Err(error) if is_raw => return Err(error.into()),
        _ => return Ok(None),
    };
    let mut changed = saved.clone();
    if is_raw {
        changed.make_raw();
    } else {
        changed.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    }
    tcsetattr(stdin(), OptionalActions::Now, &changed)?;
    Ok(Some(saved))
}

/// Gives the terminal back and performs the default action of a signal. If that only stopped the program, takes the terminal over again.
/// Standard output is locked meanwhile, so that nothing is drawn.
pub fn obey(signal: i32) -> io::Result<()> {
    let _stdout = io::stdout().lock();
    let mode = give_back();
    emulate_default_handler(signal)?;
    mode.map_or(Ok(()), take_over)
}

/// Writes bytes to the terminal at once.
pub fn write(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Calls `handle` for each of these signals, in a thread, until it returns false. Call this before the terminal is taken over: otherwise
/// a signal in between would not restore it.
pub fn on_signals(signals: &[i32], handle: impl FnMut(i32) -> bool + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new(signals)?;
    let builder = thread::Builder::new().name("signals".to_owned()).stack_size(128 * 1024);
    builder.spawn(move || signals.forever().all(handle))?;
    Ok(())
}

/// Calls `handle` for each input, in a thread, until it returns false or the input ends with an error.
pub fn on_input(mut handle: impl FnMut(io::Result<Input>) -> bool + Send + 'static) -> io::Result<()> {
    let builder = thread::Builder::new().name("keys".to_owned()).stack_size(256 * 1024);
    builder.spawn(move || {
        loop {
            let input = read();
            let is_last = input.is_err();
            if !handle(input) || is_last {
                return;
            }
        }
    })?;
    Ok(())
}
