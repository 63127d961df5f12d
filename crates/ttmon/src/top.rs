//! `ttmon top`: the interactive monitor, on the machine a command line names.

use std::env;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use signal_hook::low_level::emulate_default_handler;
use ttmon_ask::{Place as ServicePlace, Roots, Service};
use ttmon_model::limits::SETTINGS_BYTES_MAX;
use ttmon_reads::Pace;
use ttmon_source::Reach;
use ttmon_source::ledgers::Detail;
use ttmon_top::{Background, Clock, Colors, End, Error, Feed, Local, Options, Remote, Replay, Settings, Theme, Themes, View};

use crate::cli::TopArgs;
use crate::failure::Failure;
use crate::invocation::{self, CliTarget, Context};
use crate::open::{OpenMachine, READER_PROGRAM, cluster};
use crate::serve::token;
use crate::server::possible_services;

/// What is said until settings were saved once.
const FIRST_RUN: &str = "F1 or ? lists the keys, 1 to 5 choose a view, F2 changes settings, q quits";

/// Runs it until the user leaves.
pub(crate) fn run(context: &Context, args: &TopArgs) -> Result<(), Failure> {
    if context.json {
        return Err(Failure::usage("top is a screen; for JSON again and again use ttmon -w --json"));
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::new("top needs a terminal for its screen and keys; without one use ttmon, or ttmon -w --json"));
    }
    let (settings, config, mut message) = settings(args)?;
    // Nothing was ever saved: it is the first time.
    let hint = config.as_ref().filter(|path| !path.exists()).map(|_| FIRST_RUN);
    let rules = crate::alerts::configuration(args.config.as_deref(), matches!(context.place, CliTarget::Real));
    let rules = rules.map(|config| config.rules).unwrap_or_else(|failure| {
        message = Some(message.take().map_or(failure.message.clone(), |other| format!("{other}; {}", failure.message)));
        ttmon_alerts::builtin()
    });
    let (feeds, simulation) = match &args.replay {
        Some(path) => (vec![replay(context, path)?], None),
        None if !args.connect.is_empty() => (remotes(context, args)?, None),
        None => {
            let opened = OpenMachine::with_ledgers(context, Pace::Repeated, true, Detail::Totals, Reach::Holders)?;
            let (machine, selection, proc, simulation) = opened.into_parts();
            let (services, is_deep, deep_program) = (possible_services(context), context.deep, PathBuf::from(READER_PROGRAM));
            (vec![Feed::Local(Box::new(Local { machine, selection, proc, services, is_deep, deep_program }))], simulation)
        }
    };
    let options = Options {
        settings,
        config,
        themes: Themes { auto: theme(context) },
        clock: Clock(TimeZone::system()),
        cluster: if let Some(path) = &context.cluster { Some(cluster(path)?) } else { None },
        is_read_only: args.read_only,
        is_deep: context.deep,
        message,
        hint,
        rules,
    };
    let end = ttmon_top::run(feeds, options);
    // The simulated machine ends with the screen that shows it, before this program may die of a signal.
    drop(simulation);
    match end {
        Ok(End::Left) => Ok(()),
        Ok(End::Signal(signal)) => {
            emulate_default_handler(signal)?;
            Ok(())
        }
        Err(Error::Lost(lost)) if lost.is_no_device => Err(Failure::no_device(lost.message)),
        Err(Error::Lost(lost)) => Err(Failure::new(lost.message)),
        Err(Error::Terminal(error)) => Err(Failure::new(format!("the terminal does not answer: {error}; start it again"))),
    }
}

fn replay(context: &Context, path: &Path) -> Result<Feed, Failure> {
    if !matches!(context.place, CliTarget::Real) {
        return Err(Failure::usage("--replay shows a recording; it goes with neither --sim nor --root"));
    }
    let replay = Replay::open(path, context.selection.clone());
    let replay = replay.map_err(|error| Failure::new(format!("--replay {}: {error}", path.display())))?;
    Ok(Feed::Replay(Box::new(replay)))
}

/// A feed for each service that was named.
fn remotes(context: &Context, args: &TopArgs) -> Result<Vec<Feed>, Failure> {
    if !matches!(context.place, CliTarget::Real) || context.cluster.is_some() {
        return Err(Failure::usage("--connect shows the machines of services; it goes with none of --sim, --root and --cluster"));
    }
    let token = token(args.token_file.as_deref())?;
    let mut roots = None;
    let mut feeds = Vec::new();
    let mut known: Vec<ServicePlace> = Vec::new();
    for text in &args.connect {
        let place: ServicePlace = text.parse().map_err(|bad| Failure::usage(format!("--connect {text}: {bad}")))?;
        if known.contains(&place) {
            return Err(Failure::usage(format!("--connect {text}: it is named twice")));
        }
        known.push(place.clone());
        if token.is_some() && !place.is_private() {
            let why = "the token could be read on its way; use https://, or an SSH tunnel and http://localhost";
            return Err(Failure::usage(format!("--connect {text}: {why}")));
        }
        if text.starts_with("https:") && roots.is_none() {
            roots = Some(Roots::read(args.ca.as_deref()).map_err(|why| Failure::new(format!("--connect {text}: {why}")))?);
        }
        let service = Service::new(place, token.as_ref().map(|token| token.reveal().to_owned()), roots.clone());
        feeds.push(Feed::Remote(Box::new(Remote { service, selection: context.selection.clone() })));
    }
    Ok(feeds)
}

/// The file, and flags over it.
fn settings(args: &TopArgs) -> Result<(Settings, Option<PathBuf>, Option<String>), Failure> {
    let mut settings = Settings::default();
    let named = args.config.clone().or_else(|| env::var_os("TTMON_CONFIG").filter(|value| !value.is_empty()).map(PathBuf::from));
    let own = named.clone().or_else(user_config);
    let mut messages = Vec::new();
    let system = named.is_none().then(|| PathBuf::from("/etc/ttmon/config.toml"));
    for path in system.iter().chain(&own) {
        match ttmon_files::read_text(path, SETTINGS_BYTES_MAX) {
            Ok(text) => {
                let said = settings.read(&text);
                if !said.is_empty() {
                    messages.push(format!("{}: {}", path.display(), said.join("; ")));
                }
            }
            // One that is not there yet is made by F12.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => messages.push(format!("{}: {error}", path.display())),
        }
    }
    if let Some(text) = &args.refresh {
        settings.refresh = invocation::parse_refresh(text)?;
    }
    if let Some(number) = args.view {
        let view = View::ALL.get(number.wrapping_sub(1));
        settings.view = *view.ok_or_else(|| Failure::usage(format!("--view {number}: views are 1 to {}", View::ALL.len())))?;
    }
    Ok((settings, own, (!messages.is_empty()).then(|| messages.join("; "))))
}

/// `$XDG_CONFIG_HOME/ttmon/config.toml`, below `~/.config` where that is not set.
fn user_config() -> Option<PathBuf> {
    Some(config_directory()?.join("config.toml"))
}

/// The user's own directory for settings.
pub(crate) fn config_directory() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let directory = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(directory.join("ttmon"))
}

/// What the terminal seems to be able to show.
fn theme(context: &Context) -> Theme {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let colors = match (context.terminal.colors, variable("COLORTERM").as_str(), variable("TERM").as_str()) {
        (false, ..) => Colors::None,
        (_, "truecolor" | "24bit", _) => Colors::True,
        (_, _, term) if term.contains("256color") => Colors::Palette,
        _ => Colors::Sixteen,
    };
    // Terminals that say so say `letters;background`, by the numbers of the sixteen colours.
    let background = match variable("COLORFGBG").rsplit(';').next() {
        Some("7" | "15") => Background::Light,
        _ => Background::Dark,
    };
    Theme { colors, background, ascii: context.terminal.ascii, ..Theme::default() }
}
