//! `https://` in a build without TLS: always an error.

use std::net::TcpStream;
use std::path::Path;

use crate::stream::{Stream, Timed};
use crate::{RequestError, RootsError};

/// There are no certificates in this build.
#[derive(Clone, Debug)]
pub enum Roots {}

impl Roots {
    /// Always returns an error.
    pub fn read(_file: Option<&Path>) -> Result<Self, RootsError> {
        Err(RootsError::NotBuiltIn)
    }
}

/// Never called, because there is no value of `Roots`.
pub(crate) fn wrap(_stream: Timed<TcpStream>, _host: &str, _roots: Option<&Roots>) -> Result<Box<dyn Stream>, RequestError> {
    Err(RequestError::Tls("this build of ttmon has no TLS".to_owned()))
}
