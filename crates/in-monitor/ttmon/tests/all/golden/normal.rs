//! Replaces what differs from run to run, and nothing else.

/// The day of the times in fixed ledgers. They stay.
const FIXED_DAY: &str = "2100-01-01";
/// Times as JSON, headings and `--query-gpu` have them, and the port of the service in its metrics.
const FORMS: [&str; 5] =
    ["0000-00-00T00:00:00.000Z", "0000-00-00T00:00:00Z", "0000-00-00 00:00:00", "0000/00/00 00:00:00.000", "port=\"00000\""];

/// Texts before numbers that depend on the run: times and counts of the service itself, times of a program that `run` starts.
const BEFORE_NUMBERS: [&str; 16] = [
    "\nttmon_sample_age_seconds ",
    "\nttmon_scan_age_seconds ",
    "\nttmon_sample_duration_seconds ",
    "\nttmon_sampler_cpu_seconds_total ",
    "\nttmon_http_connections ",
    "\nttmon_http_requests_total{code=\"2xx\"} ",
    "\nttmon_http_requests_total{code=\"5xx\"} ",
    "\"duration_s\": ",
    "\"peak_time_s\": ",
    "\"age_s\": ",
    "\"processes_age_s\": ",
    "\"processes_age_s\":",
    ": exit 0 after ",
    "B at ",
    " age ",
    "Age:       ",
];
/// Texts before pids. A process of a fixed machine has a pid above the limit of Linux.
const BEFORE_PIDS: [&str; 5] = ["PID ", "PID: ", "\"pid\":", "\"pid\": ", "\"allocator\": \""];
const PID_LIMIT: u64 = 1 << 22;
/// Beginning and end of what is left out of a report of `run`: the host's memory, which is unknown if the program ends soon, and the file
/// name of this test program.
const LEFT_OUT: [[&str; 2]; 4] =
    [["\"host_rss\": {", "},"], ["\"host_rss\": null,", ""], ["  host memory: ", "\n"], ["\"name\": \"all-", "\","]];

/// Replaces what depends on the run: digits of times and ports, pids of real processes, the name of this host, and what is listed above.
pub(crate) fn normalize(text: &str) -> String {
    let text = FORMS.iter().fold(text.to_owned(), |text, form| without_digits(&text, form));
    let text = BEFORE_NUMBERS.iter().fold(text, |text, before| without_numbers(&text, before, |_| true));
    let is_pid = |number: &str| number.split('.').next().is_some_and(|pid| pid.parse().is_ok_and(|pid: u64| pid < PID_LIMIT));
    let text = BEFORE_PIDS.iter().fold(text, |text, before| without_numbers(&text, before, is_pid));
    let text = LEFT_OUT.iter().fold(text, |text, [begin, end]| without_part(&text, begin, end));
    let host = host();
    let text = text.replace(&format!("\"{host}\""), "\"HOST\"").replace(&format!("host: {host}\n"), "host: HOST\n");
    text.split_inclusive('\n').map(|line| heading(line).unwrap_or_else(|| line.to_owned())).collect()
}

/// Returns the name of this host.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Replaces each text of this form by the form, in which 0 is any digit.
fn without_digits(text: &str, form: &str) -> String {
    let is_of_form =
        |found: &str| found.bytes().zip(form.bytes()).all(|(byte, of)| if of == b'0' { byte.is_ascii_digit() } else { byte == of });
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_time = rest.get(..form.len()).is_some_and(|found| !found.starts_with(FIXED_DAY) && is_of_form(found));
        let (to, length) = if is_time { (form, form.len()) } else { (&rest[..first.len_utf8()], first.len_utf8()) };
        result.push_str(to);
        rest = &rest[length..];
    }
    result
}

/// Returns the heading of a table with another name of the host, which may be cut there. Everything else stays in its column.
fn heading(line: &str) -> Option<String> {
    let (before, after) = line.split_once(" host ")?;
    let (_, rest) = after.split_once("  ")?;
    let rest = rest.trim_start();
    let width = after.chars().count() - rest.chars().count();
    rest.starts_with("0000-00-00 ").then(|| format!("{before} host {:<width$}{rest}", "HOST"))
}

/// Replaces the number after each of these texts by 0, if it is to be replaced. A number may have points and colons.
fn without_numbers(text: &str, before: &str, is_replaced: impl Fn(&str) -> bool) -> String {
    let mut parts = text.split(before);
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|after: char| !after.is_ascii_digit() && !matches!(after, '.' | ':')).unwrap_or(part.len());
        let (number, rest) = part.split_at(end);
        let is_number = number.starts_with(|first: char| first.is_ascii_digit());
        result.extend([before, if is_number && is_replaced(number) { "0" } else { number }, rest]);
    }
    result
}

/// Removes each of these beginnings, and what follows, with the end.
fn without_part(text: &str, begin: &str, end: &str) -> String {
    let mut parts = text.split(begin);
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        result.push_str(part.find(end).map_or(part, |at| &part[at + end.len()..]));
    }
    result
}
