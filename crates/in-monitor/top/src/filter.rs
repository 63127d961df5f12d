//! `/`: selects which processes are shown. A word is searched in all names of a process; `user:`, `host:`, `dev:` and `mem>` each test one
//! property. A process must match all conditions.

use std::ops::RangeInclusive;

use ttmon_buffer_history::Size;
use ttmon_model::memory::sum;
use ttmon_model::{Kind, Reading};

use crate::state::ProcessRow;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Filter {
    words: Vec<FilterWord>,
}

#[derive(Clone, Debug, PartialEq)]
enum FilterWord {
    /// Text that the name, command, user, pid or workload must contain; lower case.
    Text(String),
    User(String),
    /// The process runs on this machine; lower case.
    Host(String),
    /// The process uses one of these devices: `0,2-3`.
    Device(Vec<RangeInclusive<u32>>),
    /// DRAM and L1 together are above this many bytes. Unknown memory never matches.
    Above(u64),
    Below(u64),
}

/// A word that is no filter.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no filter: text, user:NAME, host:NAME, dev:0,2-3, mem>1G or mem<1G")]
pub(crate) struct BadWord(String);

impl Filter {
    pub(crate) fn parse(text: &str) -> Result<Self, BadWord> {
        let words: Result<Vec<FilterWord>, BadWord> =
            text.split_whitespace().map(|word| parse(word).ok_or_else(|| BadWord(word.to_owned()))).collect();
        words.map(|words| Self { words })
    }

    pub(crate) fn matches(&self, process: &ProcessRow<'_>) -> bool {
        self.words.iter().all(|word| word.matches(process))
    }
}

fn parse(word: &str) -> Option<FilterWord> {
    let bytes = |text: &str| text.parse().ok().map(|Size(bytes)| bytes);
    let at = word.find([':', '>', '<']).map_or(0, |at| at + 1);
    let (name, value) = word.split_at(at);
    match name {
        "user:" => Some(FilterWord::User(value.to_lowercase())),
        "host:" => Some(FilterWord::Host(value.to_lowercase())),
        "dev:" => value.split(',').map(range).collect::<Option<_>>().map(FilterWord::Device),
        "mem>" => bytes(value).map(FilterWord::Above),
        "mem<" => bytes(value).map(FilterWord::Below),
        _ => Some(FilterWord::Text(word.to_lowercase())),
    }
}

/// Parses `0` or `2-3`.
fn range(text: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = first.parse().ok()?..=last.parse().ok()?;
    (!range.is_empty()).then_some(range)
}

impl FilterWord {
    fn matches(&self, process: &ProcessRow<'_>) -> bool {
        match self {
            Self::Text(text) => {
                let texts = [process.command.as_ref().ok(), process.name.as_ref().ok(), process.user.as_ref().ok()];
                let has = |hay: &str| hay.to_lowercase().contains(text);
                texts.into_iter().flatten().any(|hay| has(hay))
                    || has(&process.key.pid.to_string())
                    || process.workloads().iter().any(|workload| has(workload))
            }
            Self::User(user) => process.user.as_ref().is_ok_and(|name| name.to_lowercase() == *user),
            Self::Host(host) => process.host_name.to_lowercase() == *host,
            Self::Device(ranges) => process.devices.iter().any(|use_of| ranges.iter().any(|range| range.contains(&use_of.device.0))),
            Self::Above(limit) => memory(process).is_ok_and(|used| used > *limit),
            Self::Below(limit) => memory(process).is_ok_and(|used| used < *limit),
        }
    }
}

fn memory(process: &ProcessRow<'_>) -> Reading<u64> {
    sum([&Kind::DRAM_BAR[..], &Kind::L1_BAR[..]].map(|bar| process.total_of(bar)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::machine;

    fn pids(text: &str) -> Vec<u32> {
        let filter = Filter::parse(text).unwrap();
        let host = crate::host::Host { live: Some(std::sync::Arc::new(machine::mixed())), ..Default::default() };
        let rows: Vec<ProcessRow<'_>> = crate::state::rows(0, &host).collect();
        rows.iter().filter(|row| filter.matches(row)).map(|row| row.key.pid).collect()
    }

    #[test]
    fn words_narrow_the_list() {
        assert_eq!(pids(""), [200, 201]);
        assert_eq!(pids("BERT"), [200]);
        assert_eq!(pids("build test"), [201]);
        assert_eq!(pids("pod"), [200]);
        assert_eq!(pids("user:ana dev:1"), [200]);
        assert_eq!(pids("user:ben"), [0; 0]);
        assert_eq!(pids("mem>13G"), [200]);
        assert_eq!((pids("mem<20G"), pids("mem<1K")), (vec![200], vec![]), "nothing is known of 201");
        assert_eq!((pids("dev:0-3"), pids("dev:1,3"), pids("dev:2-3")), (vec![200, 201], vec![200], vec![]));
        assert_eq!(pids("201"), [201]);
        let host = machine::mixed().host;
        assert_eq!((pids(&format!("host:{host}")), pids("host:elsewhere")), (vec![200, 201], vec![]));
    }

    #[test]
    fn invalid_words_are_reported() {
        for bad in ["dev:x", "dev:", "dev:1-", "dev:3-1", "dev:1,,2", "mem>", "mem>x", "mem>-1G"] {
            assert!(Filter::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(parse("mem>1.5GB"), Some(FilterWord::Above(3 << 29)));
        assert_eq!(parse("mem<4096"), Some(FilterWord::Below(4096)));
    }
}
