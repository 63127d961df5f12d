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
    let files = Files::write(directory, scraped)?;
    let prometheus_port = free_port()?;
    let secured = [format!("--web.config.file={}", files.web.display())];
    let _prometheus = prometheus.start(project, &files.scrape, &directory.join("tls-prometheus"), prometheus_port, &secured)?;
    let (_victoria, victoria_port) = files.victoria(project, &victoria, directory, scraped)?;
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
        ("Prometheus with a password", prometheus_port, "--store-password-file", [&files.password, &files.wrong_password], "(--store-"),
        // vmauth answers a wrong token with 400.
        ("vmauth with a bearer token", victoria_port, "--store-token-file", [&files.token, &files.wrong_token], "(400)"),
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

struct Files {
    scrape: PathBuf,
    web: PathBuf,
    auth: PathBuf,
    store_port: u16,
    password: PathBuf,
    wrong_password: PathBuf,
    token: PathBuf,
    wrong_token: PathBuf,
}

impl Files {
    fn write(directory: &Path, scraped: &Scraped<'_>) -> Result<Self, String> {
        let file = |name: &str, text: &str| -> Result<PathBuf, String> {
            let path = directory.join(name);
            files::write_with_mode(&path, text, 0o600).map(|()| path)
        };
        let Scraped { certificate, key, port } = scraped;
        let (certificate, key) = (certificate.display(), key.display());
        let store_port = free_port()?;
        let bearer = file("service.token", TOKEN)?;
        let scrape = format!(
            "global: {{scrape_interval: 2s, scrape_timeout: 2s}}\nscrape_configs:\n- job_name: ttmon\n  scheme: https\n  \
             tls_config: {{ca_file: '{certificate}'}}\n  authorization: {{credentials_file: '{}'}}\n  \
             static_configs: [{{targets: ['localhost:{port}']}}]\n",
            bearer.display()
        );
        let web = format!("tls_server_config: {{cert_file: '{certificate}', key_file: '{key}'}}\nbasic_auth_users: {{ana: '{HASH}'}}\n");
        let auth = format!("users:\n- bearer_token: {SECRET}\n  url_prefix: 'http://127.0.0.1:{store_port}'\n");
        Ok(Self {
            scrape: file("tls-scrape.yml", &scrape)?,
            web: file("web.yml", &web)?,
            auth: file("auth.yml", &auth)?,
            store_port,
            password: file("password", &format!("ana:{SECRET}\n"))?,
            wrong_password: file("wrong-password", "ana:open\n")?,
            token: file("store.token", &format!("{SECRET}\n"))?,
            wrong_token: file("wrong.token", "open\n")?,
        })
    }

    /// Starts the engine behind vmauth. Returns the port of vmauth.
    fn victoria(&self, project: &Project, programs: &Path, directory: &Path, scraped: &Scraped<'_>) -> Result<([Ended; 2], u16), String> {
        let port = free_port()?;
        let engine = engines::victoria(project, programs, &self.scrape, &directory.join("tls-victoria"), self.store_port)?;
        let mut auth = project.command(programs.join("vmauth"), &["-tls"]);
        auth.arg(format!("-auth.config={}", self.auth.display())).arg(format!("-httpListenAddr=127.0.0.1:{port}"));
        auth.arg(format!("-tlsCertFile={}", scraped.certificate.display())).arg(format!("-tlsKeyFile={}", scraped.key.display()));
        Ok(([engine, Ended::spawn(&mut auth)?], port))
    }
}
