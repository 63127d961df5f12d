//! Bounds, each with its reason.

use std::time::Duration;

/// How long a rule must be clear until its alert is resolved, unless it says otherwise. A value that flaps faster stays one alert.
pub const CLEAR_FOR_DEFAULT: Duration = Duration::from_secs(60);
/// Shortest time that a rule may say: it bounds how often one rule and device can be announced.
pub(crate) const CLEAR_FOR_MIN: Duration = Duration::from_secs(10);
/// Longest duration of a rule.
pub(crate) const DURATION_MAX: Duration = Duration::from_secs(7 * 86_400);
/// Nothing fires before: rates and the first scan of processes settle, and what is wrong at the start becomes one message.
pub const START_GRACE: Duration = Duration::from_secs(10);
/// Least time between two messages to one receiver. What happens meanwhile is in the next one.
pub const MESSAGE_GAP: Duration = Duration::from_secs(10);
/// How often firing alerts are sent to Alertmanager. It forgets an alert after four times this.
pub const RESEND_DEFAULT: Duration = Duration::from_secs(60);
/// How often at least and at most.
pub(crate) const RESEND_RANGE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(600));
/// How long the end of an alert is sent to Alertmanager, which may have been down.
pub(crate) const RESOLVED_SPAN: Duration = Duration::from_secs(900);
/// Resolved alerts that are kept for that: 32 chips by 8 rules.
pub(crate) const RESOLVED_MAX: usize = 256;
/// Rules, built-in ones included.
pub(crate) const RULES_MAX: usize = 128;
/// Receivers; each has a thread.
pub(crate) const RECEIVERS_MAX: usize = 16;
/// Longest text of a condition.
pub(crate) const CONDITION_BYTES_MAX: usize = 1024;
/// Comparisons in one condition.
pub(crate) const COMPARISONS_MAX: usize = 16;
/// Longest name of a rule or a receiver.
pub(crate) const NAME_BYTES_MAX: usize = 64;
/// Words of a command.
pub(crate) const ARGUMENTS_MAX: usize = 64;
/// Longest time that a command may take.
pub(crate) const COMMAND_TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// How long a command may take, unless it says otherwise.
pub(crate) const COMMAND_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// Parts that a window of a rule is divided into: an increase over 5 minutes is known to 10 seconds.
pub(crate) const WINDOW_PARTS: u64 = 30;
/// Longest summary of an alert.
pub(crate) const SUMMARY_BYTES_MAX: usize = 512;
