//! `ttmon top`: the interactive monitor.
//!
//! ```text
//!  feed (its own thread) ─┐
//!  keyboard, mouse ───────┼─► Event ─► update(&mut State) ─► view(&State) ─► only the cells that changed
//!  signals ───────────────┘               └─► Effect: ask the feed, send a signal, keep the settings, leave
//! ```
//!
//! A feed sends snapshots; only its thread can hang. All that can change, changes in `update`; all that is seen is
//! drawn by `view` from the state alone, so that both are tested without a terminal.

mod alerts;
mod background;
mod canvas;
mod clock;
mod columns;
mod event;
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
mod theme;
mod update;
mod view;

pub use clock::Clock;
pub use feed::{Feed, Local, Lost, Remote, Replay, line_of};
pub use keys::markdown as keys_markdown;
pub use run::{End, Error, Options, run};
pub use settings::{NotToml, Settings, ThemeChoice, markdown as settings_markdown};
pub use state::View;
pub use theme::{Background, Colors, Theme, Themes, Tones};

#[cfg(test)]
mod tests;
