//! The program as users and scripts run it.

mod alerts;
mod check;
pub(crate) mod cli;
mod deep;
mod doctor;
mod fleet;
mod habits;
mod hanging;
mod harmless;
mod outputs;
mod run;
mod simulated;
