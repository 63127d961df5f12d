//! Services that misbehave in many ways.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use super::*;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Starts a service that answers one request with these bytes, then closes or stays open.
fn service(answer: Vec<u8>, stays: bool) -> Service {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its number").port();
    thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else { return };
        let mut request = [0; 512];
        let _ = stream.read(&mut request);
        let _ = stream.write_all(&answer);
        if stays {
            // Wait until the client closes.
            let _ = stream.read(&mut request);
        }
    });
    Service::new(ServiceAddress::Tcp { host: "127.0.0.1".to_owned(), port, is_tls: false }, Some("sesame".to_owned()), None)
}

fn answer(bytes: &[u8]) -> Result<String, RequestError> {
    service(bytes.to_vec(), false).get("/", TIMEOUT)
}

#[test]
fn a_good_answer_is_its_body() {
    assert_eq!(answer(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi").expect("an answer"), "hi");
    assert_eq!(answer(b"HTTP/1.1 200 OK\r\n\r\nhi").expect("an answer"), "hi");
}

#[test]
fn bad_answers_are_errors() {
    for (bytes, words) in [
        (&b""[..], "half of an answer"),
        (b"HTTP/1.0 200 OK\r\nContent-Le", "half of an answer"),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 9\r\n\r\nhi", "half of an answer"),
        (b"HTTP/1.0 401 Unauthorized\r\n\r\n", "wants a token"),
        (b"HTTP/1.0 503 Not now\r\n\r\n", "nothing to show (503)"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "another way"),
        (b"HTTP/1.0 200 OK\r\n\r\n\xff\xfe", "not text"),
        (b"\xff\xfe\r\n\r\n", "not text"),
    ] {
        let message = answer(bytes).expect_err("no answer").to_string();
        assert!(message.contains(words), "{message}: {words}");
    }
    let message =
        service(b"HTTP/1.0 200 OK\r\n\r\n{\"schema\": 1}".to_vec(), false).snapshot(TIMEOUT).expect_err("no snapshot").to_string();
    assert!(message.contains("another way"), "{message}");
}

#[test]
fn an_endless_answer_is_an_error() {
    let mut endless = b"HTTP/1.0 200 OK\r\n\r\n".to_vec();
    endless.resize(DOCUMENT_BYTES_MAX + 1024, b'x');
    assert!(matches!(service(endless, true).get("/", TIMEOUT), Err(RequestError::Endless)));
}

#[test]
fn a_silent_service_is_left_at_the_deadline() {
    for begun in [&b""[..], b"HTTP/1.0 200 OK\r\n\r\nhalf"] {
        assert!(matches!(service(begun.to_vec(), true).get("/", Duration::from_millis(200)), Err(RequestError::Late)));
    }
}

#[test]
fn missing_service_is_an_error_without_secrets() {
    let address: ServiceAddress = "unix:/nonexistent/api.sock".parse().expect("a address");
    let service = Service::new(address, Some("sesame".to_owned()), None);
    assert!(!format!("{service:?}").contains("sesame"));
    assert_eq!(service.get("/", TIMEOUT).expect_err("nobody").to_string(), "cannot be reached (No such file or directory)");
}
