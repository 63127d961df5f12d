//! Tests a webhook over HTTPS: `openssl s_server` receives an alert, with a certificate signed by a test authority.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::files;
use crate::project::{self, Project};
use crate::service::{Ended, free_port, until};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const CURVE: [&str; 4] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];

/// Sends test alerts with this program, which must have TLS.
pub(super) fn check(project: &Project, ttmon: &Path, directory: &Path) -> Result<(), String> {
    let authority = Authority::make(project, directory)?;
    let token = directory.join("hook.token");
    files::write_with_mode(&token, "sesame\n", 0o600)?;
    let secret = format!("bearer_file = \"{}\"\n", token.display());
    let ca = format!("ca = \"{}\"\n", authority.certificate.display());
    for (what, host, more, expected) in [
        ("with our authority", "localhost", format!("{ca}{secret}"), "webhook-1: sent"),
        ("with the system's authorities", "localhost", String::new(), "webhook-1: failed: "),
        ("under another name", "127.0.0.1", ca.clone(), "webhook-1: failed: "),
    ] {
        let receiver = Receiver::start(project, &authority, directory)?;
        let config = directory.join("hook.toml");
        let text = format!("[[alerts.webhook]]\nurl = \"https://{host}:{}/hook\"\n{more}", receiver.port);
        files::write(&config, text)?;
        let mut command = project.command(ttmon, &["alerts", "test", "hot", "--config"]);
        let output = command.arg(&config).output().map_err(|error| format!("ttmon alerts test: {error}"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        print!("a webhook over HTTPS {what}: {said}");
        if !said.starts_with(expected) || output.status.success() != expected.ends_with("sent") {
            return Err(format!("a webhook over HTTPS {what}: {said}, not {expected}"));
        }
        let took = || fs::read_to_string(&receiver.taken).unwrap_or_default();
        if output.status.success() {
            until("taken whole", || took().contains("\"rule\":\"hot\""))?;
            let is_right = took().starts_with("POST /hook HTTP/1.1\r\n") && took().contains("\r\nAuthorization: Bearer sesame\r\n");
            is_right.then_some(()).ok_or_else(|| format!("not what was sent: {}", took()))?;
        } else if took().contains("POST") {
            return Err(format!("a receiver that is not trusted was sent: {}", took()));
        }
    }
    Ok(())
}

struct Authority {
    certificate: PathBuf,
    /// The certificate of `localhost`, signed by the authority.
    server: PathBuf,
    key: PathBuf,
}

impl Authority {
    fn make(project: &Project, directory: &Path) -> Result<Self, String> {
        let at = |name: &str| directory.join(name);
        let openssl = |arguments: &[&str]| {
            let mut command = project.command("openssl", arguments);
            command.current_dir(directory).stderr(Stdio::null());
            project::run(&mut command)
        };
        let authority = ["-nodes", "-x509", "-days", "1", "-subj", "/CN=authority", "-addext", "basicConstraints=critical,CA:TRUE"];
        openssl(&[&["req"], &CURVE[..], &authority, &["-keyout", "ca.key", "-out", "ca.pem"]].concat())?;
        let server = ["-nodes", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
        openssl(&[&["req"], &CURVE[..], &server, &["-keyout", "hook.key", "-out", "hook.csr"]].concat())?;
        let sign = ["x509", "-req", "-in", "hook.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1"];
        openssl(&[&sign[..], &["-copy_extensions", "copy", "-out", "hook.pem"]].concat())?;
        Ok(Self { certificate: at("ca.pem"), server: at("hook.pem"), key: at("hook.key") })
    }
}

/// Receives one message and confirms it.
struct Receiver {
    port: u16,
    taken: PathBuf,
    _process: Ended,
}

impl Receiver {
    fn start(project: &Project, authority: &Authority, directory: &Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("openssl s_server: {error}");
        let port = free_port()?;
        let taken = directory.join(format!("taken-{port}"));
        let mut command = project.command("openssl", &["s_server", "-quiet", "-accept", &format!("127.0.0.1:{port}")]);
        command.arg("-cert").arg(&authority.server).arg("-key").arg(&authority.key);
        command.stdin(Stdio::piped()).stdout(fs::File::create(&taken).map_err(failed)?).stderr(Stdio::null());
        let mut process = Ended(command.spawn().map_err(failed)?);
        // `openssl s_server` sends its input to each client.
        process.0.stdin.as_mut().ok_or("openssl s_server has no input")?.write_all(ANSWER).map_err(failed)?;
        until("listening", || listens(port))?;
        Ok(Self { port, taken, _process: process })
    }
}

/// Whether a process listens on a port of this host. Does not connect, because a connection would consume the answer.
fn listens(port: u16) -> bool {
    let table = fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    table.lines().any(|line| line.contains(&format!(":{port:04X} 00000000:0000 0A")))
}
