//! Tests HTTPS with a new certificate, and curl as the client.

mod receiver;
mod store;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Gate, Outcome};
use crate::files;
use crate::project::{self, Project};
use crate::service::{TOKEN, serve, until};
use crate::stop::untested;

pub(super) fn run(gate: &mut Gate) -> Outcome {
    for tool in ["openssl", "curl"] {
        let found = Command::new(tool).arg("--version").output();
        found.map_err(|error| untested("HTTPS WAS NOT TRIED")(format!("{tool}: {error}; apt-get install {tool}")))?;
    }
    let checked = check(gate);
    gate.count(checked)
}

fn check(gate: &Gate) -> Result<(), String> {
    let ttmon = gate.ttmon(&["--features", "tls"])?;
    let directory = files::temporary()?;
    let (certificate, key) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
    receiver::check(gate.project, &ttmon, directory.path())?;
    make_certificate(gate.project, &certificate, &key)?;
    refuse_public_key(&ttmon, directory.path(), &certificate, &key)?;
    let (_server, port) = serve(&mut command(&ttmon, directory.path(), &certificate, &key), "https://")?;
    let curl = |flags: &[&str], path: &str| -> Result<String, String> {
        let url = format!("https://localhost:{port}{path}");
        let mut command = Command::new("curl");
        command.args(["--silent", "--max-time", "20", "--output", "/dev/null", "--write-out", "%{http_code} %{ssl_verify_result}"]);
        let output = command.args(flags).arg(url).output().map_err(|error| format!("curl: {error}"))?;
        Ok(format!("{} exit {}", String::from_utf8_lossy(&output.stdout), output.status.code().unwrap_or(-1)))
    };
    let trusted = certificate.to_str().ok_or("a path that is no text")?;
    let header = format!("Authorization: Bearer {TOKEN}");
    let expect = |what: &str, said: String, expected: &str| -> Result<(), String> {
        println!("{what}: {said}");
        if said == expected { Ok(()) } else { Err(format!("{what}: {said}, not {expected}")) }
    };
    until("ready", || curl(&["--cacert", trusted], "/readyz").is_ok_and(|said| said == "200 0 exit 0"))?;
    expect("with the token", curl(&["--cacert", trusted, "--header", &header], "/api/v1/snapshot")?, "200 0 exit 0")?;
    expect("TLS 1.2", curl(&["--cacert", trusted, "--header", &header, "--tls-max", "1.2"], "/metrics")?, "200 0 exit 0")?;
    expect("without a token", curl(&["--cacert", trusted], "/metrics")?, "401 0 exit 0")?;
    expect("alive to all", curl(&["--cacert", trusted], "/healthz")?, "200 0 exit 0")?;
    // 35 and 60 are curl's exit codes for a failed handshake and for a certificate that no trusted authority signed.
    for (what, flags, code) in [("TLS 1.1", &["--cacert", trusted, "--tls-max", "1.1"][..], "exit 35"), ("a stranger", &[], "exit 60")] {
        let said = curl(flags, "/healthz")?;
        println!("{what}: {said}");
        if !said.ends_with(code) {
            return Err(format!("{what}: {said}, not {code}"));
        }
    }
    let plain = Command::new("curl").args(["--silent", "--max-time", "20", &format!("http://localhost:{port}/healthz")]).output();
    if plain.map_err(|error| format!("curl: {error}"))?.status.success() {
        return Err("without TLS it answers too".to_owned());
    }
    store::check(gate.project, &ttmon, directory.path(), &store::Scraped { certificate: &certificate, key: &key, port })?;
    expect("after all that", curl(&["--cacert", trusted], "/healthz")?, "200 0 exit 0")
}

/// Creates a self-signed certificate for `localhost`, valid for a day. It is not an authority, because ttmon refuses a server with an
/// authority's certificate.
fn make_certificate(project: &Project, certificate: &Path, key: &Path) -> Result<(), String> {
    let mut command = project.command("openssl", &["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    command.args(["-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]);
    command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    command.arg("-keyout").arg(key).arg("-out").arg(certificate).stderr(Stdio::null());
    project::run(&mut command)
}

fn refuse_public_key(program: &Path, directory: &Path, certificate: &Path, key: &Path) -> Result<(), String> {
    let public = directory.join("public.pem");
    let copied = std::fs::copy(key, &public).and_then(|_| std::fs::set_permissions(&public, PermissionsExt::from_mode(0o644)));
    copied.map_err(|error| format!("{}: {error}", public.display()))?;
    let output = command(program, directory, certificate, &public).output().map_err(|error| format!("ttmon: {error}"))?;
    let message = String::from_utf8_lossy(&output.stderr);
    println!("a key that others can read: {}", message.trim_end());
    if message.contains("other users may read it") { Ok(()) } else { Err("a key that others can read is used".to_owned()) }
}

/// Returns a service that is open to other hosts, which requires a token and TLS.
fn command(program: &Path, directory: &Path, certificate: &Path, key: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["serve", "--sim", "n150", "--listen", "0.0.0.0:0", "--allow-remote"]).env("TTMON_TOKEN", TOKEN);
    command.arg("--api").arg(directory.join("api.sock")).arg("--tls-cert").arg(certificate).arg("--tls-key").arg(key);
    command
}
