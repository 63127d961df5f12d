//! The page: files that a browser loads. They are built from `web/` by `cargo xtask web`, contain no data, and need no token.

use hyper::body::Bytes;
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH,
    REFERRER_POLICY, VARY,
};
use hyper::{HeaderMap, Response, StatusCode};

use crate::body::Body;

pub(crate) struct Asset {
    path: &'static str,
    content_type: &'static str,
    plain: &'static [u8],
    gzip: &'static [u8],
}

macro_rules! asset {
    ($path:literal, $file:literal, $content_type:literal) => {
        Asset {
            path: $path,
            content_type: $content_type,
            plain: include_bytes!(concat!("../page/", $file)),
            gzip: include_bytes!(concat!("../page/", $file, ".gz")),
        }
    };
}

const ASSETS: [Asset; 4] = [
    asset!("/", "index.html", "text/html; charset=utf-8"),
    asset!("/assets/app.js", "app.js", "text/javascript; charset=utf-8"),
    asset!("/assets/app.css", "app.css", "text/css; charset=utf-8"),
    asset!("/assets/icon.svg", "icon.svg", "image/svg+xml"),
];

/// ETag that changes with any of the files.
const VERSION: &str = include_str!("../page/etag");

/// Forbids inline scripts, other hosts and frames. Styles that the script sets on elements are not inline styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

/// Answers with a file, compressed if the browser accepts that, or with "not modified".
pub(crate) fn respond(asset: &Asset, headers: &HeaderMap) -> Response<Body> {
    let has = |name, word: &str| headers.get_all(name).iter().any(|value| value.to_str().is_ok_and(|value| value.contains(word)));
    let version = VERSION.trim();
    let mut response = Response::new(Body::from(Bytes::new()));
    if has(IF_NONE_MATCH, version) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else if takes_gzip(headers) {
        *response.body_mut() = Bytes::from_static(asset.gzip).into();
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    } else {
        *response.body_mut() = Bytes::from_static(asset.plain).into();
    }
    let own = [
        (CONTENT_TYPE, asset.content_type),
        (CACHE_CONTROL, "no-cache"),
        (VARY, "accept-encoding"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (ETAG, version),
    ];
    for (name, value) in own {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether a client accepts compressed responses: `gzip` or `*`, with a weight above 0.
pub(crate) fn takes_gzip(headers: &HeaderMap) -> bool {
    let is_taken = |coding: &str| {
        let mut words = coding.split(';').map(str::trim);
        let is_named = words.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip") || name == "*");
        let weight = words.find_map(|word| word.strip_prefix("q=")).map_or(Some(1.0), |weight| weight.parse::<f64>().ok());
        is_named && weight.is_some_and(|weight| weight > 0.0)
    };
    // A header that is no text names no encoding.
    headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()).any(|value| value.split(',').any(is_taken))
}

/// Returns an HTML file that shows this data without a service. It contains the whole page. Its policy allows only its own script, and no
/// connections.
pub fn report_page(data: &str) -> String {
    const SCRIPT: &str = include_str!("../page/app.js");
    const STYLE: &str = include_str!("../page/app.css");
    const SCRIPT_HASH: &str = include_str!("../page/app.js.sha256");
    const STYLE_HASH: &str = include_str!("../page/app.css.sha256");
    // In JSON, this character only occurs in strings, where it can be escaped.
    let data = data.replace('<', "\\u003c");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-{SCRIPT_HASH}'; \
         style-src 'sha256-{STYLE_HASH}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>ttmon</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<div id=\"app\"></div>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script type=\"module\">{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(path: &str, pairs: &[(&'static str, &'static str)]) -> Response<Body> {
        let pairs = pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        respond(find(path).expect("a file"), &pairs.collect())
    }

    fn length(response: &Response<Body>) -> u64 {
        hyper::body::Body::size_hint(response.body()).exact().expect("a length")
    }

    #[test]
    fn files_are_compressed_for_browsers() {
        let (plain, gzip) = (request("/assets/app.js", &[]), request("/assets/app.js", &[("accept-encoding", "gzip, br")]));
        assert!(length(&gzip) > 0 && length(&gzip) < length(&plain));
        assert_eq!(gzip.headers()[CONTENT_ENCODING], "gzip");
        assert!(!plain.headers().contains_key(CONTENT_ENCODING));
        let again = request("/", &[("if-none-match", VERSION.trim())]);
        assert_eq!((again.status(), length(&again)), (StatusCode::NOT_MODIFIED, 0));
    }

    /// The size limit is for a phone on a slow link.
    #[test]
    fn all_files_are_at_most_80_kb() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.gzip.len()).sum();
        assert!(bytes <= 80_000, "{bytes} bytes");
    }

    #[test]
    fn policy_allows_no_inline_script() {
        let page = request("/", &[]);
        let policy = page.headers()[CONTENT_SECURITY_POLICY].to_str().expect("text");
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"));
        let html = std::str::from_utf8(find("/").expect("the page").plain).expect("text");
        assert!(!html.contains("<style") && html.matches("<script").count() == 1 && html.contains("<script type=\"module\" src="));
    }

    #[test]
    fn other_paths_have_no_file() {
        for path in ["", "/assets", "/assets/", "/assets/../etag", "/index.html", "/etag", "//"] {
            assert!(find(path).is_none(), "{path}");
        }
    }
}
