//! `ttmon alerts list`.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use ttmon_alerts::{Listing, Sender, listing_document};
use ttmon_json::{Layout, to_string};
use ttmon_print::text;

use crate::config;
use crate::failure::Failure;
use crate::invocation::{CliTarget, Context, OutputFormat};
use crate::output::Output;
use crate::server::services;
use crate::show::{VERSION, now};

const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// Prints the alerts and rules of the running service, or else the rules of the configuration.
pub(crate) fn run(context: &Context, config: Option<&Path>) -> Result<(), Failure> {
    let served = if config.is_none() { ask(context) } else { None };
    let document = match &served {
        Some(document) => document.clone(),
        None => {
            let config = config::alerts(config, matches!(context.target, CliTarget::Real))?;
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            let sender = Sender { version: VERSION, host: &host, origin: "local", is_test: false };
            listing_document(sender, now(), config.rules.iter(), &Listing::default(), &[])
        }
    };
    if context.format == OutputFormat::Json {
        return Output::Stdout.write((to_string(&document, Layout::Pretty) + "\n").as_bytes());
    }
    let mut page = table(&document, context.terminal.ascii);
    if served.is_none() {
        page += "\nNo service was asked: these are the configured rules. `ttmon serve` evaluates them.\n";
    }
    Output::Stdout.write(page.as_bytes())
}

/// Asks the services in turn; `None` if none answers.
fn ask(context: &Context) -> Option<Value> {
    services(context).iter().find_map(|service| serde_json::from_str(&service.get("/api/v1/alerts", ANSWER_TIMEOUT).ok()?).ok())
}

/// Formats the alerts, if there are any, then the rules, then the receivers.
fn table(document: &Value, is_ascii: bool) -> String {
    let text = |value: &Value| text::clean(value.as_str().unwrap_or_default(), is_ascii);
    let none = Vec::new();
    let mut page = String::new();
    let alerts = document["alerts"].as_array().unwrap_or(&none);
    if !alerts.is_empty() {
        let row = |alert: &Value| {
            let silenced = if alert["silenced_until"].is_null() { "" } else { " (silenced)" };
            let state = format!("{}{silenced}", text(&alert["state"]));
            [
                text(&alert["rule"]),
                text(&alert["severity"]),
                state,
                alert["device"].to_string(),
                since(&text(&alert["since"])),
                text(&alert["summary"]),
            ]
        };
        let head = ["ALERT", "SEVERITY", "STATE", "DEVICE", "SINCE", "SUMMARY"].map(str::to_owned);
        page += &aligned(&[head].into_iter().chain(alerts.iter().map(row)).collect::<Vec<_>>());
        page.push('\n');
    }
    let row = |rule: &Value| {
        let duration = if rule["for"] == "0s" { String::new() } else { format!(" for {}", text(&rule["for"])) };
        [text(&rule["name"]), text(&rule["severity"]), format!("{}{duration}", text(&rule["when"]))]
    };
    let rules = document["rules"].as_array().unwrap_or(&none).iter().map(row);
    page += &aligned(&[["RULE", "SEVERITY", "WHEN"].map(str::to_owned)].into_iter().chain(rules).collect::<Vec<_>>());
    for receiver in document["receivers"].as_array().unwrap_or(&none) {
        let count = |key: &str| receiver[key].as_u64().unwrap_or(0);
        let error = receiver["last_error"].as_str().map_or_else(String::new, |why| format!("; last error: {}", text::clean(why, is_ascii)));
        page += &format!(
            "receiver {}: {} sent, {} failed, {} dropped{error}\n",
            text(&receiver["name"]),
            count("sent"),
            count("failed"),
            count("dropped")
        );
    }
    page
}

/// Formats a time to the second: `2026-11-16 13:00:00Z`.
fn since(time: &str) -> String {
    let whole = time.split_once('.').map_or(time, |(whole, _)| whole);
    format!("{}Z", whole.trim_end_matches('Z').replace('T', " "))
}

fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let line = |row: &[String; N]| {
        let cells: Vec<String> = row.iter().enumerate().map(|(column, cell)| format!("{cell:<width$}", width = width(column))).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}
