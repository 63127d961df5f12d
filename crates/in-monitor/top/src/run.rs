//! The main loop: wait for an event, handle all waiting events, draw once.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use crossterm::event::KeyEventKind;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use ttmon_model::cluster::Cluster;
use ttmon_model::limits::SETTINGS_BYTES_MAX;
use ttmon_model::units::UnixTime;
use ttmon_os::Directory;

use crate::alerts::Alerts;
use crate::background::{self, KeyOutcome, REPLY_TIME_MAX, TerminalReplies};
use crate::clock::Clock;
use crate::columns::{COLUMNS, HOST};
use crate::feed::{Feed, FeedError, Request};
use crate::host::Host;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::signals;
use crate::state::TopState;
use crate::terminal::{self, Input, on_input, on_signals};
use crate::theme::Theme;
use crate::update::{Effect, Event, show_message, update};
use crate::view::view;

/// How long to wait for the first snapshot before the first frame is drawn. Most machines answer within this time.
const FIRST_LOOK: Duration = Duration::from_millis(8);
/// A feed is considered silent if its message is later than this.
const LATE: Duration = Duration::from_millis(1500);
const LATE_ELSEWHERE: Duration = Duration::from_secs(5);
/// A missing service is polled again within this time.
const ASKED_AGAIN: Duration = Duration::from_secs(60);
const SIZE_MAX: u16 = 1000;

/// Options of the program.
#[derive(Debug)]
pub struct Options {
    /// Settings of the configuration file, overridden by flags.
    pub settings: Settings,
    /// File to save the settings in, if there is one.
    pub config: Option<PathBuf>,
    /// The theme for the detected terminal.
    pub theme: Theme,
    /// Whether to query the terminal for its background, because the environment does not provide it.
    pub asks_background: bool,
    /// The user's clock.
    pub clock: Clock,
    /// The wiring of this machine's chips, if the user gave a descriptor.
    pub cluster: Option<Cluster>,
    /// Whether sending signals is disabled.
    pub is_read_only: bool,
    /// Whether `--deep` is on at the start.
    pub is_deep: bool,
    /// A message that is shown at the start.
    pub message: Option<String>,
    /// A hint for new users, shown while there is no other message.
    pub hint: Option<&'static str>,
    /// Alert rules.
    pub rules: Vec<ttmon_alerts::Rule>,
}

/// How the program ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The user quit.
    Left,
    /// The program received this signal, and must end by it.
    Signal(i32),
}

/// Why the program failed.
#[derive(Debug)]
pub enum Error {
    /// The terminal failed.
    Terminal(io::Error),
    /// There is nothing to show.
    Feed(FeedError),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Terminal(error)
    }
}

/// Runs until the user quits. The terminal is restored in every case.
/// `feeds` has one feed per machine, and at least one.
pub fn run(feeds: Vec<Feed>, options: Options) -> Result<End, Error> {
    let (events, arrivals) = mpsc::channel();
    let mut requests = Vec::new();
    let mut hosts = Vec::new();
    for (index, feed) in feeds.into_iter().enumerate() {
        let (sender, receiver) = mpsc::channel();
        let alerts = Alerts::new(options.rules.clone());
        hosts.push(Host { address: feed.address(), is_recording: matches!(feed, Feed::Replay(_)), alerts, ..Host::default() });
        feed.start(index, options.settings.refresh, receiver, events.clone())?;
        requests.push(sender);
    }
    let mut state = TopState::new(size()?, options.settings, options.theme, options.clock);
    state.hosts = hosts;
    // The host column exists only with several machines, so a single machine cannot be sorted by it.
    if !state.has_groups() && COLUMNS[state.settings.sort].name == HOST {
        state.settings.sort = Settings::default().sort;
    }
    state.is_read_only = options.is_read_only;
    state.hint = options.hint;
    if options.is_deep {
        state.set_deep(true);
    }
    state.cluster = options.cluster;
    // Data that is available at once is in the first frame; a fatal error is printed without taking the terminal.
    let mut effects = Vec::new();
    if let Ok(event) = arrivals.recv_timeout(FIRST_LOOK) {
        effects = update(&mut state, event);
        if let Some(Effect::Fail(error)) = effects.iter().find(|effect| matches!(effect, Effect::Fail(_))) {
            return Err(Error::Feed(error.clone()));
        }
    }
    if let Some(message) = options.message {
        show_message(&mut state, message);
    }
    let signals = events.clone();
    on_signals(&[SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP], move |signal| signals.send(Event::Signal(signal)).is_ok())?;
    let screen = Screen::enter()?;
    let mut replies = TerminalReplies::default();
    on_input(move |input| events_of(input, &mut replies).into_iter().all(|event| events.send(event).is_ok()))?;
    let (config, asks_background) = (options.config, options.asks_background);
    Loop { state, screen, requests, config, buffer: Buffer::empty(Rect::ZERO), asks_background }.run(&arrivals, effects)
}

fn events_of(input: io::Result<Input>, replies: &mut TerminalReplies) -> Vec<Event> {
    match input {
        Ok(Input::Key(key)) if key.kind != KeyEventKind::Release => match replies.take_key(key) {
            KeyOutcome::Keys(keys) => keys.into_iter().map(Event::Key).collect(),
            KeyOutcome::Reply(background) => background.map(Event::Background).into_iter().collect(),
        },
        Ok(Input::Mouse(mouse)) => vec![Event::Mouse(mouse)],
        Ok(Input::Resize(width, height)) => vec![Event::Resized(width.min(SIZE_MAX), height.min(SIZE_MAX))],
        Ok(_) => Vec::new(),
        Err(error) => vec![Event::InputError(error.to_string())],
    }
}

fn no_sources() -> Error {
    let message = "the screen lost its sources; start it again".to_owned();
    Error::Feed(FeedError { message, is_no_device: false, since: UnixTime(0) })
}

fn size() -> io::Result<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(io::stdout())?;
    Ok((size.ws_col.min(SIZE_MAX), size.ws_row.min(SIZE_MAX)))
}

struct Loop {
    state: TopState,
    screen: Screen,
    requests: Vec<Sender<Request>>,
    config: Option<PathBuf>,
    buffer: Buffer,
    asks_background: bool,
}

impl Loop {
    fn run(mut self, arrivals: &Receiver<Event>, first: Vec<Effect>) -> Result<End, Error> {
        for effect in first {
            self.perform(effect)?;
        }
        let mut received = vec![Instant::now(); self.requests.len()];
        self.draw()?;
        // Sent after the first frame, to avoid a delay.
        let mut queried = self.asks_background.then(Instant::now);
        if queried.is_some() {
            terminal::write(background::QUERY.as_bytes())?;
        }
        loop {
            let mut next = Some(self.wait(arrivals, &received)?);
            while let Some(event) = next {
                if let Event::Feed(host, _) = &event {
                    received[*host] = Instant::now();
                }
                // Only the first reply about the background counts, if it is in time.
                let is_ignored = matches!(event, Event::Background(_)) && queried.take().is_none_or(|at| at.elapsed() > REPLY_TIME_MAX);
                let effects = if is_ignored { Vec::new() } else { update(&mut self.state, event) };
                for effect in effects {
                    if let Some(end) = self.perform(effect)? {
                        return Ok(end);
                    }
                }
                next = arrivals.try_recv().ok();
            }
            self.draw()?;
        }
    }

    /// Waits for the next event. An overdue feed also causes an event.
    fn wait(&self, arrivals: &Receiver<Event>, received: &[Instant]) -> Result<Event, Error> {
        // A paused recording is not overdue.
        if self.state.replay.is_some() {
            return arrivals.recv().map_err(|_| no_sources());
        }
        let until_silent = |(index, received): (usize, &Instant)| (self.until_silent(&self.state.hosts[index], *received), index);
        let (until_silent, host) = received.iter().enumerate().map(until_silent).min().unwrap_or((LATE, 0));
        match arrivals.recv_timeout(until_silent.max(Duration::from_millis(10))) {
            Ok(event) => Ok(event),
            Err(RecvTimeoutError::Timeout) => Ok(Event::Silence(host, received[host].elapsed())),
            Err(RecvTimeoutError::Disconnected) => Err(no_sources()),
        }
    }

    /// Time until a machine is reported as silent, or until its silent time is updated.
    fn until_silent(&self, host: &Host, received: Instant) -> Duration {
        let late = match (&host.address, &host.error) {
            (None, _) => self.state.settings.refresh + LATE,
            (Some(_), None) => self.state.settings.refresh + LATE_ELSEWHERE,
            // The machine is already shown as missing, and sends nothing until the next request.
            (Some(_), Some(_)) => ASKED_AGAIN,
        };
        // Silence is counted in seconds, so it is checked every second.
        let next = if host.silent_for.is_zero() { late } else { host.silent_for + Duration::from_secs(1) };
        next.saturating_sub(received.elapsed())
    }

    fn draw(&mut self) -> io::Result<()> {
        let (width, height) = self.state.size;
        let area = Rect { x: 0, y: 0, width, height };
        self.buffer.resize(area);
        self.buffer.reset();
        view(&self.state, &mut self.buffer);
        self.screen.show(&mut self.buffer)
    }

    /// Performs an effect. Returns how the program ends, if it does.
    fn perform(&mut self, effect: Effect) -> Result<Option<End>, Error> {
        match effect {
            Effect::Quit => return Ok(Some(End::Left)),
            Effect::Die(signal) => return Ok(Some(End::Signal(signal))),
            Effect::Fail(error) => return Err(Error::Feed(error)),
            // If the feed has ended, its silence is reported instead.
            Effect::Send(host, request) => _ = self.requests[host].send(request),
            Effect::SendAll(request) => self.requests.iter().for_each(|feed| _ = feed.send(request.clone())),
            Effect::Signal(key, owner, at) => {
                let outcome = signals::send(key, &owner, at);
                show_message(&mut self.state, outcome);
            }
            Effect::Save => {
                let outcome = match &self.config {
                    None => "settings not saved: no directory for them; give --config FILE".to_owned(),
                    Some(path) => match save(path, &self.state.settings) {
                        Ok(()) => format!("settings saved to {}", path.display()),
                        Err(error) => format!("settings not saved: {}: {error}", path.display()),
                    },
                };
                show_message(&mut self.state, outcome);
            }
            Effect::Redraw => self.screen.forget(),
            Effect::Ring => terminal::write(b"\x07")?,
            Effect::Suspend => {
                terminal::obey(SIGTSTP)?;
                self.screen.forget();
                self.state.size = size()?;
            }
        }
        Ok(None)
    }
}

/// Replaces the settings file. A file that cannot be read is left unchanged.
fn save(path: &Path, settings: &Settings) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        Directory::create(directory)?;
    }
    let earlier = match ttmon_os::read_text(path, SETTINGS_BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => String::new(),
        read => read?,
    };
    ttmon_os::write(path, settings.write(&earlier).map_err(io::Error::other)?.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_file_that_cannot_be_read_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("top.toml");
        for text in [&b"refresh_ms = 250\nmy precious = [\n"[..], b"# \xff\n"] {
            fs::write(&path, text).unwrap();
            assert!(save(&path, &Settings::default()).is_err());
            assert_eq!(fs::read(&path).unwrap(), text);
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left behind");
        }
    }

    #[test]
    fn a_link_stays_one_and_a_file_as_private_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let (path, kept) = (directory.path().join("top.toml"), directory.path().join("kept.toml"));
        fs::write(&kept, "# mine\n").unwrap();
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&kept, &path).unwrap();
        save(&path, &Settings::default()).unwrap();
        assert!(path.is_symlink());
        assert!(fs::read_to_string(&kept).unwrap().starts_with("# mine\nview = "));
        assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_file(&kept).unwrap();
        assert!(save(&path, &Settings::default()).is_err(), "a link to nothing");
        fs::remove_file(&path).unwrap();
        save(&directory.path().join("new/top.toml"), &Settings::default()).unwrap();
    }
}
