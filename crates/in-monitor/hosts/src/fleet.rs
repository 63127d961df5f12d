//! Many hosts, from a store with Prometheus's HTTP API.
//!
//! ```text
//!  TEMPLATES ─► PromQL ─► Store ─► Vector ─► Overview, MatchingHost ─► JSON, tables
//!  hosts files, sinfo, nodes ─► Target ─► JSON for http_sd and file_sd
//! ```
//!
//! Only [`Store`] uses the network and threads; the rest is pure. Every query is a row of `TEMPLATES` or comes from one of the few
//! functions of this crate with parameters, which are escaped. Tests write the recording rules and the dashboards of deploy/.

mod answer;
#[cfg(test)]
mod dashboards;
mod find;
mod limits;
mod overview;
mod promql;
mod sd;
mod store;
mod templates;

pub use answer::{Labels, Vector};
pub use find::{FindRequest, MatchingHost};
pub use limits::HOSTS_SHOWN;
pub use overview::{HostRow, Overview, StoreState};
pub use sd::{SdError, Target, document as sd_document, hosts, kubernetes, slurm};
pub use store::{Store, StoreError};
