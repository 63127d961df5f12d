//! The table of all paths, and the handling of requests. A test writes the description at `/api/v1/openapi.json` from the table.

mod documents;
mod fields;
mod fleet;
#[cfg(test)]
mod openapi;
mod parameters;
mod recorders;
mod stream;

use std::sync::Arc;

use hyper::body::Bytes;
use hyper::header::{ACCEPT, AGE, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, VARY};
use hyper::{HeaderMap, Method, Response};
use serde::Serialize;
use tokio::sync::mpsc;
use ttmon_json::Layout;

use crate::access::{self, RequestOrigin, Visibility};
use crate::body::Body;
use crate::connections::Holder;
use crate::metrics::Dialect;
use crate::page;
use crate::problem::Problem;
use crate::service::Service;
use parameters::Parameters;

pub(crate) struct Route {
    pub(crate) path: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for web/openapi.json"))]
    pub(crate) id: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for web/openapi.json"))]
    pub(crate) summary: &'static str,
    pub(crate) parameters: &'static [Parameter],
    pub(crate) response: ResponseKind,
}

pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    /// Its schema, as JSON text.
    #[cfg_attr(not(test), expect(dead_code, reason = "for web/openapi.json"))]
    pub(crate) schema: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for web/openapi.json"))]
    pub(crate) help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseKind {
    Snapshot,
    Devices,
    Processes,
    Buffers,
    Memory,
    Recorders,
    History,
    Events,
    Alerts,
    Mesh,
    Fields,
    Fleet,
    FleetFind,
    OpenApi,
    Metrics,
    Healthz,
    Readyz,
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
const fn plain(response: ResponseKind, id: &'static str, path: &'static str, summary: &'static str) -> Route {
    Route { path, id, summary, parameters: &[], response }
}

/// All paths. Paths of `/api/v1` may be extended, but are never renamed or removed.
pub(crate) const ROUTES: &[Route] = &[
    plain(ResponseKind::Snapshot, "snapshot", "/api/v1/snapshot", "The newest snapshot: devices, processes, allocators, problems."),
    plain(ResponseKind::Devices, "devices", "/api/v1/devices", "The devices of the newest snapshot."),
    plain(ResponseKind::Processes, "processes", "/api/v1/processes", "The processes of the newest snapshot."),
    Route {
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
        response: ResponseKind::Buffers,
    },
    Route {
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
        response: ResponseKind::Memory,
    },
    Route {
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
        response: ResponseKind::Recorders,
    },
    Route {
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
        response: ResponseKind::History,
    },
    Route {
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
        response: ResponseKind::Events,
    },
    plain(
        ResponseKind::Alerts,
        "alerts",
        "/api/v1/alerts",
        "Alerts that fire, are pending or ended within 15 minutes; rules, silences and receivers.",
    ),
    plain(
        ResponseKind::Mesh,
        "mesh",
        "/api/v1/mesh",
        "Where the chips are on a grid, and the Ethernet links between them where a cluster descriptor lists them.",
    ),
    plain(ResponseKind::Fields, "fields", "/api/v1/fields", "The fields of devices and processes: names, titles, units, charts and help."),
    plain(ResponseKind::Fleet, "fleet", "/api/v1/fleet", "All hosts of a fleet, worst first, from the store of --fleet; 404 without one."),
    Route {
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
        response: ResponseKind::FleetFind,
    },
    plain(ResponseKind::OpenApi, "openapi", "/api/v1/openapi.json", "This description."),
    plain(
        ResponseKind::Metrics,
        "metrics",
        "/metrics",
        "Metrics for a storage such as Prometheus: OpenMetrics, or text 0.0.4 if requested; compressed with Accept-Encoding: gzip.",
    ),
    plain(ResponseKind::Healthz, "healthz", "/healthz", "Whether the service lives."),
    plain(ResponseKind::Readyz, "readyz", "/readyz", "Whether the service has something fresh to show, and if not, why."),
];

/// Returns the document of the field tables, which is the same for every version of the program.
pub fn fields_document() -> String {
    fields::document("0", false)
}

/// Returns the description of the paths with the version of the program, in OpenAPI.
fn openapi_document(version: &str) -> String {
    const DOCUMENT: &str = include_str!("../../../../web/openapi.json");
    DOCUMENT.replacen(OPENAPI_VERSION, &format!(r#""version":{}"#, serde_json::Value::from(version)), 1)
}

/// What stands for the version of the program in web/openapi.json, once.
const OPENAPI_VERSION: &str = r#""version":"0""#;

/// Returns the positions of the chips of a recorded snapshot: the members of `/api/v1/mesh` without the document header.
pub fn mesh_document(snapshot: &ttmon_model::Snapshot) -> serde_json::Value {
    documents::mesh_parts(&ttmon_model::mesh::of(snapshot, None))
}

/// The parts of a request that are used.
pub(crate) struct RequestHead<'a> {
    pub(crate) origin: RequestOrigin,
    pub(crate) holder: Holder,
    /// The host of the request, if the request has a full address.
    pub(crate) authority: Option<&'a str>,
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) has_body: bool,
}

pub(crate) async fn respond(service: &Arc<Service>, request: RequestHead<'_>) -> Response<Body> {
    let mut response = match respond_or_refuse(service, &request).await {
        Ok(response) => response,
        Err(problem) => problem.response(),
    };
    service.counters.responded(response.status().as_u16());
    let headers = response.headers_mut();
    headers.insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

async fn respond_or_refuse(service: &Arc<Service>, request: &RequestHead<'_>) -> Result<Response<Body>, Problem> {
    let visibility = access::authorize(request.origin, request.authority, request.path, request.headers, service.options.token.as_ref())?;
    let is_shown = |route: &&Route| {
        request.origin != RequestOrigin::Metrics || matches!(route.response, ResponseKind::Metrics | ResponseKind::Healthz)
    };
    let route = ROUTES.iter().filter(is_shown).find(|route| route.path == request.path);
    let asset = page::find(request.path).filter(|_| request.origin != RequestOrigin::Metrics);
    if route.is_none() && asset.is_none() {
        return Err(Problem::NotFound);
    }
    if !matches!(*request.method, Method::GET | Method::HEAD) {
        return Err(Problem::Method);
    }
    if request.has_body {
        return Err(Problem::Body);
    }
    if let Some(asset) = asset {
        return Ok(page::respond(asset, request.headers));
    }
    let route = route.ok_or(Problem::NotFound)?;
    if matches!(route.response, ResponseKind::Fleet | ResponseKind::FleetFind) && service.options.fleet.is_none() {
        return Err(Problem::NotFound);
    }
    let parameters = Parameters::parse(request.query, route.parameters)?;
    match route.response {
        ResponseKind::Snapshot | ResponseKind::Devices | ResponseKind::Processes => {
            documents::part(service, route.response, visibility).await
        }
        // Over HTTP, buffers need a token. On the Unix socket, users see their own buffers.
        ResponseKind::Buffers | ResponseKind::Recorders if visibility == Visibility::Public => Err(Problem::NoToken),
        ResponseKind::Buffers => documents::buffers(service, visibility, &parameters).await,
        ResponseKind::Memory => documents::memory(service, visibility, &parameters).await,
        ResponseKind::Recorders => recorders::events(service, visibility, request, parameters::recorders(&parameters)?).await,
        ResponseKind::History => documents::history(service, visibility, parameters::history(&parameters, service)?).await,
        ResponseKind::Events => stream::events(service, visibility, request, &parameters).await,
        ResponseKind::Alerts => documents::alerts(service),
        ResponseKind::Mesh => documents::mesh(service),
        ResponseKind::Fields => Ok(typed("application/json", fields::document(service.options.version, service.options.fleet.is_some()))),
        ResponseKind::Fleet => fleet::overview(service, visibility).await,
        ResponseKind::FleetFind => fleet::find(service, visibility, fleet::request(&parameters)?).await,
        ResponseKind::OpenApi => Ok(typed("application/json", openapi_document(service.options.version))),
        ResponseKind::Metrics => {
            let dialect = Dialect::negotiate(accepted(request));
            let is_gzip = page::takes_gzip(request.headers);
            let mut response = typed(dialect.content_type(), Bytes::from(service.scrape(dialect, is_gzip, request.origin)));
            response.headers_mut().insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
            if is_gzip {
                response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            }
            Ok(response)
        }
        ResponseKind::Healthz => Ok(typed("text/plain; charset=utf-8", "ok\n".to_owned())),
        ResponseKind::Readyz => {
            let warnings: String = service.readiness()?.iter().map(|warning| format!("warning: {warning}\n")).collect();
            Ok(typed("text/plain; charset=utf-8", format!("ready\n{warnings}")))
        }
    }
}

fn accepted<'a>(request: &RequestHead<'a>) -> &'a str {
    // A header that is no text accepts anything, like none.
    request.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default()
}

/// Whether a client wants one document instead of a stream.
fn wants_json(request: &RequestHead<'_>) -> bool {
    let accept = accepted(request);
    accept.contains("application/json") && !accept.contains("text/event-stream")
}

fn typed(content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn event_stream(parts: mpsc::Receiver<Bytes>) -> Response<Body> {
    let mut response = typed("text/event-stream", Body::stream(parts));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    response
}

/// Returns the text of a document, with a newline.
fn line(document: &impl Serialize) -> String {
    ttmon_json::to_string(document, Layout::Line) + "\n"
}

/// Returns a document with its age in whole seconds.
fn aged(body: impl Into<Body>, seconds: u64) -> Response<Body> {
    let mut response = typed("application/json", body);
    response.headers_mut().insert(AGE, seconds.into());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_parameters_are_unique_and_described() {
        for (index, route) in ROUTES.iter().enumerate() {
            assert!(route.path.starts_with('/') && route.summary.ends_with('.'), "{}", route.path);
            assert!(ROUTES[..index].iter().all(|other| other.path != route.path && other.id != route.id), "{} twice", route.path);
            for parameter in route.parameters {
                assert!(serde_json::from_str::<serde_json::Value>(parameter.schema).is_ok(), "{}", parameter.schema);
                assert!(parameter.help.ends_with('.'), "{}", parameter.name);
            }
        }
    }
    /// The limits in the description are the limits of the parser.
    #[test]
    fn described_limits_are_those_of_the_parser() {
        use crate::limits::{BUFFERS_DEFAULT, BUFFERS_MAX, RECORDED_DEFAULT, RECORDED_MAX};
        for (response, name, word, limit) in [
            (ResponseKind::Buffers, "limit", "default", BUFFERS_DEFAULT),
            (ResponseKind::Buffers, "limit", "maximum", BUFFERS_MAX),
            (ResponseKind::Recorders, "limit", "default", RECORDED_DEFAULT),
            (ResponseKind::Recorders, "limit", "maximum", RECORDED_MAX),
            (ResponseKind::Recorders, "device", "maxItems", parameters::DEVICES_MAX),
            (ResponseKind::History, "fields", "maxItems", parameters::FIELDS_MAX),
        ] {
            let route = ROUTES.iter().find(|route| route.response == response).expect("a route");
            let parameter = route.parameters.iter().find(|parameter| parameter.name == name).expect("a parameter");
            let schema: serde_json::Value = serde_json::from_str(parameter.schema).expect("a schema");
            assert_eq!(schema[word], limit, "{} {name} {word}", route.path);
        }
    }
}
