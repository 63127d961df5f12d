//! Stores over HTTPS. Prometheus and VictoriaMetrics scrape a service with TLS and its token. `ttmon fleet` queries Prometheus with TLS and
//! a password, and VictoriaMetrics through vmauth with TLS and a bearer token.

use std::path::Path;

use serde_json::Value;
use ttmon_testing::{KilledOnDrop, TOKEN, free_port, until};

use super::{Certificate, Secure};
use crate::engines::{Prometheus, VICTORIA, Victoria};
use crate::{output, private, ttmon};

/// The secret of both stores, and its bcrypt hash.
const SECRET: &str = "sesame";
const HASH: &str = "$2b$05$abcdefghijklmnopqrstuuKcS.CYWVYVaLiiCKrrc0A5s3mGesJ9O";

impl Secure {
    /// Returns a scrape configuration for the service.
    fn scrapes(&self) -> String {
        let Certificate { certificate, directory, .. } = &self.certificate;
        format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n- job_name: ttmon\n  scheme: https\n  \
             tls_config: {{ca_file: '{}'}}\n  authorization: {{credentials_file: '{}'}}\n  \
             static_configs: [{{targets: ['localhost:{}']}}]\n",
            certificate.display(),
            private(directory.path(), "service.token", TOKEN).display(),
            self.service.port
        )
    }

    /// Asserts that the store at this port shows the service if it is asked with the secret and its authority. Otherwise it shows nothing,
    /// and the error has a text of `refusals`: for a wrong secret, and for none.
    #[track_caller]
    fn expect_store(&self, port: u16, secret_flag: &str, [right, wrong]: [&Path; 2], refusals: [&str; 2]) {
        let fleet = |flags: &[(&str, &Path)]| -> Value {
            let mut command = ttmon(&["fleet", "--json", "--store", &format!("https://localhost:{port}")]);
            for (flag, path) in flags {
                command.arg(flag).arg(path);
            }
            let output = output(&mut command);
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
        };
        let ca = ("--store-ca", &*self.certificate.certificate);
        // The link to the host's page uses https too.
        let page = format!("https://localhost:{}/", self.service.port);
        until("a host that was scraped over HTTPS with its token, and is asked for over HTTPS", || {
            let found = fleet(&[ca, (secret_flag, right)]);
            found["host_count"] == 1 && found["hosts"][0]["url"] == *page && found["store"]["error"].is_null()
        });
        for (what, flags, refusal) in [
            ("a wrong secret", &[ca, (secret_flag, wrong)][..], refusals[0]),
            ("no secret", &[ca], refusals[1]),
            ("no authority", &[(secret_flag, right)], "cannot be trusted"),
        ] {
            let found = fleet(flags);
            let error = found["store"]["error"].as_str().unwrap_or_default();
            assert!(found["host_count"] == 0 && error.contains(refusal), "{what}: {found}");
        }
    }
}

#[test]
#[ignore = "needs openssl and Prometheus: cargo xtask ci --only prometheus"]
fn a_prometheus_with_tls_and_a_password_is_asked() {
    let secure = Secure::start();
    let Certificate { certificate, key, directory } = &secure.certificate;
    let web = format!(
        "tls_server_config: {{cert_file: '{}', key_file: '{}'}}\nbasic_auth_users: {{ana: '{HASH}'}}\n",
        certificate.display(),
        key.display()
    );
    let web = format!("--web.config.file={}", private(directory.path(), "web.yml", &web).display());
    let prometheus = Prometheus::spawn(&secure.scrapes(), &[web]);
    let password = |name: &str, text: &str| private(directory.path(), name, &format!("ana:{text}\n"));
    let [right, wrong] = [password("password", SECRET), password("wrong-password", "open")];
    secure.expect_store(prometheus.port, "--store-password-file", [&right, &wrong], ["(--store-", "--store-password-file"]);
}

#[test]
#[ignore = "needs openssl and VictoriaMetrics: cargo xtask ci --only prometheus"]
fn a_victoria_metrics_behind_tls_and_a_token_is_asked() {
    let secure = Secure::start();
    let Certificate { certificate, key, directory } = &secure.certificate;
    let victoria = Victoria::start(&secure.scrapes());
    let port = free_port();
    let auth = format!("users:\n- bearer_token: {SECRET}\n  url_prefix: 'http://127.0.0.1:{}'\n", victoria.port);
    let auth = private(directory.path(), "auth.yml", &auth);
    let mut command = VICTORIA.program("vmauth");
    command.arg("-tls").arg(format!("-auth.config={}", auth.display())).arg(format!("-httpListenAddr=127.0.0.1:{port}"));
    command.arg(format!("-tlsCertFile={}", certificate.display())).arg(format!("-tlsKeyFile={}", key.display()));
    let _vmauth = KilledOnDrop::spawn(&mut command);
    let token = |name: &str, text: &str| private(directory.path(), name, &format!("{text}\n"));
    let [right, wrong] = [token("store.token", SECRET), token("wrong.token", "open")];
    // vmauth answers a wrong token with 400.
    secure.expect_store(port, "--store-token-file", [&right, &wrong], ["(400)", "--store-token-file"]);
}
