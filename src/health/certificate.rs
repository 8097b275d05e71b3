//! The certificate of the metrics' listener: from files, read again when they change, or self-signed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use run_operator::util::{error_chain, lock};

/// Interval at which the files are read. The kubelet takes about a minute to bring a changed Secret.
const CHECK: Duration = Duration::from_secs(10);
/// Name in a self-signed certificate, which no scraper can verify anyway.
const SELF_SIGNED_FOR: &str = "localhost";

/// Error about the certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    #[error("failed to read {}", path.display())]
    Read { path: PathBuf, source: pem::Error },
    #[error("failed to use the certificate with its key")]
    Tls(#[source] rustls::Error),
    #[error("failed to make a self-signed certificate")]
    SelfSigned(#[source] rcgen::Error),
}

/// The files of a certificate with its chain, and of its key, as PEM.
pub(crate) struct CertificateFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// The certificate in use.
pub(crate) struct Certificates {
    current: Mutex<Arc<ServerConfig>>,
    files: Option<CertificateFiles>,
}

impl Certificates {
    /// Reads the certificate, or makes one.
    pub(crate) fn new(files: Option<CertificateFiles>) -> Result<Self, CertificateError> {
        let current = match &files {
            Some(files) => files.read()?,
            None => self_signed()?,
        };
        Ok(Self {
            current: Mutex::new(current),
            files,
        })
    }

    /// TLS with the certificate in use.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&lock(&self.current)))
    }

    /// Reads the files again and again, and uses what they have for new connections. If that can't be used, the error is
    /// logged once, and the certificate in use stays. Never returns.
    pub(super) async fn reload_on_change(&self) {
        let Some(files) = &self.files else {
            return std::future::pending().await;
        };
        let mut logged = String::new();
        loop {
            sleep(CHECK).await;
            let error = match files.read() {
                Ok(renewed) => {
                    *lock(&self.current) = renewed;
                    String::new()
                }
                Err(error) => error_chain(&error),
            };
            if !error.is_empty() && error != logged {
                tracing::warn!(
                    error,
                    "failed to use the changed certificate of the metrics; the previous one stays in use"
                );
            }
            logged = error;
        }
    }
}

impl CertificateFiles {
    /// Blocks, for two small files on a thread that serves only scrapes. They are read one after the other: amid a change
    /// they may not fit each other until the next time.
    fn read(&self) -> Result<Arc<ServerConfig>, CertificateError> {
        let chain = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect)
            .map_err(unread(&self.certificate))?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(unread(&self.key))?;
        server_config(chain, key)
    }
}

fn unread(path: &Path) -> impl FnOnce(pem::Error) -> CertificateError {
    let path = path.to_owned();
    move |source| CertificateError::Read { path, source }
}

fn self_signed() -> Result<Arc<ServerConfig>, CertificateError> {
    let made = rcgen::generate_simple_self_signed([SELF_SIGNED_FOR.to_owned()])
        .map_err(CertificateError::SelfSigned)?;
    server_config(vec![made.cert.der().clone()], made.signing_key.into())
}

/// Fails if there is no certificate, or if the key is another certificate's.
fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, CertificateError> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|tls| tls.with_no_client_auth().with_single_cert(chain, key))
        .map_err(CertificateError::Tls)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
