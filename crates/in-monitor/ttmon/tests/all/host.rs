//! Tests `ttmon serve` through its sockets, on simulated machines.

mod api;
mod asking;
mod deep;
mod faults;
mod users;
