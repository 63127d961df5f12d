//! `ttmon alerts list`.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use ttmon_alerts::{Listing, Sender, listing_document};
use ttmon_print::text;

use super::{configuration, now};
use crate::failure::Failure;
use crate::meant::{Context, Place};
use crate::output::Output;
use crate::server::services;
use crate::show::VERSION;

const PATIENCE: Duration = Duration::from_millis(500);

/// Prints what the service knows, else the rules that it would have.
pub(super) fn run(context: &Context, config: Option<&Path>) -> Result<(), Failure> {
    let served = if config.is_none() { ask(context) } else { None };
    let document = match &served {
        Some(document) => document.clone(),
        None => {
            let config = configuration(config, matches!(context.place, Place::Real))?;
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            let sender = Sender { version: VERSION, host: &host, origin: "local", is_test: false };
            listing_document(sender, now(), config.rules.iter(), &Listing::default(), &[])
        }
    };
    if context.json {
        return Output::Stdout.write(format!("{document:#}\n").as_bytes());
    }
    let mut page = table(&document, context.terminal.ascii);
    if served.is_none() {
        page += "\nNo service was asked: these are the rules of the configuration. `ttmon serve` judges them.\n";
    }
    Output::Stdout.write(page.as_bytes())
}

fn ask(context: &Context) -> Option<Value> {
    services(context).iter().find_map(|service| serde_json::from_str(&service.get("/api/v1/alerts", PATIENCE).ok()?).ok())
}

/// A line for each alert; a rule without one has a line of its own.
fn table(document: &Value, is_ascii: bool) -> String {
    let text = |value: &Value| text::clean(value.as_str().unwrap_or_default(), is_ascii);
    let none = Vec::new();
    let alerts = document["alerts"].as_array().unwrap_or(&none);
    let mut rows = vec![["RULE", "SEVERITY", "STATE", "DEVICE", "SINCE", "SUMMARY"].map(str::to_owned)];
    for alert in alerts {
        let state = if alert["silenced_until"].is_null() { text(&alert["state"]) } else { format!("{} (silenced)", text(&alert["state"])) };
        let device = alert["device"].to_string();
        rows.push([text(&alert["rule"]), text(&alert["severity"]), state, device, text(&alert["since"]), text(&alert["summary"])]);
    }
    for rule in document["rules"].as_array().unwrap_or(&none) {
        if alerts.iter().all(|alert| alert["rule"] != rule["name"]) {
            let duration = if rule["for"] == "0s" { String::new() } else { format!(" for {}", text(&rule["for"])) };
            let when = format!("{}{duration}", text(&rule["when"]));
            rows.push([text(&rule["name"]), text(&rule["severity"]), "-".to_owned(), "-".to_owned(), "-".to_owned(), when]);
        }
    }
    let widths: Vec<usize> = (0..6).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    let mut page = String::new();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        page += cells.join("  ").trim_end();
        page.push('\n');
    }
    for receiver in document["receivers"].as_array().unwrap_or(&none) {
        let count = |key: &str| receiver[key].as_u64().unwrap_or(0);
        let error = receiver["last_error"].as_str().map_or_else(String::new, |why| format!("; last error: {why}"));
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
