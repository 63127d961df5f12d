//! `https://` in a build without TLS: always an error.

use std::net::TcpStream;
use std::path::Path;

use crate::stream::{Stream, Timed};
use crate::{RootsError, Trouble};

/// There are no certificates.
#[derive(Clone, Debug)]
pub enum Roots {}

impl Roots {
    /// Always an error.
    pub fn read(_file: Option<&Path>) -> Result<Self, RootsError> {
        Err(RootsError::NotBuiltIn)
    }
}

/// Never called: there are no certificates to call it with.
pub(crate) fn wrap(_stream: Timed<TcpStream>, _host: &str, _roots: Option<&Roots>) -> Result<Box<dyn Stream>, Trouble> {
    Err(Trouble::Tls("this build of ttmon has no TLS".to_owned()))
}
