//! Interprets `ttmon serve`.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::Context;
use crate::cli::{GlobalArgs, ServeArgs};
use crate::failure::Failure;

const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

pub(crate) fn serve(common: &GlobalArgs, args: &ServeArgs) -> Result<Context, Failure> {
    let context = Context::new(common, &[])?.with_deep(args.deep);
    if common.json || !context.selection.is_empty() {
        return Err(Failure::usage("serve is about the whole machine; leave --json and -d out (--log json is how its lines look)"));
    }
    if !INTERVALS.contains(&args.interval) {
        return Err(Failure::usage("--interval takes 0.1 to 3600 seconds, or a time such as 5s"));
    }
    Ok(context)
}
