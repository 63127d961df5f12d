//! `ttmon top`: runs the interactive monitor on the selected machine.

use std::env;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use signal_hook::low_level::emulate_default_handler;
use ttmon_collect::reads::Sampling;
use ttmon_model::limits::SETTINGS_BYTES_MAX;
use ttmon_top::{Background, Clock, Colors, End, Error, Feed, Local, Options, Remote, Replay, Settings, Theme};

use crate::cli::{GlobalArgs, TopArgs};
use crate::config::{self, ConfigFiles};
use crate::failure::Failure;
use crate::invocation::{CliTarget, Context, refuse};
use crate::open::{MachineRequest, OpenMachine, READER_PROGRAM, cluster};
use crate::server::{possible_services, services_of};

/// Message that is shown until settings are saved for the first time. A narrow screen shows the first parts.
const FIRST_RUN: &str = "F1 lists the keys, q quits, 1 to 5 choose a view, F2 changes settings";

pub(crate) fn run(common: &GlobalArgs, args: &TopArgs) -> Result<(), Failure> {
    let context = &Context::new(common, &[])?.with_deep(args.deep);
    check(common, context, args)?;
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::new("top needs a terminal for its screen and keys; without one use ttmon, or ttmon -w --json"));
    }
    let (settings, settings_file, mut message) = settings(args);
    // If no settings were ever saved, this is the first start.
    let hint = settings_file.as_ref().filter(|path| !path.exists()).map(|_| FIRST_RUN);
    let rules = config::alerts(args.config.as_deref(), matches!(context.target, CliTarget::Real));
    let rules = rules.map(|config| config.rules).unwrap_or_else(|failure| {
        message = Some(message.take().map_or(failure.message.clone(), |other| format!("{other}; {}", failure.message)));
        ttmon_alerts::builtin()
    });
    let (feeds, simulation) = match &args.replay {
        Some(path) => (vec![replay(context, path)?], None),
        None if !args.connect.is_empty() => {
            let services = services_of(&args.connect, args.token_file.as_deref(), args.ca.as_deref())?;
            let feed = |service| Feed::Remote(Box::new(Remote { service, selection: context.selection.clone() }));
            (services.into_iter().map(feed).collect(), None)
        }
        None => {
            let opened = OpenMachine::new(context, MachineRequest::new(Sampling::Repeated))?;
            let (machine, selection, proc, simulation) = opened.into_parts();
            let (services, is_deep, deep_program) = (possible_services(context), context.deep, PathBuf::from(READER_PROGRAM));
            (vec![Feed::Local(Box::new(Local { machine, selection, proc, services, is_deep, deep_program }))], simulation)
        }
    };
    let (auto, asks_background) = theme(context);
    let options = Options {
        settings,
        config: settings_file,
        theme: auto,
        asks_background,
        clock: Clock(TimeZone::system()),
        cluster: context.cluster.as_deref().map(cluster).transpose()?,
        is_read_only: args.read_only,
        is_deep: context.deep,
        message,
        hint,
        rules,
    };
    let end = ttmon_top::run(feeds, options);
    // End the simulation before this program may end by a signal.
    drop(simulation);
    match end {
        Ok(End::Left) => Ok(()),
        Ok(End::Signal(signal)) => {
            emulate_default_handler(signal)?;
            Ok(())
        }
        Err(Error::Feed(error)) if error.is_no_device => Err(Failure::no_device(error.message)),
        Err(Error::Feed(error)) => Err(Failure::new(error.message)),
        Err(Error::Terminal(error)) => Err(Failure::new(format!("the terminal does not answer: {error}; start it again"))),
    }
}

fn check(common: &GlobalArgs, context: &Context, args: &TopArgs) -> Result<(), Failure> {
    let is_real = matches!(context.target, CliTarget::Real);
    let has_services = !args.connect.is_empty();
    refuse(&[
        (common.json, "top is a screen; for repeated JSON use ttmon -w --json"),
        (args.replay.is_some() && !is_real, "--replay shows a recording; it goes with neither --sim nor --root"),
        (
            has_services && (!is_real || context.cluster.is_some()),
            "--connect shows the machines of services; it goes with none of --sim, --root and --cluster",
        ),
    ])?;
    let is_repeated = |index: usize| args.connect[..index].iter().any(|earlier| earlier.address == args.connect[index].address);
    match (0..args.connect.len()).find(|index| is_repeated(*index)) {
        Some(index) => Err(Failure::usage(format!("--connect {}: it is named twice", args.connect[index].text))),
        None => Ok(()),
    }
}

fn replay(context: &Context, path: &Path) -> Result<Feed, Failure> {
    let replay = Replay::open(path, context.selection.clone());
    let replay = replay.map_err(|error| Failure::new(format!("--replay {}: {error}", path.display())))?;
    Ok(Feed::Replay(Box::new(replay)))
}

/// Reads the settings files and applies the flags. Returns the settings, the file to save them to, and messages about the files.
fn settings(args: &TopArgs) -> (Settings, Option<PathBuf>, Option<String>) {
    let mut settings = Settings::default();
    let files = ConfigFiles::new(args.config.as_deref());
    let mut messages = Vec::new();
    for path in files.all() {
        match ttmon_os::read_text(path, SETTINGS_BYTES_MAX) {
            Ok(text) => {
                let problems = settings.read(&text);
                if !problems.is_empty() {
                    messages.push(format!("{}: {}", path.display(), problems.join("; ")));
                }
            }
            // F12 creates the file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => messages.push(format!("{}: {error}", path.display())),
        }
    }
    settings.refresh = args.refresh.unwrap_or(settings.refresh);
    settings.view = args.view.unwrap_or(settings.view);
    (settings, files.own, (!messages.is_empty()).then(|| messages.join("; ")))
}

/// Determines the theme from the environment, and whether to query the terminal for its background.
fn theme(context: &Context) -> (Theme, bool) {
    // A variable that is not set has no meaning, like an empty one.
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let colors = match (context.terminal.colors, variable("COLORTERM").as_str(), variable("TERM").as_str()) {
        (false, ..) => Colors::None,
        (_, "truecolor" | "24bit", _) => Colors::True,
        (_, _, term) if term.contains("256color") => Colors::Palette,
        _ => Colors::Sixteen,
    };
    // `foreground;background`, as numbers of the 16 colours.
    let numbers = variable("COLORFGBG");
    let background = match numbers.rsplit(';').next().map(str::parse::<u8>) {
        Some(Ok(7 | 15)) => Some(Background::Light),
        Some(Ok(_)) => Some(Background::Dark),
        _ => None,
    };
    // The Linux console and dumb terminals would print the query as text.
    let can_answer = !matches!(variable("TERM").as_str(), "" | "dumb" | "linux");
    let asks = background.is_none() && colors != Colors::None && can_answer;
    (Theme { colors, background: background.unwrap_or_default(), ascii: context.terminal.ascii, ..Theme::default() }, asks)
}
