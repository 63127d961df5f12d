//! `ttmon fleet`: lists many hosts, from a store with Prometheus's HTTP API or from the services of `--connect`.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use ttmon_hosts::fleet::{FindRequest, HOSTS_SHOWN, HostRow, Labels, MatchingHost, Overview, Store};
use ttmon_hosts::{Credentials, Roots, Service, ServiceAddress};
use ttmon_json::{Layout, to_string};
use ttmon_model::units::size;
use ttmon_print::text;

use crate::cli::{FleetArgs, FleetCommand, GlobalArgs, StoreArgs};
use crate::failure::{Failure, print_error};
use crate::invocation::variable;
use crate::output::Output;
use crate::server::services_of;
use crate::show::{VERSION, now};

const HOST_TIMEOUT: Duration = Duration::from_secs(3);
const SECRET_BYTES_MAX: usize = 4096;
/// Maximum number of workloads and of alerts in the table. JSON output has all of them.
const LINES_MAX: usize = 20;

pub(crate) fn run(common: &GlobalArgs, args: &FleetArgs) -> Result<(), Failure> {
    if common.names_a_machine() || common.seed.is_some() {
        return Err(Failure::usage("fleet asks a store; leave -d, -i, --root, --sim, --seed and --cluster out"));
    }
    let url = match (&args.store, variable("TTMON_STORE")) {
        (Some(url), _) => Some(url.clone()),
        (None, Some(url)) => Some(url.into_string().map_err(|_| Failure::usage("TTMON_STORE is not text; it is a URL"))?),
        (None, None) => None,
    };
    if url.is_none() && args.connect.is_empty() {
        let name = if args.command.is_some() { "fleet find" } else { "fleet" };
        let remedy = "name one with --store URL, TTMON_STORE or --connect URL";
        return Err(Failure::usage(format!("{name} asks a store or services; {remedy}")));
    }
    let store = || url.as_deref().map(|url| store(url, &args.access)).transpose();
    match &args.command {
        None => overview(args, store()?.as_ref(), common.json),
        Some(FleetCommand::Find(find)) if find.chips == 0 => Err(Failure::usage("--chips takes 1 and more")),
        Some(FleetCommand::Find(find)) => {
            let free_dram = find.free_dram.map_or(0, |size| size.0);
            let request = FindRequest { chips: find.chips, board: find.board.clone(), free_dram };
            print_matches(args, store()?.as_ref(), &request, common.json)
        }
    }
}

/// Reads the secrets and certificates of a store.
pub(crate) fn store(url: &str, access: &StoreArgs) -> Result<Store, Failure> {
    let secret = |path: &Path| {
        let bytes = ttmon_os::read_secret(path, SECRET_BYTES_MAX).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
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
    Store::new(url, roots, credentials).map_err(|why| failed(&why))
}

fn print_matches(args: &FleetArgs, store: Option<&Store>, request: &FindRequest, is_json: bool) -> Result<(), Failure> {
    let answer = store.map(|store| store.find(request).map_err(|error| format!("the store at {} {error}", store.url())));
    let (answering, found) = match answer {
        Some(Ok(found)) => (store.map(Store::url), found),
        Some(Err(why)) if args.connect.is_empty() => return Err(Failure::new(why)),
        failed => {
            if let Some(Err(why)) = failed {
                print_error(&format!("{why}; asking the hosts of --connect"));
            }
            (None, found_by_asking(request, args)?)
        }
    };
    let mut out = String::new();
    if is_json {
        out = to_string(&request.document(answering, &found), Layout::Pretty) + "\n";
    } else {
        for host in &found {
            let [name, rack, partition] = [&host.host, &host.rack, &host.partition].map(|text| cleaned(text));
            let _ = writeln!(out, "{name}\t{} idle chips\t{rack}\t{partition}", host.chips);
        }
    }
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    Output::Stdout.write(out.as_bytes())?;
    match found.is_empty() {
        true => Err(Failure::new(format!("no host has {} idle chips that fit", request.chips))),
        false if is_terminal => {
            print_error("nothing is reserved: another job may take these chips");
            Ok(())
        }
        false => Ok(()),
    }
}

/// Queries the hosts of `--connect`. Returns those with the requested chips, hosts with most chips first. Reports hosts that do not answer.
fn found_by_asking(request: &FindRequest, args: &FleetArgs) -> Result<Vec<MatchingHost>, Failure> {
    let mut found = Vec::new();
    for service in services(args)? {
        match service.aged_document("/api/v1/snapshot", HOST_TIMEOUT) {
            Ok((snapshot, _)) => found.extend(request.found_on(&snapshot.host, &snapshot.devices)),
            Err(error) => print_error(&format!("the service at {} {error}", service.address())),
        }
    }
    found.sort_by(|one, other| other.chips.cmp(&one.chips).then_with(|| one.host.cmp(&other.host)));
    Ok(found)
}

/// The services of `--connect`.
fn services(args: &FleetArgs) -> Result<Vec<Service>, Failure> {
    services_of(&args.connect, args.token_file.as_deref(), args.access.store_ca.as_deref())
}

/// Removes control characters. Names of hosts, jobs and pods are not trusted: a name could otherwise contain a whole line of a table.
fn cleaned(name: &str) -> String {
    text::clean(name, false)
}

fn overview(args: &FleetArgs, store: Option<&Store>, is_json: bool) -> Result<(), Failure> {
    let limit = args.limit.unwrap_or(HOSTS_SHOWN);
    let mut overview = store.map(Store::overview).unwrap_or_default();
    if let (Some(url), Some(error)) = (&overview.store.url, &overview.store.error) {
        print_error(&format!("the store at {url} {error}; showing the hosts of --connect"));
    }
    for service in services(args)? {
        match service.aged_document("/api/v1/snapshot", HOST_TIMEOUT) {
            Ok((snapshot, age)) => {
                overview.add(HostRow { url: page(service.address()), ..HostRow::of_snapshot(&snapshot, age.as_secs_f64()) });
            }
            Err(error) => overview.problems.push(format!("the service at {} {error}", service.address())),
        }
    }
    overview.problems.iter().for_each(|problem| print_error(problem));
    let text = if is_json {
        to_string(&overview.document(VERSION, &now().rfc3339(), limit), Layout::Pretty) + "\n"
    } else {
        table(&overview, limit).replace('\t', "  ")
    };
    Output::Stdout.write(text.as_bytes())?;
    if overview.hosts.is_empty() { Err(Failure::new("no host is known; see the messages above, and deploy/README.md")) } else { Ok(()) }
}

/// Returns the address of the page of a service of `--connect`.
fn page(place: &ServiceAddress) -> Option<String> {
    matches!(place, ServiceAddress::Tcp { .. }).then(|| format!("{place}/"))
}

fn table(overview: &Overview, limit: usize) -> String {
    let mut out = String::new();
    let label = |labels: &Labels, name: &str| labels.get(name).map_or_else(String::new, |text| cleaned(text));
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
            cleaned(&row.host),
            cleaned(&row.rack),
            cleaned(&row.partition),
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
        let _ = writeln!(out, "{}\tno sample now; there was one an hour ago", cleaned(host));
    }
    for (labels, values) in overview.workloads.iter().take(LINES_MAX) {
        let name = match labels.get("slurm_job") {
            Some(job) => format!("job {}", cleaned(job)),
            None => format!("pod {}/{}", label(labels, "namespace"), label(labels, "pod")),
        };
        let held =
            values.get("held_seconds_1h").map(|seconds| seconds / 3600.0).map_or_else(|| "N/A".to_owned(), |hours| format!("{hours:.1}"));
        let (chips, dram) = (number(values.get("chips").copied()), bytes(values.get("dram_used").copied()));
        let _ = writeln!(out, "{name}\t{chips} chips\t{dram} DRAM\t{held} chip hours in the last hour");
    }
    for labels in overview.alerts.iter().take(LINES_MAX) {
        let [severity, name, device, host] = ["severity", "alertname", "device", "instance"].map(|name| label(labels, name));
        let _ = writeln!(out, "{severity}\t{name}\tdevice {device} of {host}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmon_hosts::fleet::Vector;

    #[test]
    fn page_of_a_service_has_its_scheme() {
        for (place, expected) in [
            ("https://tt-1", Some("https://tt-1:9477/")),
            ("http://[::1]:8080", Some("http://[::1]:8080/")),
            ("unix:/run/ttmon/api.sock", None),
        ] {
            assert_eq!(page(&place.parse().unwrap()).as_deref(), expected);
        }
    }

    #[test]
    fn table_shows_ages_and_what_is_unknown() {
        let labels = |host: &str| [("instance".to_owned(), host.to_owned()), ("rack".to_owned(), "r1".to_owned())].into_iter().collect();
        let overview = Overview::ask("http://store", |queries| {
            let answer = |query: &&str| match query.contains("count by (instance, rack, partition) (ttmon_device_info)") {
                true => Vector(vec![(labels("tt\u{1b}[2J-01"), 32.0)]),
                false => Vector::default(),
            };
            Ok::<_, String>(queries.iter().map(answer).collect())
        });
        let text = table(&overview, 10);
        assert!(text.contains("32") && text.contains("N/A") && text.contains("r1"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
