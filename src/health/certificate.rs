//! The certificate of the metrics' listener: from files, read again when they change, or self-signed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use secrecy::zeroize::Zeroizing;
use sha2::{Digest, Sha256};
use tokio::time::sleep;

use run_operator::util::{error_chain, lock};

/// Interval at which the files are read. The kubelet takes about a minute to bring a changed Secret.
const CHECK: Duration = Duration::from_secs(10);
/// Name in a self-signed certificate, which no scraper can verify anyway.
const SELF_SIGNED_FOR: &str = "localhost";

/// Error about the certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    #[error("failed to read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("failed to find a certificate in {}", path.display())]
    Certificate { path: PathBuf, source: pem::Error },
    #[error("failed to find a private key in {}", path.display())]
    Key { path: PathBuf, source: pem::Error },
    #[error("failed to use the certificate with its key")]
    Pair(#[source] rustls::Error),
    #[error("failed to make a self-signed certificate")]
    SelfSigned(#[source] rcgen::Error),
    #[error("failed to set up TLS")]
    Tls(#[source] rustls::Error),
}

/// The files of a certificate with its chain, and of its key, as PEM.
#[derive(Clone, Debug)]
pub(crate) struct CertificateFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// The certificate in use.
#[derive(Debug)]
pub(crate) struct Certificates {
    current: Mutex<Arc<CertifiedKey>>,
    files: Option<Followed>,
}

/// Files, and the hash of the content that was read first.
#[derive(Debug)]
struct Followed {
    files: CertificateFiles,
    first: Hash,
}

type Hash = [u8; 32];

impl Certificates {
    /// Reads the certificate, or makes one.
    pub(crate) fn new(files: Option<CertificateFiles>) -> Result<Self, CertificateError> {
        let (current, files) = match files {
            Some(files) => {
                let content = Content::read(&files)?;
                let first = content.hash();
                (
                    content.certified_key(&files)?,
                    Some(Followed { files, first }),
                )
            }
            None => (self_signed()?, None),
        };
        Ok(Self {
            current: Mutex::new(Arc::new(current)),
            files,
        })
    }

    pub(super) fn server_config(self: &Arc<Self>) -> Result<ServerConfig, CertificateError> {
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(CertificateError::Tls)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    /// Reads the files again and again, and uses a changed certificate for new connections. One that can't be used is
    /// logged once, and the certificate in use stays. Returns at once if it is self-signed.
    ///
    /// # Caveats
    /// The two files are read one after the other: amid a change they may not fit each other until the next check.
    pub(super) async fn follow(&self) {
        let Some(Followed { files, first }) = &self.files else {
            return;
        };
        // `None`: the files could not be read.
        let mut seen = Some(*first);
        loop {
            sleep(CHECK).await;
            let content = Content::read(files);
            let hash = content.as_ref().ok().map(Content::hash);
            if hash == seen {
                continue;
            }
            seen = hash;
            match content.and_then(|content| content.certified_key(files)) {
                Ok(renewed) => {
                    *lock(&self.current) = Arc::new(renewed);
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

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&lock(&self.current)))
    }
}

/// The content of both files.
struct Content {
    certificate: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
}

impl Content {
    /// Blocks, for two small files on a thread that serves only scrapes.
    fn read(files: &CertificateFiles) -> Result<Self, CertificateError> {
        Ok(Self {
            certificate: read(&files.certificate)?,
            key: Zeroizing::new(read(&files.key)?),
        })
    }

    fn hash(&self) -> Hash {
        let mut hash = Sha256::new();
        hash.update(Sha256::digest(&self.certificate));
        hash.update(Sha256::digest(&*self.key));
        hash.finalize().into()
    }

    fn certified_key(&self, files: &CertificateFiles) -> Result<CertifiedKey, CertificateError> {
        let wrong = |source| CertificateError::Certificate {
            path: files.certificate.clone(),
            source,
        };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<_, _>>()
            .map_err(wrong)?;
        if chain.is_empty() {
            return Err(wrong(pem::Error::NoItemsFound));
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|source| {
            let path = files.key.clone();
            CertificateError::Key { path, source }
        })?;
        certified_key(chain, key)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    std::fs::read(path).map_err(|source| CertificateError::Read {
        path: path.to_owned(),
        source,
    })
}

fn self_signed() -> Result<CertifiedKey, CertificateError> {
    let made = rcgen::generate_simple_self_signed([SELF_SIGNED_FOR.to_owned()])
        .map_err(CertificateError::SelfSigned)?;
    let chain = vec![made.cert.der().clone()];
    certified_key(chain, made.signing_key.into())
}

/// Fails if the key is another certificate's.
fn certified_key(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, CertificateError> {
    let provider: CryptoProvider = ring::default_provider();
    CertifiedKey::from_der(chain, key, &provider).map_err(CertificateError::Pair)
}
