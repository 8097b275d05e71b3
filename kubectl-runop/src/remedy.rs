//! What a person does about each reason: the one table of it. docs/reasons.md shows it, and `kubectl runop why` prints it.

use run_operator::api::Reason;

/// Stands where nothing is to be done.
const NOTHING: &str = "Nothing.";

/// The remedy, as Markdown with links relative to `docs/`.
#[allow(clippy::too_many_lines, reason = "one table")]
pub fn markdown(reason: Reason) -> &'static str {
    match reason {
        Reason::Suspended => "Set `spec.suspend` to false.",
        Reason::WorkspaceNotFound => {
            "Create the Workspace that the message names, or for a Run without `workspaceRef` [a default \
             one](workspaces.md#the-default). To delete a Run whose submission is in doubt without it, set \
             `deletionPolicy: Orphan`."
        }
        Reason::WorkspaceNotReady => "Check the Workspace; the Run resumes automatically.",
        Reason::WorkspaceDeleting => {
            "Create the Run with another Workspace, or wait until this one exists again. To have the Workspace \
             removed, delete the Runs that it names."
        }
        Reason::WorkspaceAmbiguous => {
            "Leave the annotation `run-operator.dev/is-default` on one of the ClusterWorkspaces, or create the \
             Workspace `default` in the namespace."
        }
        Reason::ProviderNotAllowed | Reason::RegionNotAllowed | Reason::ImageNotAllowed => {
            "Create a new Run with a value that the message names, or have the Workspace's list changed."
        }
        Reason::NamespaceNotAllowed => {
            "Label the namespace to match, or create a new Run with another Workspace."
        }
        Reason::WorkspaceInvalid | Reason::RunInvalid => {
            "Correct the fields, or apply the CRDs of this operator's version."
        }
        Reason::WorkspaceSuspended => "Set the Workspace's `spec.suspend` to false.",
        Reason::SubmissionInProgress => "Nothing; ask the service's support if it lasts.",
        Reason::Retrying => "Nothing; the message names what failed.",
        Reason::RateLimited => {
            "Nothing; it resumes automatically. If it lasts, raise `spec.rateLimit`, or ask the service for a \
             higher limit."
        }
        Reason::Queued => {
            "Raise the limit that the message names, or this Run's `spec.priority`, or cancel one of the active \
             Runs; else it is submitted when its turn comes."
        }
        Reason::Submitted
        | Reason::Active
        | Reason::Cancelling
        | Reason::Succeeded
        | Reason::Cancelled
        | Reason::Mirrored
        | Reason::VersionAccepted
        | Reason::Identified
        | Reason::Verified
        | Reason::Checking
        | Reason::Scheduled => NOTHING,
        Reason::CreateRefused => "Correct the spec in a new Run; a retry does nothing.",
        Reason::RunTooLarge => {
            "Create a new Run with a smaller workload: let it refer to its large parts by an address."
        }
        Reason::WriteRefused => {
            "Exclude the operator's ServiceAccount from the webhook, the policy or the limit that the message names."
        }
        Reason::StateNotMapped => {
            "Add the state that the message names to the [contract file](contract.md), in the list of its meaning, \
             and restart the operator."
        }
        Reason::Forbidden => {
            "Give the token access to the workspace that the message names, then retry."
        }
        Reason::ApprovalConflict => "Give the approval at the service, then retry.",
        Reason::VersionConflict => "Check the version at the service, then retry.",
        Reason::IdempotencyConflict => "Use another `spec.idempotencyKey` in a new Run.",
        Reason::UnknownConflict => {
            "Read the message; when the cause is removed, retry. Add the code to the contract file."
        }
        Reason::Refused => "Read the message; when the cause is removed, retry.",
        Reason::ServerError => "Ask the service's support with the request id, then retry.",
        Reason::ContractViolation => {
            "Check the base URL and the [contract file](contract.md), then retry."
        }
        Reason::SubmissionUnknown => {
            "Look for the run at the service by the key in the message. Then create a new Run, and set \
             `deletionPolicy: Orphan` to delete this one."
        }
        Reason::Restored => {
            "Retry: it submits a new run or, with `spec.idempotencyKey`, [finds the old one](keys.md). Where \
             the status has the old runID: create a new Run."
        }
        Reason::KeyInUse => {
            "Wait for the other Run to end, or delete it; this one then resumes automatically, and [finds its \
             run](keys.md)."
        }
        Reason::WorkspaceChanged => {
            "Restore `--base-url`, or delete the Workspace and create it again with the base URL that the \
             message names. If it says that no run was made yet, a retry submits it at the new one instead. To \
             delete the Run without that, set `deletionPolicy: Orphan`."
        }
        Reason::IdentityChanged => {
            "Put a token of the workspace that the message names into the Secret again. If it says that no run \
             was made yet, a retry submits it with the new identity instead. To delete the Run without that, set \
             `deletionPolicy: Orphan`."
        }
        Reason::BodyChanged => "Create a new Run.",
        Reason::RunIDConflict => "Ask the service's support which of the two is this object's.",
        Reason::CancelRefused => {
            "Read the message. To release the object without it, set `deletionPolicy: Orphan`."
        }
        Reason::Failed => {
            "See `.status.failure`, `.status.state` and `.status.events`; `kubectl runop rerun` creates a new Run of \
             the same spec."
        }
        Reason::CancelledElsewhere => {
            "Create a new Run to run it again, with another key if it has one."
        }
        Reason::DeadlineExceeded => {
            "Create a new Run with a longer deadline, and with another key if it has one."
        }
        Reason::RunNotFound => {
            "Create a new Run, with another key if it has one. Deleting this one makes one more request; \
             `deletionPolicy: Orphan` releases it without that."
        }
        Reason::Polled => "Nothing; to have every run followed by a stream, raise `--max-streams`.",
        Reason::ServiceUnavailable => "Nothing; check the service if it lasts.",
        Reason::Unauthorized => {
            "Put a valid token into the Secret that the message names; it is picked up automatically."
        }
        Reason::SecretNotFound => {
            "Create the Secret. In a namespace that is being deleted it can't be created: set `deletionPolicy: \
             Orphan` on the Runs that wait for it."
        }
        Reason::SecretKeyNotFound => "Add the key to the Secret, or name another in the Workspace.",
        Reason::SecretForbidden => {
            "Allow this name in the operator's RBAC: the chart's value `tokenSecretNames`, or `resourceNames` \
             of its role."
        }
        Reason::TokenMalformed => "Correct the Secret.",
        Reason::TokenIsProviderKey => {
            "Put the service's access token into the Secret, and replace the provider key if others could read \
             it."
        }
        Reason::CAInvalid => "Correct the Secret that `spec.caSecretRef` names.",
        Reason::BaseURLNotAllowed => {
            "Delete the Workspace and create it again with another base URL; or start the operator with this one as \
             `--base-url`, or as one more `--allowed-base-url`."
        }
        Reason::VersionNotAccepted => {
            "Review the change of contract, then add the version to the [contract \
             file](contract.md#review-a-change-of-contract)."
        }
        Reason::WorkspaceMismatch => "Check `spec.workspaceID` and the token.",
        Reason::ScheduleInvalid => {
            "Correct `spec.schedules` or `spec.timeZone` as the message says, or apply the CRDs of this operator's \
             version."
        }
        Reason::TemplateNotFound => {
            "Create the RunTemplate that the message names, or name another in `spec.templateRef`."
        }
        Reason::TemplateInvalid => {
            "Correct the RunTemplate, or the schedule's `spec.parameters`, as the message says."
        }
        Reason::TemplateRefused => {
            "Correct the schedule's template, or the RunTemplate, as the message says, or have the policy or the quota \
             changed that refuses the Run."
        }
        Reason::NameTaken => {
            "Delete the Run that the message names, or create it again under another name; it is tried again \
             automatically."
        }
        Reason::ClockSkew => {
            "Correct the clock of the operator's node. If it is right and was ahead before, suspend and resume the schedule, or \
             delete it with `--cascade=orphan`, which keeps its Runs, and create it under another name, as the message \
             says."
        }
    }
}

/// The remedy in plain text; `None` where nothing is to be done.
pub fn plain(reason: Reason) -> Option<String> {
    let text = markdown(reason);
    (text != NOTHING).then(|| without_marks(text))
}

/// Markdown's links by their texts alone, and without the backticks of code.
fn without_marks(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        plain.push_str(before);
        let (label, after) = link.split_once("](").unwrap_or((link, ""));
        plain.push_str(label);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    plain.push_str(rest);
    plain.replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_code_are_plain_on_a_terminal() {
        let plain = |reason| plain(reason).unwrap();
        assert_eq!(
            plain(Reason::ContractViolation),
            "Check the base URL and the contract file, then retry."
        );
        assert_eq!(plain(Reason::Suspended), "Set spec.suspend to false.");
        for reason in Reason::ALL {
            let text = super::plain(*reason).unwrap_or_default();
            assert!(!text.contains(['[', ']', '`']), "{text}");
        }
    }

    #[test]
    fn a_run_that_goes_its_way_needs_nothing() {
        for reason in [Reason::Active, Reason::Succeeded, Reason::Mirrored] {
            assert_eq!(super::plain(reason), None);
        }
    }
}
