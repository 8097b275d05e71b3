//! The certificate of the metrics' listener: from files, read again when they change, or self-signed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use secrecy::zeroize::Zeroizing;
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
    /// Its files, and what was read first.
    files: Option<(CertificateFiles, Content)>,
}

/// The content of both files.
#[derive(Clone, PartialEq, Eq)]
struct Content {
    certificate: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
}

impl Certificates {
    /// Reads the certificate, or makes one.
    pub(crate) fn new(files: Option<CertificateFiles>) -> Result<Self, CertificateError> {
        let Some(files) = files else {
            let made = rcgen::generate_simple_self_signed([SELF_SIGNED_FOR.to_owned()])
                .map_err(CertificateError::SelfSigned)?;
            let chain = vec![made.cert.der().clone()];
            let current = server_config(chain, made.signing_key.into())?;
            return Ok(Self {
                current: Mutex::new(current),
                files: None,
            });
        };
        let content = Content::read(&files)?;
        Ok(Self {
            current: Mutex::new(content.parse(&files)?),
            files: Some((files, content)),
        })
    }

    /// TLS with the certificate in use.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&lock(&self.current)))
    }

    /// Reads the files again and again, and uses a changed certificate for new connections. One that can't be used is
    /// logged once, and the certificate in use stays. Never returns.
    ///
    /// # Caveats
    /// The two files are read one after the other: amid a change they may not fit each other until the next check.
    pub(super) async fn follow(&self) {
        let Some((files, first)) = &self.files else {
            return std::future::pending().await;
        };
        // `None`: the files could not be read.
        let mut seen = Some(first.clone());
        loop {
            sleep(CHECK).await;
            let (content, renewed) = match Content::read(files) {
                Ok(content) if seen.as_ref() == Some(&content) => continue,
                Err(_) if seen.is_none() => continue,
                Ok(content) => {
                    let renewed = content.parse(files);
                    (Some(content), renewed)
                }
                Err(error) => (None, Err(error)),
            };
            seen = content;
            match renewed {
                Ok(renewed) => {
                    *lock(&self.current) = renewed;
                    tracing::info!(
                        "the certificate of the metrics has changed; new connections use the new one"
                    );
                }
                Err(error) => tracing::warn!(
                    error = error_chain(&error),
                    "failed to use the changed certificate of the metrics; the previous one stays in use"
                ),
            }
        }
    }
}

impl Content {
    /// Blocks, for two small files on a thread that serves only scrapes.
    fn read(files: &CertificateFiles) -> Result<Self, CertificateError> {
        let read = |path: &Path| std::fs::read(path).map_err(|e| unread(path)(pem::Error::Io(e)));
        Ok(Self {
            certificate: read(&files.certificate)?,
            key: Zeroizing::new(read(&files.key)?),
        })
    }

    fn parse(&self, files: &CertificateFiles) -> Result<Arc<ServerConfig>, CertificateError> {
        let chain = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<_, _>>()
            .map_err(unread(&files.certificate))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(unread(&files.key))?;
        server_config(chain, key)
    }
}

fn unread(path: &Path) -> impl Fn(pem::Error) -> CertificateError {
    let path = path.to_owned();
    move |source| CertificateError::Read {
        path: path.clone(),
        source,
    }
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
