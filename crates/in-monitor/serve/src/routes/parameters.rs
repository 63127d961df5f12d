//! Parses and checks query parameters.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use ttmon_collect::reads::boot_time;
use ttmon_hosts::fleet::FindRequest;
use ttmon_model::DeviceId;
use ttmon_model::fields::DeviceField;
use ttmon_model::units::UnixTime;

use crate::history::Query;
use crate::limits::{CELLS_MAX, POINTS_MAX, RECORDED_DEFAULT, RECORDED_MAX};
use crate::problem::Problem;
use crate::service::{Service, now};

/// Default time span of the history.
const SINCE_DEFAULT: Duration = Duration::from_secs(600);
const FIELDS_DEFAULT: [&str; 4] = ["temperature", "power", "aiclk_mhz", "memory.used"];
/// Maximum number of fields and of devices of one query.
pub(super) const FIELDS_MAX: usize = 64;
pub(super) const DEVICES_MAX: usize = 256;

/// Parameters and their values, each at most once.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Parses `a=b&c=d`. An unknown parameter is an error, because a misspelt one would have no effect.
    pub(super) fn parse(query: &str, known: &[&str]) -> Result<Self, Problem> {
        let mut found: Vec<(String, String)> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Some(name), Some(value)) = (decoded(name), decoded(value)) else {
                return Err(Problem::Parameter("the query is not percent-encoded text".to_owned()));
            };
            if !known.contains(&name.as_str()) {
                let known = if known.is_empty() { "this path takes none".to_owned() } else { format!("it takes {}", known.join(", ")) };
                return Err(Problem::Parameter(format!("there is no parameter {name:?}; {known}")));
            }
            if found.iter().any(|(other, _)| *other == name) {
                return Err(Problem::Parameter(format!("{name} is given twice; put commas between several values")));
            }
            found.push((name, value));
        }
        Ok(Self(found))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Parses an integer within limits.
    pub(super) fn number<T: Copy + FromStr + PartialOrd + fmt::Display>(
        &self,
        name: &str,
        least: T,
        most: T,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.get(name) else { return Ok(None) };
        // `parse` accepts a plus sign, which is a space here.
        let number = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        match number.filter(|number| (least..=most).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(Problem::Parameter(format!("{name} wants a whole number from {least} to {most}"))),
        }
    }

    pub(super) fn truth(&self, name: &str, otherwise: bool) -> Result<bool, Problem> {
        match self.get(name) {
            None => Ok(otherwise),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(_) => Err(Problem::Parameter(format!("{name} wants true or false"))),
        }
    }

    pub(super) fn pid(&self) -> Result<Option<u32>, Problem> {
        self.number("pid", 1, u32::MAX)
    }

    pub(super) fn limit(&self, usual: usize, most: usize) -> Result<usize, Problem> {
        Ok(self.number("limit", 1, most)?.unwrap_or(usual))
    }

    fn list(&self, name: &str, most: usize) -> Result<Option<Vec<&str>>, Problem> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let words: Vec<&str> = text.split(',').collect();
        if words.len() > most || words.iter().any(|word| word.is_empty()) {
            return Err(Problem::Parameter(format!("{name} wants 1 to {most} values with commas between them")));
        }
        Ok(Some(words))
    }
}

/// Decodes percent-encoded text, if it is UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                u8::try_from(high * 16 + low).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecorderQuery {
    pub(super) pid: Option<u32>,
    /// Empty means all devices.
    pub(super) devices: Vec<DeviceId>,
    pub(super) follow: bool,
    pub(super) limit: usize,
}

pub(super) fn recorders(parameters: &Parameters) -> Result<RecorderQuery, Problem> {
    Ok(RecorderQuery {
        pid: parameters.pid()?,
        devices: devices(parameters)?,
        follow: parameters.truth("follow", true)?,
        limit: parameters.limit(RECORDED_DEFAULT, RECORDED_MAX)?,
    })
}

pub(super) fn history(parameters: &Parameters, service: &Service) -> Result<Query, Problem> {
    let mut fields = Vec::new();
    for name in parameters.list("fields", FIELDS_MAX)?.unwrap_or(FIELDS_DEFAULT.to_vec()) {
        match DeviceField::find(name).filter(|field| field.is_kept) {
            Some(field) => fields.push(field),
            None => {
                let kept: Vec<String> = DeviceField::all().filter(|field| field.is_kept).map(|field| field.name()).collect();
                return Err(Problem::Parameter(format!("no past is kept of a field {name:?}; of these it is: {}", kept.join(", "))));
            }
        }
    }
    let devices = devices(parameters)?;
    let step = parameters.get("step").map(|text| seconds("step", text, 0.001, 86_400.0)).transpose()?;
    let query = Query { since: since(parameters.get("since"))?, step, fields, devices };
    let (points, cells) = service.history(|history| history.size(&query));
    if points > POINTS_MAX || cells > CELLS_MAX {
        return Err(Problem::TooMuch(format!("{points} points and {cells} values; ask for a larger step, fewer fields or fewer devices")));
    }
    Ok(query)
}

pub(super) fn fleet_find(parameters: &Parameters) -> Result<FindRequest, Problem> {
    let chips = parameters.number("chips", 1, u32::from(u16::MAX))?.unwrap_or(1);
    let free_dram = parameters.number("free_dram", 0, u64::from(u32::MAX) << 20)?.unwrap_or(0);
    Ok(FindRequest { chips, board: parameters.get("board").map(str::to_owned), free_dram })
}

/// Parses a list of devices. Empty means all.
fn devices(parameters: &Parameters) -> Result<Vec<DeviceId>, Problem> {
    let Some(words) = parameters.list("device", DEVICES_MAX)? else { return Ok(Vec::new()) };
    let id = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit()).then(|| word.parse().ok().map(DeviceId)).flatten();
    let ids = words.into_iter().map(|word| id(word).ok_or("device wants ids with commas between them"));
    ids.collect::<Result<_, _>>().map_err(|why| Problem::Parameter(why.to_owned()))
}

fn seconds(name: &str, text: &str, least: f64, most: f64) -> Result<Duration, Problem> {
    // Check the number before it is rounded to a duration.
    let number = text.parse::<f64>().ok().filter(|number| (least..=most).contains(number));
    let number = number.filter(|_| text.bytes().all(|byte| byte.is_ascii_digit() || b".eE-+".contains(&byte)));
    number.map(Duration::from_secs_f64).ok_or_else(|| Problem::Parameter(format!("{name} wants seconds, {least} to {most}")))
}

/// Parses a time or an age. The result is on the clock of the history.
fn since(text: Option<&str>) -> Result<Duration, Problem> {
    let ago = match text {
        None => SINCE_DEFAULT,
        Some(text) => match (seconds("since", text, 0.0, 1e9), parse_time(text)) {
            (Ok(ago), _) => ago,
            (_, Some(time)) => Duration::from_nanos(now().0.saturating_sub(time.0)),
            (Err(_), None) => {
                return Err(Problem::Parameter("since needs seconds before now, or a time such as 2026-11-15T08:12:45Z".to_owned()));
            }
        },
    };
    Ok(boot_time().saturating_sub(ago))
}

/// Parses any time. Times that the kernel's clocks cannot represent are clamped.
fn parse_time(text: &str) -> Option<UnixTime> {
    let within = |year: &str| UnixTime::parse_rfc3339(&format!("{year}{}", text.get(4..)?));
    UnixTime::parse_rfc3339(text).or_else(|| match text.get(..4)?.parse::<u16>().ok().filter(|_| !text.starts_with('+'))? {
        // The years below are leap years, so every date exists in them.
        ..=1970 => within("1972").map(|_| UnixTime(0)),
        _ => within("2400").map(|_| UnixTime(u64::MAX)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{BUFFERS_DEFAULT, BUFFERS_MAX};
    use proptest::prelude::*;

    const KNOWN: &[&str] = &["pid", "limit"];

    fn buffers(parameters: &Parameters) -> Result<(Option<u32>, usize), Problem> {
        Ok((parameters.pid()?, parameters.limit(BUFFERS_DEFAULT, BUFFERS_MAX)?))
    }

    #[test]
    fn unknown_and_repeated_parameters_are_refused() {
        let parse = |query| Parameters::parse(query, KNOWN);
        assert_eq!(parse("pid=7&limit=%32").map(|parameters| buffers(&parameters)), Ok(Ok((Some(7), 2))));
        assert_eq!(parse("").map(|parameters| buffers(&parameters)), Ok(Ok((None, BUFFERS_DEFAULT))));
        for wrong in ["pid=7&pid=8", "pod=7", "pid=%", "pid=%zz", "pid=%ff"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        for wrong in ["pid=0", "pid=-1", "pid=+1", "pid=1.5", "pid=", "pid", "pid=4294967296", "limit=0", "limit=1048577"] {
            assert!(buffers(&parse(wrong).expect("known words")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn spans_are_seconds_or_times() {
        assert!(since(Some("1970-01-01T00:00:00Z")).is_ok_and(|at| at == Duration::ZERO));
        assert!(since(Some("0001-02-29T00:00:00Z")).is_ok_and(|at| at == Duration::ZERO));
        assert!(since(Some("9999-12-31T23:59:59Z")).is_ok());
        for wrong in ["", "-5", "inf", "nan", "1e99", "yesterday", "2026-11-15"] {
            assert!(since(Some(wrong)).is_err(), "{wrong}");
        }
        let now = boot_time();
        assert!(since(Some("0")).is_ok_and(|at| at >= now) && since(Some("1.5")).is_ok_and(|at| at < now));
    }

    proptest! {
        #[test]
        fn any_query_is_read_or_refused(query in "\\PC{0,60}") {
            if let Ok(parameters) = Parameters::parse(&query, KNOWN) {
                let _ = buffers(&parameters);
            }
        }
    }
}
