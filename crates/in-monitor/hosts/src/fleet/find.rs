//! Finds hosts with idle chips.

use serde::Serialize;
use serde_json::{Value, json};
use ttmon_model::Device;
use ttmon_model::fields::DeviceField;
use ttmon_model::snapshot::{Health, State};

use crate::fleet::answer::{Vector, label};
use crate::fleet::promql::regex_prefix;
use crate::fleet::templates::IDLE_CHIPS;

/// Maximum number of hosts in one answer.
const MATCHES_MAX: usize = 1_000;

/// A search for idle chips.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FindRequest {
    /// Minimum number of idle chips on one host.
    pub chips: u32,
    /// Prefix of the board name.
    pub board: Option<String>,
    /// Minimum free bytes of DRAM on each chip. Unknown memory does not count as free.
    pub free_dram: u64,
}

/// A host with matching chips.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MatchingHost {
    /// Its name in the store.
    pub host: String,
    /// Its rack.
    pub rack: String,
    /// Its partition.
    pub partition: String,
    /// Number of matching idle chips.
    pub chips: u64,
}

impl FindRequest {
    /// Returns the query for a store with or without the recording rules.
    fn query(&self, has_rules: bool) -> String {
        let chips = IDLE_CHIPS.query(has_rules);
        // The name of the metric or record comes first.
        let (name, rest) = chips.split_at(chips.find(' ').unwrap_or(chips.len()));
        let board = self.board.as_deref().map_or_else(String::new, |board| format!("{{board=~{}}}", regex_prefix(board)));
        let (free_dram, chips) = (self.free_dram, self.chips);
        format!("topk({MATCHES_MAX}, count by (instance, rack, partition) (({name}{board}{rest}) >= {free_dram}) >= {chips})")
    }

    /// Queries the store through a function, first by the recording rule.
    pub(crate) fn ask<E>(&self, ask: impl Fn(&str) -> Result<Vector, E>) -> Result<Vec<MatchingHost>, E> {
        let has_rules = !ask(&format!("count({})", IDLE_CHIPS.record))?.is_empty();
        Ok(self.found(&ask(&self.query(has_rules))?))
    }

    /// Returns the hosts of an answer: most chips first, then by name.
    fn found(&self, answer: &Vector) -> Vec<MatchingHost> {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of chips")]
        let row = |(labels, value): &(_, f64)| MatchingHost {
            host: label(labels, "instance"),
            rack: label(labels, "rack"),
            partition: label(labels, "partition"),
            chips: *value as u64,
        };
        let mut found: Vec<MatchingHost> = answer.0.iter().map(row).collect();
        found.sort_by(|one, other| other.chips.cmp(&one.chips).then_with(|| one.host.cmp(&other.host)));
        found
    }

    /// Checks a host that was queried directly. The conditions are those of the query.
    pub fn found_on(&self, host: &str, devices: &[Device]) -> Option<MatchingHost> {
        let chips = devices.iter().filter(|device| self.is_met_by(device)).count() as u64;
        let fits = chips >= u64::from(self.chips);
        fits.then(|| MatchingHost { host: host.to_owned(), rack: String::new(), partition: String::new(), chips })
    }

    fn is_met_by(&self, device: &Device) -> bool {
        // A chip with an unknown value does not meet a condition on it.
        let number = |name: &str| DeviceField::find(name).and_then(|field| field.number(device).ok());
        let is_board = self.board.as_ref().is_none_or(|board| device.board.as_ref().is_ok_and(|name| name.starts_with(board)));
        let is_idle = number("memory.holders") == Some(0.0);
        let has_memory = number("memory.free").is_some_and(|free| free >= self.free_dram as f64);
        let is_usable = !matches!(device.state, State::Gone | State::Unreadable | State::Resetting | State::Starting);
        is_board && is_idle && has_memory && is_usable && device.health != Health::Critical
    }

    /// Returns the document of `ttmon fleet find --json`. `store` is `None` if the hosts were queried directly because no store answered.
    pub fn document(&self, store: Option<&str>, found: &[MatchingHost]) -> Value {
        json!({"schema": 1, "store": store, "request": self, "reserved": false, "hosts": found})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::answer::Labels;
    use ttmon_model::Missing;

    #[test]
    fn parameters_stay_inside_the_query() {
        let request = FindRequest { chips: 8, board: Some("n300\"} or vector(99) #".to_owned()), free_dram: 10 << 30 };
        for (has_rules, name) in [(true, "device:ttmon_device_memory_free_bytes:idle"), (false, "ttmon_device_memory_free_bytes")] {
            let query = request.query(has_rules);
            assert!(query.contains(&format!(r#"(({name}{{board=~"n300\"\\}} or vector\\(99\\) #.*"}}"#)), "{query}");
            assert!(query.contains(">= 10737418240)") && query.ends_with(">= 8)"), "{query}");
            assert!(!FindRequest::default().query(has_rules).contains("board"));
        }
    }

    /// A store without the rules is queried by the expression.
    #[test]
    fn record_is_used_if_the_store_has_it() {
        let request = FindRequest { chips: 1, ..FindRequest::default() };
        for has_rules in [true, false] {
            let labels = Labels::from([("instance".to_owned(), "a".to_owned())]);
            let one = || Vector(vec![(labels.clone(), 3.0)]);
            let found = request.ask(|query| match query {
                "count(device:ttmon_device_memory_free_bytes:idle)" => Ok(if has_rules { one() } else { Vector::default() }),
                query if query == request.query(has_rules) => Ok(one()),
                query => Err(query.to_owned()),
            });
            assert_eq!(found.map(|found| found.len()), Ok(1));
        }
    }

    #[test]
    fn idle_chips_of_a_host_are_counted_as_in_the_query() {
        let mut idle = Device { board: Ok("n300".to_owned()), state: State::Ok, health: Health::Ok, ..Device::absent() };
        (idle.memory.holders, idle.memory.dram.total, idle.memory.dram.used) = (Ok(0), Ok(12 << 30), Ok(2 << 30));
        let with = |change: fn(&mut Device)| {
            let mut device = idle.clone();
            change(&mut device);
            device
        };
        let misfits = [
            with(|device| device.memory.holders = Ok(1)),
            with(|device| device.memory.holders = Err(Missing::NoPermission)),
            with(|device| device.memory.dram.used = Err(Missing::NotTracked)),
            with(|device| device.memory.dram.used = Ok(3 << 30)),
            with(|device| device.state = State::Gone),
            with(|device| device.health = Health::Critical),
            with(|device| device.board = Ok("p150".to_owned())),
        ];
        let devices: Vec<Device> = misfits.into_iter().chain([idle.clone(), idle]).collect();
        let request = FindRequest { chips: 2, board: Some("n3".to_owned()), free_dram: 10 << 30 };
        assert_eq!(request.found_on("a", &devices).map(|found| (found.host, found.chips)), Some(("a".to_owned(), 2)));
        assert_eq!(FindRequest { chips: 3, ..request }.found_on("a", &devices), None);
    }

    #[test]
    fn hosts_with_most_chips_come_first() {
        let labels = |host: &str| Labels::from([("instance".to_owned(), host.to_owned())]);
        let request = FindRequest::default();
        let found = request.found(&Vector(vec![(labels("b"), 8.0), (labels("c"), 32.0), (labels("a"), 8.0)]));
        assert_eq!(found.iter().map(|found| found.host.as_str()).collect::<Vec<_>>(), ["c", "a", "b"]);
        let document = request.document(Some("http://store"), &found);
        assert_eq!((&document["reserved"], &document["hosts"][0]["chips"]), (&json!(false), &json!(32)));
    }
}
