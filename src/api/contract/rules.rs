//! Checks of a contract file before it is used: an entry without effect, or with an unintended effect, is
//! refused.

use super::error::{ContractError, invalid};
use super::profile::Profile;

pub(super) fn check(p: &Profile) -> Result<(), ContractError> {
    pointers(p)?;
    versions(&p.version.accepted)?;
    words(p)?;
    statuses(&p.create.refused_for)?;
    numbers(p)
}

fn pointers(p: &Profile) -> Result<(), ContractError> {
    for (field, pointers, required) in [
        ("version.pointers", &p.version.pointers, true),
        ("run.idPointers", &p.run.id_pointers, true),
        ("run.statePointers", &p.run.state_pointers, true),
        ("event.statePointers", &p.event.state_pointers, false),
        (
            "workspace.identityPointers",
            &p.workspace.identity_pointers,
            false,
        ),
    ] {
        if required && pointers.is_empty() {
            return invalid(field, "name at least one JSON pointer".to_owned());
        }
        for pointer in pointers {
            if !pointer.starts_with('/') {
                return invalid(
                    field,
                    format!("{pointer:?} is no JSON pointer; it must begin with \"/\""),
                );
            }
            let escapes = pointer.split('~').skip(1);
            if escapes
                .into_iter()
                .any(|rest| !rest.starts_with(['0', '1']))
            {
                return invalid(
                    field,
                    format!(
                        "{pointer:?} is no JSON pointer; write ~0 for \"~\" and ~1 for \"/\" in a name"
                    ),
                );
            }
        }
    }
    Ok(())
}

/// An accepted version is a literal, or a prefix with a `*` behind it.
fn versions(accepted: &[String]) -> Result<(), ContractError> {
    let field = "version.accepted";
    if accepted.is_empty() {
        return invalid(field, "name at least one version".to_owned());
    }
    for version in accepted {
        let prefix = version.strip_suffix('*').unwrap_or(version);
        let problem = if version == "*" {
            "it accepts every version, so none would be reviewed; name the part that you reviewed, such as \"2.*\""
        } else if prefix.contains('*') {
            "a * matches the rest of a version and nothing before its end; write it last, such as \"1.*\""
        } else if blank(version) {
            "no version has white space; remove it, or the whole entry"
        } else {
            continue;
        };
        return invalid(field, format!("{version:?}: {problem}"));
    }
    Ok(())
}

/// States, codes and prefixes.
fn words(p: &Profile) -> Result<(), ContractError> {
    let (s, c) = (&p.states, &p.codes);
    for (field, words, required) in [
        ("states.pending", &s.pending, false),
        ("states.active", &s.active, false),
        ("states.cancelling", &s.cancelling, false),
        ("states.succeeded", &s.succeeded, true),
        ("states.failed", &s.failed, true),
        ("states.cancelled", &s.cancelled, true),
        ("codes.approvalConflict", &c.approval_conflict, false),
        ("codes.versionConflict", &c.version_conflict, false),
        ("codes.idempotencyConflict", &c.idempotency_conflict, false),
        (
            "codes.idempotencyInProgress",
            &c.idempotency_in_progress,
            false,
        ),
        ("codes.runNotFound", &c.run_not_found, false),
        ("providerKeyPrefixes", &p.provider_key_prefixes, false),
    ] {
        if required && words.is_empty() {
            return invalid(
                field,
                "without a state here no Run could ever end this way".to_owned(),
            );
        }
        if let Some(word) = words.iter().find(|word| blank(word)) {
            return invalid(
                field,
                format!("{word:?} is empty or has white space around it; correct or remove it"),
            );
        }
    }
    Ok(())
}

fn blank(word: &str) -> bool {
    word.is_empty() || word.trim() != word
}

fn statuses(refused_for: &[u16]) -> Result<(), ContractError> {
    match refused_for
        .iter()
        .find(|s| !(400..500).contains(*s) || [401, 403, 408, 409, 425, 429].contains(*s))
    {
        None => Ok(()),
        Some(status) => invalid(
            "create.refusedFor",
            format!(
                "{status} can't refuse a create for good; use 4xx other than 401, 403, 408, 409, 425 and 429"
            ),
        ),
    }
}

fn numbers(p: &Profile) -> Result<(), ContractError> {
    for (field, number, least) in [
        ("keyRetentionSeconds", p.key_retention_seconds, 60),
        ("limits.bodyBytes", p.limits.body_bytes as u64, 1024),
        (
            "limits.eventLineBytes",
            p.limits.event_line_bytes as u64,
            1024,
        ),
        ("limits.eventBytes", p.limits.event_bytes as u64, 1024),
        (
            "limits.streamsPerConnection",
            p.limits.streams_per_connection.into(),
            1,
        ),
        ("timeouts.connectSeconds", p.timeouts.connect_seconds, 1),
        ("timeouts.requestSeconds", p.timeouts.request_seconds, 1),
        (
            "timeouts.streamIdleSeconds",
            p.timeouts.stream_idle_seconds,
            1,
        ),
    ] {
        if number < least {
            return invalid(
                field,
                format!("{number} is too small; the least is {least}"),
            );
        }
    }
    Ok(())
}
