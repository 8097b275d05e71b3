//! An image by its digest.

use std::fmt;
use std::str::FromStr;

/// A text that is no image by digest.
#[derive(Debug, thiserror::Error)]
#[error("{0} is not NAME@sha256:DIGEST")]
pub(crate) struct NotAnImage(String);

/// An image of a release: `NAME@sha256:…`, where the name has the registry if it is published.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub(super) name: String,
    pub(super) sha256: String,
}

impl Image {
    /// The reference service's name.
    pub(super) const SERVICE: &str = "reference-service";
}

impl FromStr for Image {
    type Err = NotAnImage;

    fn from_str(text: &str) -> Result<Self, NotAnImage> {
        let hexadecimal =
            |sum: &&str| sum.len() == 64 && sum.chars().all(|c| c.is_ascii_hexdigit());
        let parts = text.split_once("@sha256:");
        match parts.filter(|(name, sum)| !name.is_empty() && hexadecimal(sum)) {
            Some((name, sum)) => Ok(Self {
                name: name.to_owned(),
                sha256: sum.to_owned(),
            }),
            None => Err(NotAnImage(text.to_owned())),
        }
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@sha256:{}", self.name, self.sha256)
    }
}
