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

#[derive(Debug, Default)]
pub(crate) struct Access {
    tokens: BTreeMap<String, Token>,
    /// The id that a workspace announces, by what tokens and runs are bound to, which stays the same.
    workspaces: BTreeMap<String, String>,
}

/// A caller whose token was accepted.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) workspace: String,
    pub(crate) workspace_id: String,
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
    pub(crate) fn add_token(
        &mut self,
        token: &str,
        workspace: &str,
        expires: Option<Millis>,
    ) -> Token {
        let announced = self.workspaces.entry(workspace.to_owned());
        announced.or_insert_with(|| workspace.to_owned());
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

    /// Changes the id that the service announces.
    pub(crate) fn announce(&mut self, workspace: &str, id: String) {
        self.workspaces.insert(workspace.to_owned(), id);
    }

    pub(crate) fn workspace_resource(&self, workspace: &str) -> Value {
        json!({"id": self.workspaces.get(workspace), "name": format!("Workspace {workspace}")})
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
            workspace_id: self.workspaces[&known.workspace].clone(),
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
