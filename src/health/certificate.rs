//! The certificate of the metrics' listener: from files, read again when they change, or self-signed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use run_operator::util::{Failed, error_chain, failed, lock};

/// Interval at which the files are read. The kubelet takes about a minute to bring a changed Secret.
const CHECK: Duration = Duration::from_secs(10);
/// Name in a self-signed certificate, which no scraper can verify anyway.
const SELF_SIGNED_FOR: &str = "localhost";

pub(crate) struct Certificates {
    current: Mutex<Arc<ServerConfig>>,
    files: Option<Files>,
}

/// Of the certificate with its chain, and of its key, as PEM.
type Files = (PathBuf, PathBuf);

impl Certificates {
    pub(crate) fn new(files: Option<Files>) -> Result<Self, Failed> {
        let current = match &files {
            Some(files) => read(files)?,
            None => self_signed()?,
        };
        Ok(Self {
            current: Mutex::new(current),
            files,
        })
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&lock(&self.current)))
    }

    /// Uses what the files have for new connections. If that can't be used, the certificate in use stays. Never returns.
    pub(super) async fn reload_on_change(&self) {
        let Some(files) = &self.files else {
            return std::future::pending().await;
        };
        let mut logged = String::new();
        loop {
            sleep(CHECK).await;
            let error = match read(files) {
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

/// Blocks a thread that serves only scrapes. Amid a change the two files may not fit each other until the next time.
fn read((certificate, key): &Files) -> Result<Arc<ServerConfig>, Failed> {
    let read = |path: &Path| failed(format!("read {}", path.display()));
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let chain = chain.map_err(read(certificate))?;
    server_config(chain, PrivateKeyDer::from_pem_file(key).map_err(read(key))?)
}

fn self_signed() -> Result<Arc<ServerConfig>, Failed> {
    let made = rcgen::generate_simple_self_signed([SELF_SIGNED_FOR.to_owned()]);
    let made = made.map_err(failed("make a self-signed certificate"))?;
    server_config(vec![made.cert.der().clone()], made.signing_key.into())
}

fn server_config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, Failed> {
    let tls = ServerConfig::builder().with_no_client_auth();
    let config = tls.with_single_cert(chain, key);
    let mut config = config.map_err(failed("use the certificate with its key"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
