//! schemathesis tries every path of the service's API against its own description: no answer has status 500 or breaks the description.

use crate::{Tool, authorization, run, start_service};

/// The program.
const SCHEMATHESIS: Tool = Tool { variable: "TTMON_TEST_SCHEMATHESIS", stage: "api" };
/// 50 examples missed a fault that was planted; this many found it.
const EXAMPLES: &str = "500";
const FAILURES: &str = "ttmon_http_requests_total{code=\"5xx\"}";

fn expect_no_difference(flags: &[&str]) {
    let service = start_service(&["--sim", "n300,p150", "--process-metrics"]);
    // Before it was ready, the service answered with 503, which is counted.
    let before = service.metric(FAILURES);
    let url = service.url();
    let mut command = ttmon_testing::command(&SCHEMATHESIS.path(), &["run", &format!("{url}/api/v1/openapi.json"), "--url", &url]);
    command.args(["--max-examples", EXAMPLES, "--seed", "1", "--request-timeout", "20", "--header", &authorization()]).args(flags);
    // It writes files to its current directory.
    let text = run(command.current_dir(service.directory.path()));
    assert!(text.contains("Fuzzing (in "), "{text}");
    assert_eq!(service.metric(FAILURES), before, "the service failed:\n{text}");
}

#[test]
#[ignore = "needs schemathesis: cargo xtask ci --only api"]
fn every_answer_is_as_described() {
    expect_no_difference(&["--exclude-path", "/api/v1/events", "--exclude-path", "/api/v1/memory/events"]);
}

/// Streams do not end, so they are requested as documents.
#[test]
#[ignore = "needs schemathesis: cargo xtask ci --only api"]
fn events_are_documents_as_described() {
    expect_no_difference(&[
        "--include-path",
        "/api/v1/events",
        "--include-path",
        "/api/v1/memory/events",
        "--header",
        "Accept: application/json",
    ]);
}
