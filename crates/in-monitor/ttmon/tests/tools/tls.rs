//! HTTPS with a new certificate, and curl as the client.

mod receiver;
mod store;

use std::fs;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use ttmon_testing::{KilledOnDrop, Service, until};

use crate::{authorization, output, run, start_service, ttmon};

/// A self-signed certificate of `localhost`, valid for a day, and its key. It is not an authority's, because ttmon refuses a server with
/// such a certificate.
struct Certificate {
    certificate: PathBuf,
    key: PathBuf,
    directory: TempDir,
}

impl Certificate {
    fn make() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (certificate, key) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
        let mut command = openssl(directory.path(), &["req", "-x509"]);
        command.args(NEW_KEY).args(["-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]);
        command.args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", "key.pem", "-out", "cert.pem"]);
        run(&mut command);
        Self { certificate, key, directory }
    }
}

const NEW_KEY: [&str; 5] = ["-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];

fn openssl(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("openssl");
    command.args(arguments).current_dir(directory);
    command
}

/// A service that is open to other hosts, which requires a token and TLS.
struct Secure {
    service: Service,
    certificate: Certificate,
}

impl Secure {
    fn start() -> Self {
        let certificate = Certificate::make();
        let [file, key] = [&certificate.certificate, &certificate.key].map(|path| path.to_str().unwrap());
        let service = start_service(&["--sim", "n150", "--listen", "0.0.0.0:0", "--allow-remote", "--tls-cert", file, "--tls-key", key]);
        Self { service, certificate }
    }

    /// Returns the status and the result of verification that curl prints, and its exit code.
    fn curl(&self, path: &str, flags: &[&str]) -> String {
        let mut command = Command::new("curl");
        command.args(["--silent", "--max-time", "20", "--output", "/dev/null", "--write-out", "%{http_code} %{ssl_verify_result}"]);
        let output = output(command.args(flags).arg(format!("https://localhost:{}{path}", self.service.port)));
        format!("{} exit {}", String::from_utf8_lossy(&output.stdout), output.status.code().unwrap())
    }

    /// The same, by a client that knows the certificate.
    fn trusting(&self, path: &str, flags: &[&str]) -> String {
        self.curl(path, &[&["--cacert", self.certificate.certificate.to_str().unwrap()], flags].concat())
    }

    #[track_caller]
    fn expect_alive(&self) {
        assert_eq!(self.trusting("/healthz", &[]), "200 0 exit 0");
    }
}

#[test]
#[ignore = "needs openssl and curl: cargo xtask ci --only tls"]
fn https_answers_those_who_have_the_token() {
    let secure = Secure::start();
    assert_eq!(secure.trusting("/api/v1/snapshot", &["--header", &authorization()]), "200 0 exit 0");
    assert_eq!(secure.trusting("/metrics", &[]), "401 0 exit 0");
    assert_eq!(secure.trusting("/readyz", &[]), "200 0 exit 0");
    secure.expect_alive();
}

#[test]
#[ignore = "needs openssl and curl: cargo xtask ci --only tls"]
fn tls_1_2_is_the_oldest_version() {
    let secure = Secure::start();
    assert_eq!(secure.trusting("/metrics", &["--header", &authorization(), "--tls-max", "1.2"]), "200 0 exit 0");
    // A failed handshake.
    let old = secure.trusting("/healthz", &["--tls-max", "1.1"]);
    assert!(old.ends_with("exit 35"), "{old}");
    secure.expect_alive();
}

#[test]
#[ignore = "needs openssl and curl: cargo xtask ci --only tls"]
fn a_client_that_does_not_know_the_certificate_refuses_it() {
    let secure = Secure::start();
    // No trusted authority signed the certificate.
    let stranger = secure.curl("/healthz", &[]);
    assert!(stranger.ends_with("exit 60"), "{stranger}");
    secure.expect_alive();
}

#[test]
#[ignore = "needs openssl and curl: cargo xtask ci --only tls"]
fn plain_http_has_no_answer_where_https_is_served() {
    let secure = Secure::start();
    let url = format!("http://localhost:{}/healthz", secure.service.port);
    let plain = output(Command::new("curl").args(["--silent", "--max-time", "20", &url]));
    assert!(!plain.status.success(), "{plain:?}");
    secure.expect_alive();
}

#[test]
#[ignore = "needs openssl and curl: cargo xtask ci --only tls"]
fn a_key_that_others_can_read_is_refused() {
    let Certificate { certificate, key, directory } = Certificate::make();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let mut serve = ttmon(&["serve", "--sim", "n150", "--listen", "127.0.0.1:0", "--api"]);
    serve.arg(directory.path().join("api.sock")).arg("--tls-cert").arg(certificate).arg("--tls-key").arg(key);
    let errors = directory.path().join("errors");
    let mut process = KilledOnDrop(serve.stderr(File::create(&errors).unwrap()).spawn().unwrap());
    // A service that accepts the key does not end.
    until("an end of the service", || process.0.try_wait().unwrap().is_some_and(|status| !status.success()));
    let message = fs::read_to_string(errors).unwrap();
    assert!(message.contains("other users may read it"), "{message}");
}
