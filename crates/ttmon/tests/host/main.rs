//! `ttmon serve` as others meet it: over its sockets, on simulated machines.

mod api;
mod asking;
mod faults;
mod server;
mod users;
