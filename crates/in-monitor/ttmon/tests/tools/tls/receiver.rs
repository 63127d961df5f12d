//! A webhook over HTTPS: `openssl s_server` receives an alert, with a certificate that an authority of these tests has signed.

use std::fs;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

use tempfile::TempDir;
use ttmon_testing::{KilledOnDrop, free_port, until};

use super::{NEW_KEY, openssl};
use crate::{output, private, run, ttmon};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// Receives one message and confirms it.
struct Receiver {
    port: u16,
    received: PathBuf,
    /// Has the authority's certificate, `ca.pem`.
    directory: TempDir,
    _process: KilledOnDrop,
}

impl Receiver {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let openssl = |arguments: &[&str]| openssl(directory.path(), arguments);
        let authority = ["-days", "1", "-subj", "/CN=authority", "-addext", "basicConstraints=critical,CA:TRUE"];
        run(openssl(&["req", "-x509", "-keyout", "ca.key", "-out", "ca.pem"]).args(NEW_KEY).args(authority));
        let server = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
        run(openssl(&["req", "-keyout", "hook.key", "-out", "hook.csr"]).args(NEW_KEY).args(server));
        let sign = ["x509", "-req", "-in", "hook.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1"];
        run(openssl(&sign).args(["-copy_extensions", "copy", "-out", "hook.pem"]));

        let port = free_port();
        let received = directory.path().join("received");
        let mut command =
            openssl(&["s_server", "-quiet", "-accept", &format!("127.0.0.1:{port}"), "-cert", "hook.pem", "-key", "hook.key"]);
        command.stdin(Stdio::piped()).stdout(File::create(&received).unwrap()).stderr(Stdio::null());
        let mut process = KilledOnDrop(command.spawn().unwrap());
        // `openssl s_server` sends its input to each client.
        process.0.stdin.as_mut().unwrap().write_all(ANSWER).unwrap();
        until("a receiver that listens", || listens(port));
        Self { port, received, directory, _process: process }
    }

    fn received(&self) -> String {
        fs::read_to_string(&self.received).unwrap()
    }

    /// Sends a test alert to `https://HOST:PORT/hook`. Returns what `ttmon` prints, and whether it succeeded.
    fn send(&self, host: &str, keys: &str) -> (String, bool) {
        let text = format!("[[alerts.webhook]]\nurl = \"https://{host}:{}/hook\"\n{keys}", self.port);
        let config = private(self.directory.path(), "hook.toml", &text);
        let output = output(&mut ttmon(&["alerts", "test", "hot", "--config", config.to_str().unwrap()]));
        (String::from_utf8(output.stdout).unwrap(), output.status.success())
    }

    /// Asserts that the alert could not be sent, and that the receiver has read nothing of it.
    #[track_caller]
    fn expect_nothing(&self, (text, is_sent): &(String, bool)) {
        assert!(text.starts_with("webhook-1: failed: ") && !is_sent, "{text}");
        assert!(!self.received().contains("POST"), "{}", self.received());
    }

    fn ca(&self) -> String {
        format!("ca = \"{}\"\n", self.directory.path().join("ca.pem").display())
    }
}

/// Whether a process listens on a port of this host. Does not connect, because a connection would consume the answer.
fn listens(port: u16) -> bool {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().any(|line| line.contains(&format!(":{port:04X} 00000000:0000 0A")))
}

#[test]
#[ignore = "needs openssl: cargo xtask ci --only tls"]
fn a_webhook_of_a_known_authority_gets_the_alert_and_the_secret() {
    let receiver = Receiver::start();
    let secret = private(receiver.directory.path(), "hook.token", "sesame\n");
    let sent = receiver.send("localhost", &format!("{}bearer_file = \"{}\"\n", receiver.ca(), secret.display()));
    assert!(sent.0.starts_with("webhook-1: sent") && sent.1, "{sent:?}");
    until("the whole message", || receiver.received().contains("\"rule\":\"hot\""));
    let text = receiver.received();
    assert!(text.starts_with("POST /hook HTTP/1.1\r\n") && text.contains("\r\nAuthorization: Bearer sesame\r\n"), "{text}");
}

#[test]
#[ignore = "needs openssl: cargo xtask ci --only tls"]
fn a_webhook_of_an_unknown_authority_gets_nothing() {
    let receiver = Receiver::start();
    receiver.expect_nothing(&receiver.send("localhost", ""));
}

#[test]
#[ignore = "needs openssl: cargo xtask ci --only tls"]
fn a_webhook_with_the_certificate_of_another_name_gets_nothing() {
    let receiver = Receiver::start();
    receiver.expect_nothing(&receiver.send("127.0.0.1", &receiver.ca()));
}
