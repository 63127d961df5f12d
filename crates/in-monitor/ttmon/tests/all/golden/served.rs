//! What the service answers and prints.

use std::fs;
use std::path::Path;

use ttmon_allocation_server::protocol::{Request, Size, Type};
use ttmon_testing::{Response, Service};

use super::machine::Fixed;
use super::{check, isolate, program};
use crate::serve::server::{Client, DRAM, L1, alloc, dump, event, free};

/// Starts a service of a fixed machine. It takes only one sample, so that no answer depends on how long the test takes.
fn serve(machine: &Fixed, more: &str) -> Service {
    let fixed = format!("--root machine --interval 1h --read-timeout 30000 {more}");
    let arguments: Vec<&str> = fixed.split_ascii_whitespace().collect();
    Service::start_with(&program(), &arguments, |command| isolate(command, machine.folder()))
}

/// Returns a request, the head without what depends on time and host, and the body. Each member of a document begins a line.
fn answer(path: &str, response: &Response) -> String {
    let is_fixed = |line: &&str| !["date:", "etag:", "content-length:"].iter().any(|name| line.starts_with(name));
    let head: Vec<&str> = response.head.lines().filter(is_fixed).collect();
    format!("GET {path}\n{}\n\n{}\n\n", head.join("\n"), response.body.replace(",\"", ",\n\""))
}

#[test]
fn generated_answers_of_the_service() {
    let machine = Fixed::with_ledgers("n150,procs=2");
    let service = serve(&machine, "-q --process-metrics");
    let answers = |paths: &[&str]| -> String { paths.iter().map(|path| answer(path, &service.unix(path))).collect() };
    check("served/metrics.txt", &service.unix("/metrics").body);
    check("served/fields.txt", &answers(&["/api/v1/fields"]));
    check("served/snapshot.txt", &answers(&["/api/v1/snapshot", "/api/v1/mesh"]));
    check("served/memory.txt", &answers(&["/api/v1/memory?buffers=true&banks=true", "/api/v1/buffers?limit=3"]));
    check("served/events.txt", &answers(&["/api/v1/memory/events?limit=5&follow=false", "/api/v1/alerts"]));
    check(
        "served/problems.txt",
        &answers(&["/healthz", "/readyz", "/api/v1/nothing", "/api/v1/history?fields=nothing", "/api/v1/fleet", "/api/v1/buffers?limit=x"]),
    );
    // The description has a golden file already.
    let committed = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../web/openapi.json")).unwrap();
    let expected = committed.replace("\"version\":\"0\"", concat!("\"version\":\"", env!("CARGO_PKG_VERSION"), "\""));
    let is_same = service.unix("/api/v1/openapi.json").body.trim_end() == expected.trim_end();
    assert!(is_same, "/api/v1/openapi.json is not web/openapi.json");
}

/// Without the token, a client does not see what belongs to users.
#[test]
fn generated_answers_without_the_token() {
    let machine = Fixed::with_ledgers("n150,procs=2");
    let service = serve(&machine, "--metrics lean");
    let paths = ["/api/v1/snapshot", "/api/v1/processes", "/api/v1/memory?buffers=true", "/api/v1/memory/events?follow=false"];
    let text: String = paths.iter().map(|path| answer(path, &service.get(path))).collect();
    check("served/without-token.txt", &text);
    check("served/metrics-lean.txt", &service.unix("/metrics").body);
}

/// The lines for allocations over the socket, in both formats, and the dump.
#[test]
fn generated_lines_and_dumps_of_the_allocation_socket() {
    let machine = Fixed::new("n150,idle");
    for (format, name) in [("text", "lines.txt"), ("json", "lines.jsonl")] {
        let mut service = serve(&machine, &format!("--listen off --log {format}"));
        let mut client = Client::new(&service.path("alloc.sock"), Size::B144);
        client.send(&[
            alloc(0, 0x1000, 1 << 20, DRAM),
            alloc(0, 0x1000, 1 << 20, DRAM),
            alloc(0, 0x2000, 4096, L1),
            alloc(0, 0x3000, 77, 3),
        ]);
        client.send(&[
            event(Type::CbAlloc, 0, 0x1a000, 65_536, 0),
            event(Type::KernelLoad, 0, 0x77, 57_344, 1),
            event(Type::KernelLoad, 0, 0x78, 4096, 2),
        ]);
        client.send(&[
            free(0, 0x1000),
            free(0, 0x9999),
            alloc(0, 0x4000, 1 << 50, DRAM),
            alloc(-1, 0x4000, 1, DRAM),
            alloc(7, 0x5000, 512, DRAM),
        ]);
        client.send(&[event(Type::KernelUnload, 0, 0x77, 57_344, 1), alloc(0, 0x2000, 8192, L1)]).usage(0);
        // Another thread prints the events.
        let last = if format == "text" { "of another size" } else { "\"op\":\"replace\"" };
        service.until("the last event", || service.output().contains(last));
        if format == "text" {
            check("served/dump.txt", &dump(&service.path("alloc.sock")));
        }
        client.send(&[Request::new(Type::DumpRemaining), Request::new(Type::DumpKernels)]).usage(0);
        service.until("the dump", || service.output().contains("DUMP_KERNELS complete"));
        assert_eq!(service.stop(), Some(0));
        let text = format!("{}== standard error\n{}", service.output(), service.errors());
        let text = text.replace(service.directory.path().to_str().unwrap(), "DIRECTORY");
        // Only some users learn from the kernel that a process ends.
        let lines: Vec<&str> = text.lines().filter(|line| !line.contains("Ends of processes")).collect();
        check(&format!("served/{name}"), &lines.join("\n"));
    }
}
