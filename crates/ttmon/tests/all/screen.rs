//! `ttmon top` in a real pseudo-terminal: the screen after each key, and the restored terminal at the end.

mod background;
mod keys;
mod leaving;
mod replay;
mod sources;
mod terminal;
mod watching;
