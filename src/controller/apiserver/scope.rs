//! Scope of the watches: all namespaces, or some.

use kube::{Api, Resource, core::NamespaceResourceScope};

/// Scope of one watch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Every namespace.
    All,
    /// One namespace.
    Namespace(String),
}

impl Scope {
    /// The scopes for the values of `--namespace`.
    pub fn of(namespaces: &[String]) -> Vec<Self> {
        if namespaces.is_empty() {
            vec![Self::All]
        } else {
            namespaces.iter().cloned().map(Self::Namespace).collect()
        }
    }

    /// Whether objects of this namespace belong to it.
    pub fn covers(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(own) => own == namespace,
        }
    }

    /// The API of a kind within this scope.
    pub fn api<K>(&self, client: kube::Client) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        match self {
            Self::All => Api::all(client),
            Self::Namespace(namespace) => Api::namespaced(client, namespace),
        }
    }
}
