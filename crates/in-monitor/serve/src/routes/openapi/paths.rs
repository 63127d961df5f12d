//! What the description says about each path and its parameters.

use super::super::ROUTES;
use super::super::parameters::{DEVICES_MAX, FIELDS_MAX};
use crate::limits::{BUFFERS_DEFAULT, BUFFERS_MAX, RECORDED_DEFAULT, RECORDED_MAX};

/// The description of a path of [`ROUTES`].
pub(super) struct PathDescription {
    pub(super) path: &'static str,
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) parameters: &'static [Parameter],
}

pub(super) struct Parameter {
    pub(super) name: &'static str,
    /// Its schema, as JSON text.
    pub(super) schema: &'static str,
    pub(super) help: &'static str,
}

const DEVICE: Parameter = Parameter {
    name: "device",
    schema: r#"{"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 4294967295}, "minItems": 1, "maxItems": 256}"#,
    help: "Only these devices, by id, with commas between them.",
};

const PID: Parameter =
    Parameter { name: "pid", schema: r#"{"type": "integer", "minimum": 1, "maximum": 4294967295}"#, help: "Only of this process." };

const NO_UNLESS_ASKED: &str = r#"{"type": "boolean", "default": false}"#;

/// Returns a path without parameters.
const fn plain(id: &'static str, path: &'static str, summary: &'static str) -> PathDescription {
    PathDescription { path, id, summary, parameters: &[] }
}

/// All paths, in the order of [`ROUTES`].
pub(super) const DESCRIPTIONS: &[PathDescription] = &[
    plain("snapshot", "/api/v1/snapshot", "The newest snapshot: devices, processes, allocators, problems."),
    plain("devices", "/api/v1/devices", "The devices of the newest snapshot."),
    plain("processes", "/api/v1/processes", "The processes of the newest snapshot."),
    PathDescription {
        path: "/api/v1/buffers",
        id: "buffers",
        summary: "Live buffers of tracked processes, largest first. Over HTTP it needs the token.",
        parameters: &[
            PID,
            Parameter {
                name: "limit",
                schema: r#"{"type": "integer", "minimum": 1, "maximum": 1048576, "default": 10000}"#,
                help: "At most so many; count says how many there are.",
            },
        ],
    },
    PathDescription {
        path: "/api/v1/memory",
        id: "memory",
        summary: "The document of ttmon mem --json: the snapshot with allocators and, where asked for, buffers, banks and blocks. \
                  Those need the token over HTTP. With pid also one that ended a while ago.",
        parameters: &[
            PID,
            Parameter { name: "buffers", schema: NO_UNLESS_ASKED, help: "Every live buffer too." },
            Parameter { name: "banks", schema: NO_UNLESS_ASKED, help: "How each allocator's banks are filled too." },
            Parameter { name: "blocks", schema: NO_UNLESS_ASKED, help: "Every block of them too." },
        ],
    },
    PathDescription {
        path: "/api/v1/memory/events",
        id: "recorders",
        summary: "The flight recorders of tracked processes, as server-sent events; as one JSON document with Accept: application/json. \
                  Over HTTP it needs the token.",
        parameters: &[
            PID,
            DEVICE,
            Parameter {
                name: "follow",
                schema: r#"{"type": "boolean", "default": true}"#,
                help: "Of a stream: whether it continues after the last event.",
            },
            Parameter {
                name: "limit",
                schema: r#"{"type": "integer", "minimum": 1, "maximum": 100000, "default": 10000}"#,
                help: "Of a document: at most so many, the last ones; count says how many there are.",
            },
        ],
    },
    PathDescription {
        path: "/api/v1/history",
        id: "history",
        summary: "The past of devices on an even grid of time: an hour by the second, a day by the minute. Where nothing was seen is null.",
        parameters: &[
            Parameter {
                name: "since",
                schema: r#"{"anyOf": [{"type": "number", "minimum": 0, "maximum": 1000000000},
                                      {"type": "string", "format": "date-time"}]}"#,
                help: "From this many seconds ago, or from a time in RFC 3339. Default: 600 seconds ago.",
            },
            Parameter {
                name: "step",
                schema: r#"{"type": "number", "minimum": 0.001, "maximum": 86400}"#,
                help: "Seconds between two points; rounded up to what is kept. A value is the mean of its step.",
            },
            Parameter {
                name: "fields",
                schema: r#"{"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 64}"#,
                help: "Names of fields with a past, with commas between them. Default: temperature, power, aiclk_mhz, memory.used.",
            },
            DEVICE,
        ],
    },
    PathDescription {
        path: "/api/v1/events",
        id: "events",
        summary: "What happens to devices and to the service, as server-sent events; as one JSON document with Accept: application/json.",
        parameters: &[
            Parameter {
                name: "after",
                schema: r#"{"type": "integer", "minimum": 0, "maximum": 18446744073709551615}"#,
                help: "Those after this id, also those that were; Last-Event-ID means the same. Without it: from now on.",
            },
            Parameter { name: "snapshots", schema: NO_UNLESS_ASKED, help: "Also each new snapshot." },
            Parameter {
                name: "deltas",
                schema: NO_UNLESS_ASKED,
                help: "Also the newest snapshot, and then what changes in each new one; docs/serve.md has the format.",
            },
        ],
    },
    plain("alerts", "/api/v1/alerts", "Alerts that fire, are pending or ended within 15 minutes; rules, silences and receivers."),
    plain(
        "mesh",
        "/api/v1/mesh",
        "Where the chips are on a grid, and the Ethernet links between them where a cluster descriptor lists them.",
    ),
    plain("fields", "/api/v1/fields", "The fields of devices and processes: names, titles, units, charts and help."),
    plain("fleet", "/api/v1/fleet", "All hosts of a fleet, worst first, from the store of --fleet; 404 without one."),
    PathDescription {
        path: "/api/v1/fleet/find",
        id: "fleet_find",
        summary: "Hosts with idle chips, from the store of --fleet; nothing is reserved.",
        parameters: &[
            Parameter {
                name: "chips",
                schema: r#"{"type": "integer", "minimum": 1, "maximum": 65535, "default": 1}"#,
                help: "At least so many chips of one host that no process holds.",
            },
            Parameter { name: "board", schema: r#"{"type": "string"}"#, help: "Of a board whose name begins so." },
            Parameter {
                name: "free_dram",
                schema: r#"{"type": "integer", "minimum": 0, "maximum": 4503599626321920, "default": 0}"#,
                help: "With at least so many bytes of DRAM free on each; memory that is not known is not free.",
            },
        ],
    },
    plain("openapi", "/api/v1/openapi.json", "This description."),
    plain(
        "metrics",
        "/metrics",
        "Metrics for a storage such as Prometheus: OpenMetrics, or text 0.0.4 if requested; compressed with Accept-Encoding: gzip.",
    ),
    plain("healthz", "/healthz", "Whether the service lives."),
    plain("readyz", "/readyz", "Whether the service has something fresh to show, and if not, why."),
];

#[test]
fn every_path_and_every_parameter_is_described() {
    let served: Vec<_> = ROUTES.iter().map(|route| (route.path, route.parameters.to_vec())).collect();
    let names = |parameters: &[Parameter]| parameters.iter().map(|parameter| parameter.name).collect();
    let described: Vec<_> = DESCRIPTIONS.iter().map(|described| (described.path, names(described.parameters))).collect();
    assert_eq!(described, served);
    for (index, described) in DESCRIPTIONS.iter().enumerate() {
        assert!(described.path.starts_with('/') && described.summary.ends_with('.'), "{}", described.path);
        let is_same = |other: &PathDescription| other.path == described.path || other.id == described.id;
        assert!(!DESCRIPTIONS[..index].iter().any(is_same), "{} twice", described.path);
        for parameter in described.parameters {
            assert!(serde_json::from_str::<serde_json::Value>(parameter.schema).is_ok(), "{}", parameter.schema);
            assert!(parameter.help.ends_with('.'), "{}", parameter.name);
        }
    }
}

#[test]
fn described_limits_are_those_of_the_parser() {
    for (path, name, word, limit) in [
        ("/api/v1/buffers", "limit", "default", BUFFERS_DEFAULT),
        ("/api/v1/buffers", "limit", "maximum", BUFFERS_MAX),
        ("/api/v1/memory/events", "limit", "default", RECORDED_DEFAULT),
        ("/api/v1/memory/events", "limit", "maximum", RECORDED_MAX),
        ("/api/v1/memory/events", "device", "maxItems", DEVICES_MAX),
        ("/api/v1/history", "fields", "maxItems", FIELDS_MAX),
    ] {
        let described = DESCRIPTIONS.iter().find(|described| described.path == path).expect("a path");
        let parameter = described.parameters.iter().find(|parameter| parameter.name == name).expect("a parameter");
        let schema: serde_json::Value = serde_json::from_str(parameter.schema).expect("a schema");
        assert_eq!(schema[word], limit, "{path} {name} {word}");
    }
}
