//! Limits, each with its reason.

use std::time::Duration;

/// Default of `clear_for`: how long a rule must be clear until its alert is resolved. A value that flaps faster remains one alert.
pub(crate) const CLEAR_FOR_DEFAULT: Duration = Duration::from_secs(60);
/// Minimum of `clear_for`. It limits how often an alert of one rule and device can be sent.
pub(crate) const CLEAR_FOR_MIN: Duration = Duration::from_secs(10);
/// Longest duration in a rule.
pub(crate) const DURATION_MAX: Duration = Duration::from_secs(7 * 86_400);
/// No alert fires before this time, so that rates and the first scan of processes are complete, and all alerts at the start are in one
/// message.
pub const START_GRACE: Duration = Duration::from_secs(10);
/// Minimum time between two messages to one receiver. Events of the meantime are in the next message.
pub const MESSAGE_GAP: Duration = Duration::from_secs(10);
/// Default interval at which firing alerts are sent to Alertmanager. It drops an alert after four times this interval.
pub(crate) const RESEND_DEFAULT: Duration = Duration::from_secs(60);
/// Minimum and maximum of this interval.
pub(crate) const RESEND_RANGE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(600));
/// How long the end of an alert is sent to Alertmanager, which may have been down.
pub(crate) const RESOLVED_SPAN: Duration = Duration::from_secs(900);
/// Maximum number of resolved alerts that are kept for this: 32 chips x 8 rules.
pub(crate) const RESOLVED_MAX: usize = 256;
/// Maximum number of rules, including built-in ones.
pub(crate) const RULES_MAX: usize = 128;
/// Maximum number of receivers; each has a thread.
pub(crate) const RECEIVERS_MAX: usize = 16;
/// Longest text of a condition.
pub(crate) const CONDITION_BYTES_MAX: usize = 1024;
/// Maximum number of comparisons in one condition.
pub(crate) const COMPARISONS_MAX: usize = 16;
/// Longest name of a rule or a receiver.
pub(crate) const NAME_BYTES_MAX: usize = 64;
/// Maximum number of words of a command.
pub(crate) const ARGUMENTS_MAX: usize = 64;
/// Longest time limit of a command.
pub(crate) const COMMAND_TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// Default time limit of a command.
pub(crate) const COMMAND_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// Number of buckets of a rule's window. With 30 buckets, an increase over 5 minutes has a resolution of 10 seconds.
pub(crate) const WINDOW_BUCKETS: u64 = 30;
/// Longest summary of an alert.
pub(crate) const SUMMARY_BYTES_MAX: usize = 512;
