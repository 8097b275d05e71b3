//! Access control: tokens, each bound to one workspace (rules 3 and 4), and the workspaces.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::plan::Millis;
use crate::problem::Problem;

#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) fingerprint: String,
    pub(crate) workspace: String,
    pub(crate) expires: Option<Millis>,
    pub(crate) revoked: bool,
}

/// The service's record of a workspace. Its key in [`Access`] is what tokens and runs are bound to, and stays
/// the same when the announced identity is changed.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    pub(crate) id: String,
    pub(crate) name: String,
}

#[derive(Debug, Default)]
pub(crate) struct Access {
    tokens: BTreeMap<String, Token>,
    workspaces: BTreeMap<String, Workspace>,
}

/// A caller whose token was accepted.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) workspace: String,
    pub(crate) workspace_id: String,
    pub(crate) fingerprint: String,
}

/// A token's fingerprint, which is shown in place of the token everywhere (rule 7).
pub(crate) fn fingerprint(token: &str) -> String {
    let digest = digest(token.as_bytes());
    format!("sha256:{}", digest.get(..12).unwrap_or_default())
}

/// The SHA-256 in hexadecimal.
pub(crate) fn digest(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A token can be sent in a header as it is: RFC 6750's characters, and no others.
pub(crate) fn is_legal_token(token: &str) -> bool {
    !token.is_empty()
        && token
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte))
}

impl Access {
    pub(crate) fn add_workspace(&mut self, key: &str) {
        self.workspaces
            .entry(key.to_owned())
            .or_insert_with(|| Workspace {
                id: key.to_owned(),
                name: format!("Workspace {key}"),
            });
    }

    pub(crate) fn add_token(
        &mut self,
        token: &str,
        workspace: &str,
        expires: Option<Millis>,
    ) -> Token {
        self.add_workspace(workspace);
        let record = Token {
            fingerprint: fingerprint(token),
            workspace: workspace.to_owned(),
            expires,
            revoked: false,
        };
        self.tokens.insert(token.to_owned(), record.clone());
        record
    }

    /// Finds a token by its text or by its fingerprint.
    pub(crate) fn token_mut(&mut self, name: &str) -> Option<&mut Token> {
        self.tokens
            .iter_mut()
            .find(|(token, record)| *token == name || record.fingerprint == name)
            .map(|(_, record)| record)
    }

    pub(crate) fn tokens(&self) -> impl Iterator<Item = &Token> {
        self.tokens.values()
    }

    pub(crate) fn workspaces(&self) -> impl Iterator<Item = (&String, &Workspace)> {
        self.workspaces.iter()
    }

    /// Changes what the service announces; false when there is no such workspace.
    pub(crate) fn announce(&mut self, key: &str, id: Option<String>, name: Option<String>) -> bool {
        let Some(workspace) = self.workspaces.get_mut(key) else {
            return false;
        };
        if let Some(id) = id {
            workspace.id = id;
        }
        if let Some(name) = name {
            workspace.name = name;
        }
        true
    }

    pub(crate) fn workspace_resource(&self, key: &str) -> Value {
        self.workspaces.get(key).map_or(
            Value::Null,
            |workspace| json!({"id": workspace.id, "name": workspace.name}),
        )
    }

    /// Accepts a token, or returns the problem. One code for all reasons: a client can do the same about
    /// each, which is to get another token.
    pub(crate) fn authenticate(&self, token: &str, now: Millis) -> Result<Caller, Problem> {
        let known = self
            .tokens
            .get(token)
            .ok_or_else(|| Problem::unauthenticated("The token is not known"))?;
        if known.revoked {
            return Err(Problem::unauthenticated("The token was revoked"));
        }
        if known.expires.is_some_and(|expires| expires <= now) {
            return Err(Problem::unauthenticated("The token has expired"));
        }
        Ok(Caller {
            workspace: known.workspace.clone(),
            workspace_id: self
                .workspaces
                .get(&known.workspace)
                .map_or_else(|| known.workspace.clone(), |workspace| workspace.id.clone()),
            fingerprint: known.fingerprint.clone(),
        })
    }

    /// Replaces every known token in a text by its fingerprint.
    pub(crate) fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (token, record) in &self.tokens {
            if text.contains(token.as_str()) {
                text = text.replace(token.as_str(), &record.fingerprint);
            }
        }
        text
    }
}
