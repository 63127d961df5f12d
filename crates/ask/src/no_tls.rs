//! `https://` in a build without TLS: it says so.

use std::net::TcpStream;
use std::path::Path;

use crate::stream::{Stream, Timed};
use crate::{RootsError, Trouble};

/// There are none.
#[derive(Clone, Debug)]
pub enum Roots {}

impl Roots {
    /// Always the same answer.
    pub fn read(_file: Option<&Path>) -> Result<Self, RootsError> {
        Err(RootsError::NotBuiltIn)
    }
}

/// Never called: there are no roots to call it with.
pub(crate) fn wrap(_stream: Timed<TcpStream>, _host: &str, _roots: Option<&Roots>) -> Result<Box<dyn Stream>, Trouble> {
    Err(Trouble::Tls("this build of ttmon has no TLS".to_owned()))
}
