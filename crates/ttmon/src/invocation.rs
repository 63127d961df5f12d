//! The command line as meant: complete, valid, and with nothing that contradicts anything else.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use ttmon_model::fields::{DeviceField, Samples, Section};
use ttmon_model::limits::{REFRESH_MAX, REFRESH_MIN};
use ttmon_model::select::Selection;
use ttmon_print::{AppField, CsvOptions, GpuField};
use ttmon_sim::Spec;

use crate::cli::{GlobalArgs, SnapshotArgs};
use crate::failure::Failure;
use crate::output::Output;
use crate::terminal::Terminal;

pub(crate) const REFRESH_DEFAULT: Duration = Duration::from_millis(500);
const READ_TIMEOUT_DEFAULT: Duration = Duration::from_millis(200);

/// Which machine.
#[derive(Debug)]
pub(crate) enum CliTarget {
    Real,
    Below(PathBuf),
    Simulated(Spec, u64),
}

/// What every command needs to know.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) place: CliTarget,
    pub(crate) selection: Selection,
    pub(crate) read_timeout: Duration,
    pub(crate) cluster: Option<PathBuf>,
    pub(crate) json: bool,
    pub(crate) no_server: bool,
    pub(crate) terminal: Terminal,
    /// Whether the chips themselves are read.
    pub(crate) deep: bool,
}

/// How a snapshot looks.
pub(crate) enum SnapshotFormat {
    Table,
    List,
    Query(Vec<Section>),
    Json,
    Fields(Vec<DeviceField>, CsvOptions),
    Gpu(Vec<GpuField>, CsvOptions),
    Apps(Vec<AppField>, CsvOptions),
}

/// How often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    Once,
    /// In place, on a terminal.
    Watch(Duration),
    /// One after the other.
    Loop(Duration),
}

/// A snapshot as asked for.
pub(crate) struct Snapshot {
    pub(crate) look: SnapshotFormat,
    pub(crate) repeat: Repeat,
    pub(crate) processes: bool,
    pub(crate) output: Output,
    /// What was asked for by name needs this many samples.
    pub(crate) samples: Samples,
}

impl Context {
    /// Of any command. `more` are devices named as arguments.
    pub(crate) fn new(common: &GlobalArgs, more: &[String]) -> Result<Self, Failure> {
        Self::of_devices(common, common.device.iter().chain(&common.id).chain(more))
    }

    /// Of a command in which `-d` may be something else: these lists name the devices.
    pub(crate) fn of_devices<'a>(common: &GlobalArgs, lists: impl Iterator<Item = &'a String>) -> Result<Self, Failure> {
        let mut selection = Selection::default();
        for list in lists {
            selection.extend(Selection::parse(list).map_err(Failure::usage)?);
        }
        let read_timeout = match common.read_timeout {
            None => READ_TIMEOUT_DEFAULT,
            Some(millis @ 1..=60_000) => Duration::from_millis(millis),
            Some(_) => return Err(Failure::usage("--read-timeout takes 1 to 60000 milliseconds")),
        };
        Ok(Self {
            place: place(common)?,
            selection,
            read_timeout,
            cluster: common.cluster.clone(),
            json: common.json,
            no_server: common.no_server,
            terminal: Terminal::of_stdout(common.color, common.ascii),
            deep: false,
        })
    }

    /// The same, with the chips themselves read if it is asked for.
    pub(crate) fn with_deep(self, deep: bool) -> Self {
        Self { deep, ..self }
    }
}

/// Flags first, then the environment; a flag for one place silences the variable for the other.
fn place(common: &GlobalArgs) -> Result<CliTarget, Failure> {
    if common.root.is_some() && common.sim.is_some() {
        return Err(Failure::usage("--root and --sim both name a machine; give one of them"));
    }
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty() && common.root.is_none() && common.sim.is_none());
    let named = variable("TTMON_SIM")
        .map(|spec| spec.into_string().map_err(|_| Failure::usage("TTMON_SIM is not text; it names boards, as --sim does")));
    let sim = common.sim.clone().map_or(named.transpose()?, Some);
    let root = common.root.clone().or_else(|| variable("TTMON_ROOT").map(PathBuf::from));
    if sim.is_some() && root.is_some() {
        return Err(Failure::usage("TTMON_SIM and TTMON_ROOT both name a machine; unset one of them"));
    }
    if let Some(spec) = sim {
        let spec = Spec::parse(&spec).map_err(|error| Failure::usage(format!("--sim {spec}: {error}")))?;
        return Ok(CliTarget::Simulated(spec, common.seed.unwrap_or_default()));
    }
    if common.seed.is_some() {
        return Err(Failure::usage("--seed is the seed of a simulation; it goes with --sim"));
    }
    match root {
        Some(root) if root.is_dir() => Ok(CliTarget::Below(root)),
        Some(root) => Err(Failure::new(format!("--root {}: not a directory; give the folder that stands for /", root.display()))),
        None => Ok(CliTarget::Real),
    }
}

/// Reads the flags of the snapshot. With `-q`, words of `-d` are sections.
pub(crate) fn snapshot(common: &GlobalArgs, args: &SnapshotArgs) -> Result<(Context, Snapshot), Failure> {
    let (sections, lists) = if args.query { sections_of(&common.device)? } else { (Vec::new(), common.device.clone()) };
    let context = Context::of_devices(common, lists.iter().chain(&common.id))?.with_deep(args.deep);
    let look = look(common, args, sections.clone())?;
    let repeat = repeat(args, &look, context.terminal)?;
    let output = match &args.file {
        Some(path) if path.as_os_str() != "-" => Output::File(path.clone()),
        _ => Output::Stdout,
    };
    if matches!(output, Output::File(_)) && repeat != Repeat::Once {
        return Err(Failure::usage(
            "-f writes one snapshot, whole or not at all; with -w or -l send standard output to a file instead: > FILE",
        ));
    }
    if args.no_processes && matches!(look, SnapshotFormat::Apps(..)) {
        return Err(Failure::usage("--query-compute-apps lists processes, which --no-processes leaves out"));
    }
    let samples = match &look {
        SnapshotFormat::Fields(fields, _) => most(fields.iter().map(|field| field.samples)),
        SnapshotFormat::Gpu(fields, _) => most(fields.iter().map(GpuField::samples)),
        SnapshotFormat::Query(_) if !sections.is_empty() => most(in_sections(&sections)),
        _ => Samples::One,
    };
    // A list of devices says nothing of processes.
    let processes = !args.no_processes && !matches!(look, SnapshotFormat::List);
    Ok((context, Snapshot { look, repeat, processes, output, samples }))
}

fn in_sections(sections: &[Section]) -> impl Iterator<Item = Samples> {
    ttmon_model::fields::DEVICE.iter().filter(|field| sections.contains(&field.section)).map(|field| field.samples)
}

/// The most samples that any of them needs.
pub(crate) fn most(samples: impl Iterator<Item = Samples>) -> Samples {
    samples.fold(Samples::One, |most, samples| match (most, samples) {
        (Samples::TwoSlow, _) | (_, Samples::TwoSlow) => Samples::TwoSlow,
        (Samples::Two, _) | (_, Samples::Two) => Samples::Two,
        _ => Samples::One,
    })
}

/// Sections among the words of `-d`, and the rest, which are devices.
fn sections_of(lists: &[String]) -> Result<(Vec<Section>, Vec<String>), Failure> {
    let mut sections = Vec::new();
    let mut devices = Vec::new();
    for word in lists.iter().flat_map(|list| list.split(',')) {
        match Section::ALL.into_iter().find(|section| section.name().eq_ignore_ascii_case(word)) {
            Some(section) => sections.push(section),
            None if Selection::parse(word).is_err() => {
                let names = Section::ALL.map(Section::name).join(", ");
                return Err(Failure::usage(format!("-q -d {word}: neither a device nor a section; sections are {names}")));
            }
            None => devices.push(word.to_owned()),
        }
    }
    Ok((sections, devices))
}

fn look(common: &GlobalArgs, args: &SnapshotArgs, sections: Vec<Section>) -> Result<SnapshotFormat, Failure> {
    let chosen = [
        ("--json", common.json),
        ("-L", args.list),
        ("-q", args.query),
        ("--fields", args.fields.is_some()),
        ("--query-gpu", args.query_gpu.is_some()),
        ("--query-compute-apps", args.query_compute_apps.is_some()),
    ];
    let mut given = chosen.iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| *flag);
    if let (Some(first), Some(second)) = (given.next(), given.next()) {
        return Err(Failure::usage(format!("{first} and {second} are two forms of output; give one of them")));
    }
    let options = csv_options(args.format.as_deref())?;
    let words = |list: &str| -> Vec<String> { list.split(',').map(|word| word.trim().to_owned()).collect() };
    if let Some(list) = &args.fields {
        let find = |name: &String| {
            DeviceField::find(name).ok_or_else(|| Failure::usage(format!("--fields: no field {name:?}; see --help-fields")))
        };
        return Ok(SnapshotFormat::Fields(words(list).iter().map(find).collect::<Result<_, _>>()?, options));
    }
    if let Some(list) = &args.query_gpu {
        let parse = |name: &String| GpuField::parse(name).map_err(|error| Failure::usage(format!("--query-gpu: {error}")));
        return Ok(SnapshotFormat::Gpu(words(list).iter().map(parse).collect::<Result<_, _>>()?, options));
    }
    if let Some(list) = &args.query_compute_apps {
        let parse = |name: &String| AppField::parse(name).map_err(|error| Failure::usage(format!("--query-compute-apps: {error}")));
        return Ok(SnapshotFormat::Apps(words(list).iter().map(parse).collect::<Result<_, _>>()?, options));
    }
    if args.format.is_some() {
        return Err(Failure::usage("--format is the form of --fields, --query-gpu or --query-compute-apps; give one of them too"));
    }
    Ok(match () {
        () if common.json => SnapshotFormat::Json,
        () if args.list => SnapshotFormat::List,
        () if args.query => SnapshotFormat::Query(sections),
        () => SnapshotFormat::Table,
    })
}

fn csv_options(format: Option<&str>) -> Result<CsvOptions, Failure> {
    let mut options = CsvOptions { header: true, units: true };
    let mut words = format.unwrap_or("csv").split(',').map(str::trim);
    if words.next() != Some("csv") {
        return Err(Failure::usage("--format begins with csv: csv[,noheader][,nounits]; for JSON use --json"));
    }
    for word in words {
        match word {
            "noheader" => options.header = false,
            "nounits" => options.units = false,
            other => return Err(Failure::usage(format!("--format: unknown word {other:?}; it is csv[,noheader][,nounits]"))),
        }
    }
    Ok(options)
}

fn repeat(args: &SnapshotArgs, look: &SnapshotFormat, terminal: Terminal) -> Result<Repeat, Failure> {
    let refresh = args.refresh.as_deref().map(parse_refresh).transpose()?;
    if args.watch && (args.loop_interval.is_some() || args.loop_ms.is_some()) {
        return Err(Failure::usage("-w and -l both repeat; give one of them"));
    }
    if args.watch {
        let interval = refresh.unwrap_or(REFRESH_DEFAULT);
        // What a program reads is printed one after the other.
        let is_for_people = matches!(look, SnapshotFormat::Table | SnapshotFormat::List | SnapshotFormat::Query(_));
        return Ok(if is_for_people && terminal.is_terminal { Repeat::Watch(interval) } else { Repeat::Loop(interval) });
    }
    if refresh.is_some() {
        return Err(Failure::usage("-r is the refresh of -w, in milliseconds; give -w too (ttmon never resets a device)"));
    }
    let interval = match (args.loop_interval, args.loop_ms) {
        (Some(_), Some(_)) => return Err(Failure::usage("-l and -lms both name an interval; give one of them")),
        (Some(interval), None) => interval,
        (None, Some(millis)) => Duration::from_millis(millis),
        (None, None) => return Ok(Repeat::Once),
    };
    match interval {
        interval if (REFRESH_MIN..=REFRESH_MAX).contains(&interval) => Ok(Repeat::Loop(interval)),
        _ => Err(Failure::usage("-l takes seconds and -lms milliseconds, at least 50 ms and at most a day")),
    }
}

/// tt-smi's `-r` resets boards, so anything that looks like it is refused in clear words.
pub(crate) fn parse_refresh(text: &str) -> Result<Duration, Failure> {
    let interval = text.parse::<u64>().ok().map(Duration::from_millis).or_else(|| ttmon_model::duration::parse(text));
    match interval {
        Some(interval) if (REFRESH_MIN..=REFRESH_MAX).contains(&interval) => Ok(interval),
        _ if text.is_empty() => Err(Failure::usage("-r needs milliseconds, for example -r 500 (ttmon never resets a device)")),
        _ => Err(Failure::usage(format!(
            "-r {text}: ttmon never resets a device; -r takes the milliseconds from one refresh to the next, {} to {}, or a time such as 2s",
            REFRESH_MIN.as_millis(),
            REFRESH_MAX.as_millis()
        ))),
    }
}
