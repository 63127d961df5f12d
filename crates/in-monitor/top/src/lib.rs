//! `ttmon top`: the interactive monitor.
//!
//! ```text
//!  feed (its own thread) ─┐
//!  keyboard, mouse ───────┼─► Event ─► update(&mut TopState) ─► view(&TopState) ─► only the cells that changed
//!  signals ───────────────┘               └─► Effect: send a request to the feed, send a signal, save the settings, quit
//! ```
//!
//! A feed sends snapshots; only its thread can hang. Only `update` changes the state, and `view` draws the screen from the state alone, so
//! both are tested without a terminal.

mod alerts;
mod background;
mod canvas;
mod clock;
mod columns;
mod feed;
mod filter;
mod history;
mod host;
mod keys;
mod layout;
mod marks;
mod metric;
mod run;
mod screen;
mod settings;
mod signals;
mod state;
pub mod terminal;
mod theme;
mod update;
mod view;

pub use clock::Clock;
pub use feed::{Feed, FeedError, Local, Remote, Replay, line_of};
pub use run::{End, Error, Options, run};
pub use settings::Settings;
pub use state::View;
pub use theme::{Background, Colors, Theme, Tones};

#[cfg(test)]
mod tests;
