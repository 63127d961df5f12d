//! Hosts with free chips.

use serde_json::{Value, json};

use crate::answer::{Vector, label};
use crate::promql::regex_prefix;

/// Hosts in one answer: more is a fleet that has room everywhere.
const FOUND_MAX: usize = 1_000;

/// What is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FindRequest {
    /// At least so many idle chips on one host.
    pub chips: u32,
    /// Of a board whose name begins so.
    pub board: Option<String>,
    /// With at least so many bytes of DRAM free on each. Memory that is not known is not free.
    pub free_dram: u64,
}

/// A host that has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name in the store.
    pub host: String,
    /// Its rack.
    pub rack: String,
    /// Its partition.
    pub partition: String,
    /// Idle chips that fit.
    pub chips: u64,
}

impl FindRequest {
    /// The query.
    pub fn query(&self) -> String {
        let board = self.board.as_deref().map_or_else(String::new, |board| format!("{{board=~{}}}", regex_prefix(board)));
        format!(
            "topk({FOUND_MAX}, count by (instance, rack, partition) (\
             (ttmon_device_memory_holders{board} == 0) \
             and on (instance, device) (ttmon_device_memory_free_bytes >= {}) \
             unless on (instance, device) (ttmon_device_state{{state=~\"gone|unreadable|resetting|starting\"}} == 1) \
             unless on (instance, device) (ttmon_device_health{{health=\"critical\"}} == 1)) >= {})",
            self.free_dram, self.chips
        )
    }

    /// The hosts of an answer: most chips first, then by name.
    pub fn found(&self, answer: &Vector) -> Vec<Found> {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of chips")]
        let row = |(labels, value): &(_, f64)| Found {
            host: label(labels, "instance"),
            rack: label(labels, "rack"),
            partition: label(labels, "partition"),
            chips: *value as u64,
        };
        let mut found: Vec<Found> = answer.0.iter().map(row).collect();
        found.sort_by(|one, other| other.chips.cmp(&one.chips).then_with(|| one.host.cmp(&other.host)));
        found
    }

    /// The document of `ttmon fleet find --json`.
    pub fn document(&self, store: &str, found: &[Found]) -> Value {
        let row = |found: &Found| {
            let Found { host, rack, partition, chips } = found;
            json!({"host": host, "rack": rack, "partition": partition, "chips": chips})
        };
        json!({
            "schema": 1,
            "store": store,
            "request": {"chips": self.chips, "board": self.board, "free_dram": self.free_dram},
            "reserved": false,
            "hosts": found.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Labels;

    #[test]
    fn parameters_stay_inside_the_query() {
        let request = FindRequest { chips: 8, board: Some("n300\"} or vector(99) #".to_owned()), free_dram: 10 << 30 };
        let query = request.query();
        assert!(query.contains(r#"{board=~"n300\"\\} or vector\\(99\\) #.*"}"#), "{query}");
        assert!(query.contains(">= 10737418240)") && query.ends_with(">= 8)"), "{query}");
        assert!(!FindRequest::default().query().contains("board"));
    }

    #[test]
    fn hosts_with_most_chips_come_first() {
        let labels = |host: &str| Labels::from([("instance".to_owned(), host.to_owned())]);
        let request = FindRequest::default();
        let found = request.found(&Vector(vec![(labels("b"), 8.0), (labels("c"), 32.0), (labels("a"), 8.0)]));
        assert_eq!(found.iter().map(|found| found.host.as_str()).collect::<Vec<_>>(), ["c", "a", "b"]);
        let document = request.document("http://store", &found);
        assert_eq!((&document["reserved"], &document["hosts"][0]["chips"]), (&json!(false), &json!(32)));
    }
}
