//! Which Workspace a Run uses: the one that it names, else the one that its submission is pinned to, else the one that
//! the rule gives for its namespace.

use crate::api::{
    Intent, RunSpec, RunStatus, WorkspaceKey, WorkspaceRef, status::ResolvedWorkspace,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    One(WorkspaceRef),
    /// These ClusterWorkspaces are all the default of the namespace.
    Several(Vec<String>),
    /// There is neither a Workspace `default` nor a default ClusterWorkspace that allows the namespace.
    None,
    /// What there is isn't known yet.
    Unknown,
}

impl Choice {
    /// That of the Workspace `default` where there is no choice: nothing is sent then.
    pub fn key(&self, namespace: &str) -> WorkspaceKey {
        match self {
            Self::One(reference) => WorkspaceKey::of(reference, namespace),
            Self::Several(_) | Self::None | Self::Unknown => WorkspaceKey::own_default(namespace),
        }
    }
}

/// The Workspace that a Run names or is pinned to; `None` while the rule decides. An edit of an intent can choose it, but
/// grants nothing: the namespace is asked for all the same, and each POST needs the place of every record.
pub fn bound(
    spec: &RunSpec,
    status: Option<&RunStatus>,
    intent: impl FnOnce() -> Option<Intent>,
) -> Option<WorkspaceRef> {
    if spec.workspace_ref.is_some() {
        return spec.workspace_ref.clone();
    }
    let submitted = status.filter(|status| status.run_id.is_some());
    let pinned = submitted.and_then(|status| status.workspace.as_ref());
    let pinned = pinned.map(ResolvedWorkspace::reference);
    pinned.or_else(|| intent().map(|intent| intent.workspace.reference()))
}

/// The rule. `own`: there is a Workspace `default`. `shared`: the default ClusterWorkspaces by name, and whether each
/// allows the namespace, if that is known; `None` if ClusterWorkspaces are not served.
pub fn by_rule<'a>(
    own: bool,
    shared: Option<impl IntoIterator<Item = (&'a str, Option<bool>)>>,
) -> Choice {
    let Some(shared) = shared.filter(|_| !own) else {
        return Choice::One(WorkspaceRef::own_default());
    };
    let mut names = Vec::new();
    for (name, allows) in shared {
        match allows {
            None => return Choice::Unknown,
            Some(true) => names.push(name.to_owned()),
            Some(false) => {}
        }
    }
    names.sort();
    match names.as_slice() {
        [] => Choice::None,
        [name] => Choice::One(WorkspaceRef::shared(name.clone())),
        _ => Choice::Several(names),
    }
}
