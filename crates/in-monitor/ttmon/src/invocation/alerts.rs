//! Interprets `ttmon alerts silence`.

use std::path::PathBuf;
use std::time::Duration;

use ttmon_alerts::is_name;

use super::{CliTarget, Context};
use crate::cli::{GlobalArgs, SilenceArgs};
use crate::failure::Failure;

pub(crate) struct SilenceRequest {
    /// All rules if `None`.
    pub(crate) rule: Option<String>,
    /// All devices if empty.
    pub(crate) devices: Vec<u32>,
    /// Ends the silence if `None`.
    pub(crate) time: Option<Duration>,
    pub(crate) comment: String,
    pub(crate) state_directory: Option<PathBuf>,
}

pub(crate) fn silence(common: &GlobalArgs, context: &Context, args: &SilenceArgs) -> Result<SilenceRequest, Failure> {
    let rule = match args.rule.as_str() {
        "all" => None,
        name if is_name(name) => Some(name.to_owned()),
        name => return Err(Failure::usage(format!("no rule {name:?}; see ttmon alerts list"))),
    };
    let device =
        |text: &str| text.parse::<u32>().map_err(|_| Failure::usage(format!("-d {text}: silence takes ids of devices, such as 0 or 0,3")));
    let devices = common.device.iter().chain(&common.id).flat_map(|list| list.split(',')).map(device).collect::<Result<_, _>>()?;
    if let CliTarget::Simulated(..) = context.target {
        return Err(Failure::usage("a simulated machine has no silences of its own; leave --sim out and name its --state-dir"));
    }
    Ok(SilenceRequest {
        rule,
        devices,
        time: (!args.end).then_some(args.time),
        comment: args.comment.clone(),
        state_directory: args.state_dir.clone(),
    })
}
