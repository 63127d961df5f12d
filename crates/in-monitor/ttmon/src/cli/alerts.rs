//! `ttmon alerts` as typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::values::{self, Parsed};
use crate::completion;

#[derive(Debug, Args)]
pub(crate) struct AlertsArgs {
    /// What to do [default: list].
    #[command(subcommand)]
    pub(crate) command: Option<AlertsCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AlertsCommand {
    /// List alerts, rules and receivers of the running service; without a service, the configured rules.
    List {
        /// Configuration file instead of /etc/ttmon/config.toml and the user's own [also: TTMON_CONFIG].
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Send a test alert of a rule to every configured receiver; exits 1 if one fails.
    Test {
        /// Name of the rule.
        #[arg(add = completion::rules())]
        rule: String,
        /// Configuration file instead of /etc/ttmon/config.toml and the user's own [also: TTMON_CONFIG].
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Silence a rule: its alerts are listed, but not sent. A silence is a file in the service's state directory.
    Silence(SilenceArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SilenceArgs {
    /// Name of the rule, or all.
    #[arg(add = completion::rules())]
    pub(crate) rule: String,
    /// How long; at most 30d.
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = Parsed(values::silence))]
    pub(crate) time: Duration,
    /// Reason, shown to others.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) comment: String,
    /// End the silence instead.
    #[arg(long)]
    pub(crate) end: bool,
    /// State directory of the service [default: /run/ttmon/state as root, else below $XDG_RUNTIME_DIR].
    #[arg(long, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
}
