//! Error responses: problem documents of RFC 9457.

use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use serde_json::json;

use crate::body::Body;

/// Longest explanation.
const DETAIL_CHARS_MAX: usize = 1024;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    NotFound,
    /// Only GET and HEAD are supported.
    Method,
    /// The request has a body. It would not be read, and data after the request hides the end of the connection.
    Body,
    Parameter(String),
    TooMuch(String),
    SeveralHosts,
    /// The Host header is not a name of this host.
    ForeignHost,
    /// The request comes from a page of another site.
    ForeignOrigin,
    WrongToken,
    /// Data at this endpoint needs a token.
    NoToken,
    Stale(String),
    /// The limit of streams is reached.
    Streams,
    /// The limit of expensive responses is reached.
    Busy,
    Defect,
}

impl Problem {
    fn parts(&self) -> (StatusCode, &'static str, &'static str, &str) {
        match self {
            Self::NotFound => (StatusCode::NOT_FOUND, "not-found", "No such path", "see /api/v1/openapi.json for those there are"),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "method", "Only GET and HEAD", "nothing can be changed here"),
            Self::Body => (StatusCode::BAD_REQUEST, "body", "A request has no body here", "send the request without one"),
            Self::Parameter(why) => (StatusCode::BAD_REQUEST, "parameter", "A parameter cannot be used", why),
            Self::TooMuch(why) => (StatusCode::BAD_REQUEST, "too-much", "The answer would be too large", why),
            Self::SeveralHosts => (StatusCode::BAD_REQUEST, "several-hosts", "Called by several names at once", "send one Host"),
            Self::ForeignHost => {
                let why = "this address is for this host alone; ask for it as localhost, and let a proxy do the same";
                (StatusCode::MISDIRECTED_REQUEST, "foreign-host", "Called by a name that is not its own", why)
            }
            Self::ForeignOrigin => (StatusCode::FORBIDDEN, "foreign-origin", "Asked by a page of another site", "open it directly"),
            Self::WrongToken => (StatusCode::UNAUTHORIZED, "wrong-token", "The token is wrong", "send the one of --token-file, or none"),
            Self::NoToken => {
                let why = "send Authorization: Bearer TOKEN; on this host the Unix socket shows a user's own processes without one";
                (StatusCode::UNAUTHORIZED, "needs-token", "This needs the token", why)
            }
            Self::Stale(why) => (StatusCode::SERVICE_UNAVAILABLE, "stale", "Nothing fresh to show", why),
            Self::Streams => (StatusCode::SERVICE_UNAVAILABLE, "streams", "Too many event streams", "close one, or try again later"),
            Self::Busy => {
                let why = "take what you asked for first, ask for less, or try again later";
                (StatusCode::SERVICE_UNAVAILABLE, "busy", "Too many large answers under way", why)
            }
            Self::Defect => (StatusCode::INTERNAL_SERVER_ERROR, "defect", "A defect of ttmon", "please report it"),
        }
    }

    pub(crate) fn response(&self) -> Response<Body> {
        let (status, name, title, detail) = self.parts();
        // The text may repeat input of the client, which has up to 64 KiB.
        let detail: String = detail.chars().take(DETAIL_CHARS_MAX).collect();
        let document = json!({"type": format!("urn:ttmon:problem:{name}"), "title": title, "status": status.as_u16(), "detail": detail});
        let mut response = Response::new(Body::from(format!("{document}\n")));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match self {
            Self::Body => drop(headers.insert(CONNECTION, HeaderValue::from_static("close"))),
            Self::Method => drop(headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"))),
            Self::WrongToken | Self::NoToken => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"ttmon\""));
            }
            Self::Stale(_) | Self::Streams | Self::Busy => drop(headers.insert(RETRY_AFTER, HeaderValue::from_static("1"))),
            _ => {}
        }
        response
    }
}
