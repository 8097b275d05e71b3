//! `spec.workload` as received from the API server: text, not a tree.
//!
//! A workload may be nested as deeply as the API server accepts, and contain a million small values. As a tree it would
//! cost a hundred times its text, and a parser that bounds the depth would refuse it; nothing here needs more than the
//! text.

use std::fmt;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A JSON object, as text. Clones share it.
#[derive(Clone, PartialEq, Eq)]
pub struct Workload(Arc<str>);

impl Workload {
    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Uses the text of `other` if both are equal, so that many versions of one object store it once.
    pub fn share(&mut self, other: &Self) {
        if self == other {
            self.0 = Arc::clone(&other.0);
        }
    }
}

impl From<Map<String, Value>> for Workload {
    fn from(fields: Map<String, Value>) -> Self {
        Self(Value::Object(fields).to_string().into())
    }
}

/// Accepts a JSON object of any depth, without decoding it.
impl<'de> Deserialize<'de> for Workload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        if raw.get().starts_with('{') {
            Ok(Self(raw.get().into()))
        } else {
            Err(D::Error::custom("workload is no object"))
        }
    }
}

impl Serialize for Workload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// Shows only its size: the content is the user's.
impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Workload({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Proves: F-heavy
    #[test]
    fn a_workload_of_any_depth_is_kept_and_given_back_as_it_is() {
        let deep = format!(
            r#"{{"image":"i","a":{}{}}}"#,
            "[".repeat(9000),
            "]".repeat(9000)
        );
        let workload: Workload = serde_json::from_str(&deep).unwrap();
        assert_eq!(workload.as_str(), deep);
        assert_eq!(serde_json::to_string(&workload).unwrap(), deep);
    }

    #[test]
    fn what_is_no_object_is_no_workload() {
        for text in ["[]", "null", "1", r#""a""#] {
            assert!(serde_json::from_str::<Workload>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn versions_of_an_object_share_an_unchanged_workload_text() {
        let of = |text: &str| serde_json::from_str::<Workload>(text).unwrap();
        let (first, other) = (of(r#"{"image":"a"}"#), of(r#"{"image":"b"}"#));
        let mut next = of(r#"{"image":"a"}"#);
        next.share(&first);
        assert!(Arc::ptr_eq(&next.0, &first.0));
        next.share(&other);
        assert!(Arc::ptr_eq(&next.0, &first.0));
        assert_eq!(serde_json::to_value(&next).unwrap(), json!({"image": "a"}));
    }
}
