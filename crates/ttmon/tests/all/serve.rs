//! The allocation server over real sockets. Tests are named by the row of the reference server's faults that they are about:
//!
//! | rows | tests |
//! | --- | --- |
//! | F1-F15 framing | `framing`; F8 is about clients, its server's half is `f8_f11_...` |
//! | I1-I12 identity and lifetime | `identity`; I10's alternative is not taken, `i10_...` shows what is done instead |
//! | A1-A16, A18 accounting | `accounting`; A2 in `identity::i2_a2_...`, A14 in `machine` |
//! | A17 restart | `restart` |
//! | P1, P3-P12 the server as a program | `program`; P7 also in `ttmon-intake`'s log, P12 also in `as_root` (a full state directory) |
//! | P2 whose an abandoned socket is | `as_root` |
//!
//! The rows of section 4.5 are about clients and tools.

mod accounting;
mod as_root;
mod framing;
mod identity;
mod machine;
mod program;
mod restart;
mod server;
mod tracked;
