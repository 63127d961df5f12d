//! `ttmon fleet`: many hosts, as a store with Prometheus's HTTP API knows them, and those that are asked themselves.

use std::env;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ttmon_account::Size;
use ttmon_ask::{Credentials, Place as ServicePlace, Roots, Service};
use ttmon_fleet::{FindRequest, HOSTS_SHOWN, HostRow, MatchingHost, Overview, Store};
use ttmon_model::units::{UnixTime, size};
use ttmon_print::text;

use crate::cli::{FindArgs, FleetArgs, FleetCommand, GlobalArgs, StoreArgs};
use crate::failure::{Failure, complain};
use crate::output::Output;
use crate::serve::token;
use crate::show::VERSION;

/// How long a host that is asked itself may take.
const HOST_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest secret of a store.
const SECRET_BYTES_MAX: usize = 4096;
/// Workloads and alerts of the table; the document has more.
const LINES_MAX: usize = 20;

/// Does what was asked for.
pub(crate) fn run(common: &GlobalArgs, args: &FleetArgs) -> Result<(), Failure> {
    if common.names_another_machine() {
        return Err(Failure::usage("fleet asks a store; leave -d, -i, --root, --sim, --seed and --cluster out"));
    }
    let store = store(args.store.as_deref(), &args.access)?;
    match &args.command {
        Some(FleetCommand::Find(find_args)) => find(common, store.as_ref(), args, find_args),
        None => overview(common, store.as_ref(), args),
    }
}

/// The store that the flags or the environment name.
pub(crate) fn store(url: Option<&str>, access: &StoreArgs) -> Result<Option<Store>, Failure> {
    let named = url.map(str::to_owned).or_else(|| env::var("TTMON_STORE").ok().filter(|url| !url.is_empty()));
    let Some(url) = named else { return Ok(None) };
    let secret = |path: &Path| {
        let bytes =
            ttmon_files::read_secret(path, SECRET_BYTES_MAX).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        let text = std::str::from_utf8(bytes.trim_ascii()).ok().filter(|text| !text.is_empty() && !text.contains(char::is_control));
        text.map(str::to_owned).ok_or_else(|| Failure::new(format!("{}: not one line of text", path.display())))
    };
    let credentials = match (&access.store_token_file, &access.store_password_file) {
        (Some(path), _) => Some(Credentials::Bearer(secret(path)?)),
        (None, Some(path)) => Some(Credentials::Basic(secret(path)?)),
        (None, None) => None,
    };
    let failed = |why: &dyn std::fmt::Display| Failure::usage(format!("store {url}: {why}"));
    let roots = url.starts_with("https:").then(|| Roots::read(access.store_ca.as_deref())).transpose().map_err(|why| failed(&why))?;
    Store::new(&url, roots, credentials).map(Some).map_err(|why| failed(&why))
}

fn find(common: &GlobalArgs, store: Option<&Store>, fleet: &FleetArgs, args: &FindArgs) -> Result<(), Failure> {
    if store.is_none() && fleet.connect.is_empty() {
        return Err(Failure::usage("fleet find asks a store or services; name one with --store URL, TTMON_STORE or --connect URL"));
    }
    if args.chips == 0 {
        return Err(Failure::usage("--chips takes 1 and more"));
    }
    let free_dram = args.free_dram.as_deref().map(str::parse::<Size>).transpose().map_err(Failure::usage)?.map_or(0, |size| size.0);
    let request = FindRequest { chips: args.chips, board: args.board.clone(), free_dram };
    let answer = store.map(|store| store.query(&request.query()).map_err(|error| format!("the store at {} {error}", store.url())));
    let (answering, found) = match answer {
        Some(Ok(answer)) => (store.map(Store::url), request.found(&answer)),
        Some(Err(why)) if fleet.connect.is_empty() => return Err(Failure::new(why)),
        failed => {
            if let Some(Err(why)) = failed {
                complain(&format!("{why}; asking the hosts of --connect"));
            }
            (None, found_by_asking(&request, fleet)?)
        }
    };
    let mut out = String::new();
    if common.json {
        let _ = writeln!(out, "{:#}", request.document(answering, &found));
    } else {
        for host in &found {
            let _ = writeln!(out, "{}\t{} idle chips\t{}\t{}", host.host, host.chips, host.rack, host.partition);
        }
    }
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    Output::Stdout.write(cleaned(&out).as_bytes())?;
    match found.is_empty() {
        true => Err(Failure::new(format!("no host has {} idle chips that fit", args.chips))),
        false if is_terminal => {
            complain("nothing is reserved: another job may take these chips");
            Ok(())
        }
        false => Ok(()),
    }
}

/// The hosts of `--connect` that have the chips, those with most chips first. Hosts that do not answer are reported.
fn found_by_asking(request: &FindRequest, args: &FleetArgs) -> Result<Vec<MatchingHost>, Failure> {
    let mut found = Vec::new();
    for (place, service) in services(args)? {
        match service.aged_document("/api/v1/snapshot", HOST_TIMEOUT) {
            Ok((snapshot, _)) => found.extend(request.found_on(&snapshot.host, &snapshot.devices)),
            Err(trouble) => complain(&format!("the service at {place} {trouble}")),
        }
    }
    found.sort_by(|one, other| other.chips.cmp(&one.chips).then_with(|| one.host.cmp(&other.host)));
    Ok(found)
}

/// Names of hosts, jobs and pods are foreign text. Lines and columns stay.
fn cleaned(lines: &str) -> String {
    lines.lines().map(|line| line.split('\t').map(|cell| text::clean(cell, false)).collect::<Vec<_>>().join("\t") + "\n").collect()
}

fn overview(common: &GlobalArgs, store: Option<&Store>, args: &FleetArgs) -> Result<(), Failure> {
    if store.is_none() && args.connect.is_empty() {
        return Err(Failure::usage("fleet asks a store or services; name one with --store URL, TTMON_STORE or --connect URL"));
    }
    let mut overview = store.map(Store::overview).unwrap_or_default();
    if let (Some(url), Some(error)) = (&overview.store.url, &overview.store.error) {
        complain(&format!("the store at {url} {error}; showing the hosts of --connect"));
    }
    for (place, service) in services(args)? {
        match service.aged_document("/api/v1/snapshot", HOST_TIMEOUT) {
            Ok((snapshot, age)) => overview.add(HostRow::of_snapshot(&snapshot, age.as_secs_f64())),
            Err(trouble) => overview.problems.push(format!("the service at {place} {trouble}")),
        }
    }
    overview.problems.iter().for_each(|problem| complain(problem));
    let limit = args.limit.unwrap_or(HOSTS_SHOWN);
    let text = if common.json {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = UnixTime(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)).rfc3339();
        format!("{:#}\n", overview.document(VERSION, &now, limit))
    } else {
        cleaned(&table(&overview, limit)).replace('\t', "  ")
    };
    Output::Stdout.write(text.as_bytes())?;
    if overview.hosts.is_empty() { Err(Failure::new("no host is known; see the messages above, and deploy/README.md")) } else { Ok(()) }
}

fn services(args: &FleetArgs) -> Result<Vec<(ServicePlace, Service)>, Failure> {
    let token = token(args.token_file.as_deref())?;
    let mut services = Vec::new();
    for text in &args.connect {
        let place: ServicePlace = text.parse().map_err(|bad| Failure::usage(format!("--connect {text}: {bad}")))?;
        if token.is_some() && !place.is_private() {
            let why = "the token could be read on its way; use https://, or an SSH tunnel and http://localhost";
            return Err(Failure::usage(format!("--connect {text}: {why}")));
        }
        let roots = text.starts_with("https:").then(|| Roots::read(args.access.store_ca.as_deref())).transpose();
        let roots = roots.map_err(|why| Failure::new(format!("--connect {text}: {why}")))?;
        services.push((place.clone(), Service::new(place, token.as_ref().map(|token| token.reveal().to_owned()), roots)));
    }
    Ok(services)
}

fn table(overview: &Overview, limit: usize) -> String {
    let mut out = String::new();
    let number = |value: Option<f64>| value.map_or_else(|| "N/A".to_owned(), |value| format!("{value:.0}"));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sums of bytes")]
    let bytes = |value: Option<f64>| value.map_or_else(|| "N/A".to_owned(), |value| size(value as u64));
    let widest = overview.hosts.iter().take(limit).map(|row| row.host.chars().count()).max().unwrap_or(0).clamp(4, 40);
    let _ = writeln!(
        out,
        "{:<widest$}\t{:<8}\t{:<12}\t{:>5}\t{:>4}\t{:>9}\t{:>4}\t{:>17}\t{:>8}\t{:>5}\t{:>6}",
        "Host", "Rack", "Partition", "Chips", "Held", "Unhealthy", "Idle", "DRAM", "Power", "Temp", "Age"
    );
    for row in overview.hosts.iter().take(limit) {
        let age = row.age.map_or_else(|| "N/A".to_owned(), |age| format!("{age:.0}s"));
        let dram = format!("{}/{}", bytes(row.value("dram_used")), bytes(row.value("dram_total")));
        let _ = writeln!(
            out,
            "{:<widest$}\t{:<8}\t{:<12}\t{:>5}\t{:>4}\t{:>9}\t{:>4}\t{dram:>17}\t{:>7}W\t{:>4}C\t{age:>6}",
            row.host,
            row.rack,
            row.partition,
            number(row.value("chips")),
            number(row.value("held")),
            number(row.value("unhealthy")),
            number(row.value("idle_held")),
            number(row.value("power")),
            number(row.value("temperature_max")),
        );
    }
    if overview.hosts.len() > limit {
        let _ = writeln!(out, "{} more hosts; --limit N lists more", overview.hosts.len() - limit);
    }
    for host in overview.missing.iter().take(LINES_MAX) {
        let _ = writeln!(out, "{host}\tno sample now; there was one an hour ago");
    }
    for (labels, values) in overview.workloads.iter().take(LINES_MAX) {
        let name = match labels.get("slurm_job") {
            Some(job) => format!("job {job}"),
            None => format!("pod {}/{}", labels.get("namespace").map_or("", String::as_str), labels.get("pod").map_or("", String::as_str)),
        };
        let held =
            values.get("held_seconds_1h").map(|seconds| seconds / 3600.0).map_or_else(|| "N/A".to_owned(), |hours| format!("{hours:.1}"));
        let (chips, dram) = (number(values.get("chips").copied()), bytes(values.get("dram_used").copied()));
        let _ = writeln!(out, "{name}\t{chips} chips\t{dram} DRAM\t{held} chip hours in the last hour");
    }
    for labels in overview.alerts.iter().take(LINES_MAX) {
        let label = |name: &str| labels.get(name).map_or("", String::as_str);
        let _ = writeln!(out, "{}\t{}\tdevice {} of {}", label("severity"), label("alertname"), label("device"), label("instance"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmon_fleet::Vector;

    #[test]
    fn table_shows_ages_and_what_is_unknown() {
        let labels = |host: &str| [("instance".to_owned(), host.to_owned()), ("rack".to_owned(), "r1".to_owned())].into_iter().collect();
        let overview = Overview::ask("http://store", |query| {
            let is_chips = query.contains("count by (instance, rack, partition) (ttmon_device_info)");
            Ok::<_, String>(if is_chips { Vector(vec![(labels("tt\u{1b}[2J-01"), 32.0)]) } else { Vector::default() })
        });
        let text = cleaned(&table(&overview, 10));
        assert!(text.contains("32") && text.contains("N/A") && text.contains("r1"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
