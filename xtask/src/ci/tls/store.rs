//! Tests stores over HTTPS. Prometheus and VictoriaMetrics scrape a service with TLS and its token. `ttmon fleet` queries Prometheus with
//! TLS and a password, and VictoriaMetrics through vmauth with TLS and a bearer token.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::super::fleet::engines;
use super::super::prometheus;
use crate::files;
use crate::project::Project;
use crate::service::{Ended, TOKEN, free_port, until};
use crate::tools;

/// The secret of both stores, and its bcrypt hash.
const SECRET: &str = "sesame";
const HASH: &str = "$2b$05$abcdefghijklmnopqrstuuKcS.CYWVYVaLiiCKrrc0A5s3mGesJ9O";

/// A self-signed certificate of `localhost`, its key, and the port of the service that uses them.
pub(super) struct Scraped<'a> {
    pub(super) certificate: &'a Path,
    pub(super) key: &'a Path,
    pub(super) port: u16,
}

/// Queries the stores with this program, which must have TLS.
pub(super) fn check(project: &Project, ttmon: &Path, directory: &Path, scraped: &Scraped<'_>) -> Result<(), String> {
    let tools = prometheus::tools(project).and_then(|tools| Ok((tools, tools::debian(project, "victoria-metrics")?.join("usr/bin"))));
    let (prometheus, victoria) = match tools {
        Ok(tools) => tools,
        Err(why) => {
            println!("NO STORE WAS ASKED OVER HTTPS: {why}");
            return Ok(());
        }
    };
    let (_stores, [prometheus_port, victoria_port]) = start(project, &prometheus, &victoria, directory, scraped)?;
    let secret = |name: &str, text: &str| private(directory, name, &format!("{text}\n"));
    let passwords = [secret("password", &format!("ana:{SECRET}"))?, secret("wrong-password", "ana:open")?];
    let tokens = [secret("store.token", SECRET)?, secret("wrong.token", "open")?];
    let fleet = |port: u16, flags: &[(&str, &Path)]| -> Result<Value, String> {
        let mut command = Command::new(ttmon);
        command.args(["fleet", "--json", "--store", &format!("https://localhost:{port}")]);
        for (flag, path) in flags {
            command.arg(flag).arg(path);
        }
        let output = command.output().map_err(|error| format!("ttmon fleet: {error}"))?;
        serde_json::from_slice(&output.stdout).map_err(|error| format!("ttmon fleet: {error}: {}", String::from_utf8_lossy(&output.stderr)))
    };
    let ca = ("--store-ca", scraped.certificate);
    let cases = [
        ("Prometheus with a password", prometheus_port, "--store-password-file", &passwords, "(--store-"),
        // vmauth answers a wrong token with 400.
        ("vmauth with a bearer token", victoria_port, "--store-token-file", &tokens, "(400)"),
    ];
    // The link to the host's page uses https too.
    let page = format!("https://localhost:{}/", scraped.port);
    for (what, port, flag, [right, wrong], refusal) in cases {
        until(&format!("scraped over HTTPS with a token, and asked over HTTPS: {what}"), || {
            let is_whole = |found: &Value| found["host_count"] == 1 && found["hosts"][0]["url"] == page.as_str();
            fleet(port, &[ca, (flag, right)]).is_ok_and(|found| is_whole(&found) && found["store"]["error"].is_null())
        })?;
        println!("{what}, over HTTPS: 1 host, which was scraped over HTTPS with its token; its page is {page}");
        let cases =
            [("a wrong secret", &[ca, (flag, wrong)][..], refusal), ("no secret", &[ca], flag), ("no authority", &[(flag, right)], "")];
        for (how, flags, named) in cases {
            let found = fleet(port, flags)?;
            let is_named = |error: &&str| found["host_count"] == 0 && error.contains(named);
            let Some(error) = found["store"]["error"].as_str().filter(is_named) else {
                return Err(format!("{what}: {how}, and the store answers: {found}"));
            };
            println!("{what}, {how}: the store {error}");
        }
    }
    Ok(())
}

/// Writes a file that only this user can read.
fn private(directory: &Path, name: &str, text: &str) -> Result<PathBuf, String> {
    let path = directory.join(name);
    files::write_with_mode(&path, text, 0o600).map(|()| path)
}

/// Starts Prometheus, and VictoriaMetrics behind vmauth, which scrape the service. Returns the ports of Prometheus and of vmauth.
fn start(
    project: &Project,
    prometheus: &prometheus::Tools,
    victoria: &Path,
    directory: &Path,
    scraped: &Scraped<'_>,
) -> Result<([Ended; 3], [u16; 2]), String> {
    let (certificate, key) = (scraped.certificate.display(), scraped.key.display());
    let (prometheus_port, victoria_port, auth_port) = (free_port()?, free_port()?, free_port()?);
    let bearer = private(directory, "service.token", TOKEN)?;
    let scrape = format!(
        "global: {{scrape_interval: 2s, scrape_timeout: 2s}}\nscrape_configs:\n- job_name: ttmon\n  scheme: https\n  \
         tls_config: {{ca_file: '{certificate}'}}\n  authorization: {{credentials_file: '{}'}}\n  \
         static_configs: [{{targets: ['localhost:{}']}}]\n",
        bearer.display(),
        scraped.port
    );
    let scrape = private(directory, "tls-scrape.yml", &scrape)?;
    let web = format!("tls_server_config: {{cert_file: '{certificate}', key_file: '{key}'}}\nbasic_auth_users: {{ana: '{HASH}'}}\n");
    let web = [format!("--web.config.file={}", private(directory, "web.yml", &web)?.display())];
    let prometheus = prometheus.start(project, &scrape, &directory.join("tls-prometheus"), prometheus_port, &web)?;
    let engine = engines::victoria(project, victoria, &scrape, &directory.join("tls-victoria"), victoria_port)?;
    let auth = format!("users:\n- bearer_token: {SECRET}\n  url_prefix: 'http://127.0.0.1:{victoria_port}'\n");
    let auth = private(directory, "auth.yml", &auth)?;
    let mut vmauth = project.command(victoria.join("vmauth"), &["-tls"]);
    vmauth.arg(format!("-auth.config={}", auth.display())).arg(format!("-httpListenAddr=127.0.0.1:{auth_port}"));
    vmauth.arg(format!("-tlsCertFile={certificate}")).arg(format!("-tlsKeyFile={key}"));
    Ok(([prometheus, engine, Ended::spawn(&mut vmauth)?], [prometheus_port, auth_port]))
}
