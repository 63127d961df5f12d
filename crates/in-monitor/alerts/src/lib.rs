//! Alerts of one host.
//!
//! ```text
//!  rules (built in, TOML) ─┐
//!  snapshots, their time ──┴─► Engine ─► alerts: fired, resolved ─┬─► Outbox ─► messages for webhooks and commands
//!                                 └────► listing: pending, firing, resolved ──► Alertmanager, API, `ttmon top`
//! ```
//!
//! A rule compares fields of the model's field table, separately for each device. This crate is pure: it opens no file, reads no clock and
//! starts no thread. The service delivers the messages.

mod builtin;
mod condition;
mod config;
mod engine;
mod limits;
mod message;
mod outbox;
#[cfg(test)]
mod prometheus;
mod rule;
mod silence;
mod window;

pub use builtin::builtin;
pub use condition::{Condition, ConditionError, PromqlError};
pub use config::{Config, ConfigError, Delivery, PostTarget, Receiver, UrlFrom};
pub use engine::{Alert, Engine, Listing, Phase, Saved};
pub use limits::{MESSAGE_GAP, START_GRACE};
pub use message::{Sender, alertmanager_body, listing_document, message_body};
pub use outbox::Outbox;
pub use rule::{Rule, Severity, is_name};
pub use silence::{Silence, SilenceError};
