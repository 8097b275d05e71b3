//! The proxy to services that are reached by https.

use url::{Position, Url};

use crate::util::{Failed, failed};

/// It carries connections by CONNECT, and so sees the service's name and none of the bytes in clear.
#[derive(Clone, Debug)]
pub struct ServiceProxy(pub(super) reqwest::Proxy);

#[derive(Debug, thiserror::Error)]
enum ServiceProxyError {
    #[error("failed to read the address; write it as in http://proxy.example.com:3128")]
    Address,
    #[error(
        "the address has a user name or a password, which everyone sees who may read the Pod; use a proxy that admits the Pod without one"
    )]
    Password,
}

impl ServiceProxy {
    /// Reads the value of `--service-proxy`, which no error repeats.
    pub fn from_flag(value: Option<&str>) -> Result<Option<Self>, Failed> {
        let proxy = value.map(Self::parse).transpose();
        proxy.map_err(failed("use --service-proxy"))
    }

    fn parse(text: &str) -> Result<Self, ServiceProxyError> {
        let url = Url::parse(text).map_err(|_| ServiceProxyError::Address)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ServiceProxyError::Password);
        }
        let bare = matches!(&url[Position::BeforePath..], "" | "/");
        if url.scheme() != "http" || url.host().is_none() || !bare {
            return Err(ServiceProxyError::Address);
        }
        let proxy = reqwest::Proxy::https(url).map_err(|_| ServiceProxyError::Address)?;
        Ok(Self(proxy))
    }
}
