//! Formats a snapshot as text and as CSV. `ttmon_json` writes JSON.
//!
//! All functions take a snapshot, a [`Style`] and a writer; none reads a clock or a terminal. Names, commands and hosts come from processes
//! of other users, so all text of this kind passes through [`Style::clean`] first.
//!
//! ```
//! use ttmon_model::Snapshot;
//! use ttmon_print::Style;
//!
//! fn show(snapshot: &Snapshot) -> std::io::Result<()> {
//!     let style = Style { local_time: "2026-11-15 08:12:45".to_owned(), ..Style::plain("0.1.0") };
//!     ttmon_print::snapshot(snapshot, &style, &mut std::io::stdout())
//! }
//! ```

mod banks;
mod breakdown;
mod changes;
mod csv;
mod devices;
mod events;
mod groups;
mod help;
mod memory;
mod monitor;
mod notes;
mod nvidia;
mod processes;
pub mod quantity;
mod query;
mod reports;
mod snapshot;
mod style;
mod table;
pub mod text;
mod topology;
mod who;

pub use banks::{banks, blocks};
pub use breakdown::{KERNELS, memory_parts, size_or_untracked};
pub use changes::{Change, Sign, changes};
pub use csv::{CsvOptions, csv_fields};
pub use devices::{link_text, list, lower_bound, or_absent, power_text, temperature_text};
pub use events::event;
pub use groups::{groups, groups_csv};
pub use help::{help_fields, help_query_compute_apps, help_query_gpu};
pub use memory::{buffers, memory, memory_end};
pub use monitor::{DeviceColumns, LineStamp, process_lines};
pub use nvidia::{APPS, GPU, QueryField, csv_apps, csv_gpu};
pub use quantity::{percent, size};
pub use query::query;
pub use reports::{ProgramReports, ReportFile, reports};
pub use snapshot::snapshot;
pub use style::Style;
pub use table::bar_cells;
pub use topology::topology;
pub use ttmon_model::identity::ranges;
pub use who::who;

#[cfg(test)]
mod tests;
