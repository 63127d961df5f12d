//! The table of all paths, and the handling of requests. Tests in openapi.rs write the description at `/api/v1/openapi.json`.

mod documents;
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
use crate::newest::Form;
use crate::page;
use crate::problem::Problem;
use crate::service::Service;
use parameters::Parameters;

pub(crate) struct Route {
    pub(crate) path: &'static str,
    pub(crate) response: ResponseKind,
    /// The names of its parameters.
    pub(crate) parameters: &'static [&'static str],
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

/// All paths. Paths of `/api/v1` may be extended, but are never renamed or removed.
pub(crate) const ROUTES: &[Route] = &[
    Route { path: "/api/v1/snapshot", response: ResponseKind::Snapshot, parameters: &[] },
    Route { path: "/api/v1/devices", response: ResponseKind::Devices, parameters: &[] },
    Route { path: "/api/v1/processes", response: ResponseKind::Processes, parameters: &[] },
    Route { path: "/api/v1/buffers", response: ResponseKind::Buffers, parameters: &["pid", "limit"] },
    Route { path: "/api/v1/memory", response: ResponseKind::Memory, parameters: &["pid", "buffers", "banks", "blocks"] },
    Route { path: "/api/v1/memory/events", response: ResponseKind::Recorders, parameters: &["pid", "device", "follow", "limit"] },
    Route { path: "/api/v1/history", response: ResponseKind::History, parameters: &["since", "step", "fields", "device"] },
    Route { path: "/api/v1/events", response: ResponseKind::Events, parameters: &["after", "snapshots", "deltas"] },
    Route { path: "/api/v1/alerts", response: ResponseKind::Alerts, parameters: &[] },
    Route { path: "/api/v1/mesh", response: ResponseKind::Mesh, parameters: &[] },
    Route { path: "/api/v1/fields", response: ResponseKind::Fields, parameters: &[] },
    Route { path: "/api/v1/fleet", response: ResponseKind::Fleet, parameters: &[] },
    Route { path: "/api/v1/fleet/find", response: ResponseKind::FleetFind, parameters: &["chips", "board", "free_dram"] },
    Route { path: "/api/v1/openapi.json", response: ResponseKind::OpenApi, parameters: &[] },
    Route { path: "/metrics", response: ResponseKind::Metrics, parameters: &[] },
    Route { path: "/healthz", response: ResponseKind::Healthz, parameters: &[] },
    Route { path: "/readyz", response: ResponseKind::Readyz, parameters: &[] },
];

/// Returns the document of the field tables, which is the same for every version of the program.
pub fn fields_document() -> String {
    documents::fields("0", false)
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
        ResponseKind::Snapshot => documents::part(service, Form::Snapshot, visibility).await,
        ResponseKind::Devices => documents::part(service, Form::Devices, visibility).await,
        ResponseKind::Processes => documents::part(service, Form::Processes, visibility).await,
        // Over HTTP, buffers need a token. On the Unix socket, users see their own buffers.
        ResponseKind::Buffers | ResponseKind::Recorders if visibility == Visibility::Public => Err(Problem::NoToken),
        ResponseKind::Buffers => documents::buffers(service, visibility, &parameters).await,
        ResponseKind::Memory => documents::memory(service, visibility, &parameters).await,
        ResponseKind::Recorders => recorders::events(service, visibility, request, parameters::recorders(&parameters)?).await,
        ResponseKind::History => documents::history(service, visibility, parameters::history(&parameters, service)?).await,
        ResponseKind::Events => stream::events(service, visibility, request, &parameters).await,
        ResponseKind::Alerts => documents::alerts(service),
        ResponseKind::Mesh => documents::mesh(service),
        ResponseKind::Fields => Ok(typed("application/json", documents::fields(service.options.version, service.options.fleet.is_some()))),
        ResponseKind::Fleet => documents::fleet(service, visibility).await,
        ResponseKind::FleetFind => documents::fleet_find(service, visibility, parameters::fleet_find(&parameters)?).await,
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
