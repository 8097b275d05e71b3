//! TLS, for clients that use HTTP/2 only where it was negotiated.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("failed to read {}: {source}", path.display())]
    Read { path: PathBuf, source: pem::Error },
    #[error("failed to use the certificate with its key: {0}")]
    Use(#[from] rustls::Error),
}

/// Serves HTTP/2 and HTTP/1.1 with this certificate.
pub(crate) fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let unread = |path: &Path| {
        let path = path.to_owned();
        |source| TlsError::Read { path, source }
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate)
        .map_err(unread(certificate))?
        .collect();
    let chain = chain.map_err(unread(certificate))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(unread(key))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, private)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
