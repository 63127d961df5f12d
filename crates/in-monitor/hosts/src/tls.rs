//! `https://`: the host's certificate must be signed by a trusted one.

use std::fmt;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use ttmon_model::limits::CERTIFICATES_BYTES_MAX;

use crate::stream::{Stream, Timed};
use crate::{RequestError, RootsError};

/// Files with the system's trusted certificates, by distribution.
const SYSTEM: [&str; 3] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];

/// Trusted certificates, ready for connections.
#[derive(Clone)]
pub struct Roots(Arc<ClientConfig>);

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Roots(..)")
    }
}

impl Roots {
    /// Reads the certificates of a PEM file; without a file, those of the system. An error says why they cannot be used.
    pub fn read(file: Option<&Path>) -> Result<Self, RootsError> {
        let system = || SYSTEM.iter().map(PathBuf::from).find(|path| path.exists());
        let path = file.map(Path::to_owned).or_else(system).ok_or(RootsError::NoList)?;
        let wrong = |why: &dyn fmt::Display| RootsError::File(path.clone(), why.to_string());
        let mut roots = RootCertStore::empty();
        let bytes = ttmon_os::read(&path, CERTIFICATES_BYTES_MAX).map_err(|error| wrong(&error))?;
        for certificate in CertificateDer::pem_slice_iter(&bytes) {
            let certificate = certificate.map_err(|error| wrong(&error))?;
            // An unsupported certificate is ignored in the system's list, but is an error in a named file.
            if let (Err(error), true) = (roots.add(certificate), file.is_some()) {
                return Err(wrong(&error));
            }
        }
        if roots.is_empty() {
            return Err(wrong(&"there is no certificate in it"));
        }
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }
}

pub(crate) fn wrap(stream: Timed<TcpStream>, host: &str, roots: Option<&Roots>) -> Result<Box<dyn Stream>, RequestError> {
    let roots = roots.ok_or_else(|| RequestError::Tls("no certificates to trust were named".to_owned()))?;
    let name = ServerName::try_from(host.to_owned()).map_err(|error| RequestError::Tls(error.to_string()))?;
    let connection = ClientConnection::new(Arc::clone(&roots.0), name).map_err(|error| RequestError::Tls(error.to_string()))?;
    Ok(Box::new(StreamOwned::new(connection, stream)))
}
