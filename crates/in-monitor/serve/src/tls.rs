//! HTTPS, in builds with TLS. Without TLS, the service listens only on this host.

#[cfg(feature = "tls")]
pub(crate) use with::Acceptor;
#[cfg(not(feature = "tls"))]
pub(crate) use without::Acceptor;

#[cfg(feature = "tls")]
mod with {
    use std::path::Path;
    use std::sync::Arc;

    use tokio::net::TcpStream;
    use tokio::time::timeout;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::crypto::ring::default_provider;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio_rustls::server::TlsStream;
    use ttmon_model::limits::{CERTIFICATES_BYTES_MAX, KEY_BYTES_MAX};

    use crate::StartError;
    use crate::limits::HANDSHAKE_TIMEOUT;

    /// Performs TLS handshakes.
    #[derive(Clone)]
    pub(crate) struct Acceptor(TlsAcceptor);

    impl Acceptor {
        /// Creates an acceptor from a certificate chain and a key, both in PEM.
        pub(crate) fn new(certificate: &Path, key: &Path) -> Result<Self, StartError> {
            let wrong = |path: &Path, why: &dyn std::fmt::Display| StartError::Certificate(path.to_owned(), why.to_string());
            let bytes = ttmon_os::read(certificate, CERTIFICATES_BYTES_MAX).map_err(|error| wrong(certificate, &error))?;
            let chain: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
            let chain = chain.map_err(|error| wrong(certificate, &error))?;
            if chain.is_empty() {
                return Err(wrong(certificate, &"there is no certificate in it"));
            }
            let bytes = ttmon_os::read_secret(key, KEY_BYTES_MAX).map_err(|error| wrong(key, &error))?;
            let secret = PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| wrong(key, &error))?;
            let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
                .with_safe_default_protocol_versions()
                .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret))
                .map_err(|error| wrong(key, &error))?;
            Ok(Self(TlsAcceptor::from(Arc::new(config))))
        }

        /// Performs the handshake. Returns `None` if it fails or takes too long.
        pub(crate) async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
            timeout(HANDSHAKE_TIMEOUT, self.0.accept(stream)).await.ok()?.ok()
        }
    }
}

#[cfg(not(feature = "tls"))]
mod without {
    use std::path::Path;

    use tokio::net::TcpStream;

    use crate::StartError;

    /// TLS is not available in this build.
    #[derive(Clone)]
    pub(crate) enum Acceptor {}

    impl Acceptor {
        /// Always returns an error.
        pub(crate) fn new(_certificate: &Path, _key: &Path) -> Result<Self, StartError> {
            Err(StartError::NoTls)
        }

        /// Never called, because there is no value of this type.
        #[allow(clippy::unused_async, reason = "the other build's waits")]
        pub(crate) async fn accept(&self, _stream: TcpStream) -> Option<TcpStream> {
            match *self {}
        }
    }
}
