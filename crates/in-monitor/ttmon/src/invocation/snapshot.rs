//! Interprets the flags of the snapshot.

use std::fmt::Display;
use std::time::Duration;

use ttmon_model::fields::{DEVICE, DeviceField, SamplesNeeded, Section};
use ttmon_model::limits::{REFRESH_MAX, REFRESH_MIN};
use ttmon_model::select::Selection;
use ttmon_print::{APPS, CsvOptions, GPU, QueryField};

use super::{Context, REFRESH_DEFAULT};
use crate::cli::{GlobalArgs, SnapshotArgs};
use crate::failure::Failure;
use crate::output::Output;
use crate::terminal::Terminal;

pub(crate) enum SnapshotFormat {
    Table,
    List,
    Query(Vec<Section>),
    Json,
    Fields(Vec<DeviceField>, CsvOptions),
    Gpu(Vec<QueryField>, CsvOptions),
    Apps(Vec<QueryField>, CsvOptions),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    Once,
    /// Redraws in place, on a terminal.
    Watch(Duration),
    /// Prints each snapshot below the previous one.
    Loop(Duration),
}

pub(crate) struct SnapshotRequest {
    pub(crate) format: SnapshotFormat,
    pub(crate) repeat: Repeat,
    pub(crate) processes: bool,
    pub(crate) output: Output,
    /// How many samples the fields need.
    pub(crate) samples: SamplesNeeded,
}

/// Reads the flags of the snapshot. With `-q`, words of `-d` are sections.
pub(crate) fn snapshot(common: &GlobalArgs, args: &SnapshotArgs) -> Result<(Context, SnapshotRequest), Failure> {
    let (sections, lists) = if args.query { sections_of(&common.device)? } else { (Vec::new(), common.device.clone()) };
    let context = Context::of_devices(common, lists.iter().chain(&common.id))?.with_deep(args.deep);
    let format = format(common, args, sections.clone())?;
    let repeat = repeat(args, &format, context.terminal)?;
    let output = match &args.file {
        Some(path) if path.as_os_str() != "-" => Output::File(path.clone()),
        _ => Output::Stdout,
    };
    if matches!(output, Output::File(_)) && repeat != Repeat::Once {
        return Err(Failure::usage(
            "-f writes one snapshot, whole or not at all; with -w or -l send standard output to a file instead: > FILE",
        ));
    }
    if args.no_processes && matches!(format, SnapshotFormat::Apps(..)) {
        return Err(Failure::usage("--query-compute-apps lists processes, which --no-processes leaves out"));
    }
    let samples = match &format {
        SnapshotFormat::Fields(fields, _) => fields.iter().map(|field| field.samples).max(),
        SnapshotFormat::Gpu(fields, _) => fields.iter().map(QueryField::samples).max(),
        SnapshotFormat::Query(_) => DEVICE.iter().filter(|field| sections.contains(&field.section)).map(|field| field.samples).max(),
        _ => None,
    };
    let samples = samples.unwrap_or(SamplesNeeded::One);
    // A list of devices shows no processes.
    let processes = !args.no_processes && !matches!(format, SnapshotFormat::List);
    Ok((context, SnapshotRequest { format, repeat, processes, output, samples }))
}

/// Splits the words of `-d` into sections and devices.
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

fn format(common: &GlobalArgs, args: &SnapshotArgs, sections: Vec<Section>) -> Result<SnapshotFormat, Failure> {
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
    if let Some(list) = &args.fields {
        let find = |name: &str| DeviceField::find(name).ok_or_else(|| format!("no field {name:?}; see --help-fields"));
        return Ok(SnapshotFormat::Fields(fields("--fields", list, find)?, options));
    }
    if let Some(list) = &args.query_gpu {
        return Ok(SnapshotFormat::Gpu(fields("--query-gpu", list, |name| GPU.find(name))?, options));
    }
    if let Some(list) = &args.query_compute_apps {
        return Ok(SnapshotFormat::Apps(fields("--query-compute-apps", list, |name| APPS.find(name))?, options));
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

fn fields<T, E: Display>(flag: &str, list: &str, parse: impl Fn(&str) -> Result<T, E>) -> Result<Vec<T>, Failure> {
    list.split(',').map(|word| parse(word.trim()).map_err(|error| Failure::usage(format!("{flag}: {error}")))).collect()
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

fn repeat(args: &SnapshotArgs, format: &SnapshotFormat, terminal: Terminal) -> Result<Repeat, Failure> {
    if args.watch && (args.loop_interval.is_some() || args.loop_ms.is_some()) {
        return Err(Failure::usage("-w and -l both repeat; give one of them"));
    }
    if args.watch {
        let interval = args.refresh.unwrap_or(REFRESH_DEFAULT);
        // Output for programs is never redrawn in place.
        let is_for_users = matches!(format, SnapshotFormat::Table | SnapshotFormat::List | SnapshotFormat::Query(_));
        return Ok(if is_for_users && terminal.is_terminal { Repeat::Watch(interval) } else { Repeat::Loop(interval) });
    }
    if args.refresh.is_some() {
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
