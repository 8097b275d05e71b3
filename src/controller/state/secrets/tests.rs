use crate::controller::state::fixtures::key_in as workspace;

use super::*;

fn secret(namespace: &str, name: &str) -> SecretName {
    SecretName {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn version(version: &str) -> Read {
    Read::Version(Some(version.to_owned()))
}

fn name(table: &SecretTable, namespace: &str, secret_name: &str) {
    let named = secret(namespace, secret_name);
    table.name(&workspace(namespace), [named.clone()].into());
    table.note(&workspace(namespace), &named, version("1"));
}

fn table(namespaces: &[&str]) -> SecretTable {
    let table = SecretTable::default();
    for namespace in namespaces {
        name(&table, namespace, "token");
    }
    table
}

fn watches(table: &SecretTable, cluster_wide: bool) -> Vec<String> {
    table.update_watches(cluster_wide, |_| {
        tokio::spawn(std::future::pending::<()>()).abort_handle()
    });
    let table = lock(&table.table);
    let watched = table.watches.keys();
    watched
        .map(|w| format!("{:?} {}", w.scope, w.name))
        .collect()
}

/// Proves: P-rotation
#[test]
fn a_change_is_news_to_each_workspace_that_has_not_read_it() {
    let table = table(&["a"]);
    let other = WorkspaceKey {
        name: "other".to_owned(),
        ..workspace("a")
    };
    table.name(&other, [secret("a", "token")].into());
    let token = secret("a", "token");
    for key in [&workspace("a"), &other] {
        table.note(key, &token, version("1"));
    }
    assert_eq!(table.outdated(&token, &version("1")), []);
    assert_eq!(table.outdated(&token, &version("2")).len(), 2);
    // One Workspace read it before the watch's event; the other still has to.
    table.note(&workspace("a"), &token, version("2"));
    assert_eq!(table.outdated(&token, &version("2")), [other]);
    assert_eq!(table.outdated(&secret("b", "token"), &version("2")), []);
}

/// Proves: X-secrets-by-name
#[tokio::test]
async fn what_no_workspace_names_is_neither_watched_nor_kept() {
    let table = table(&["a"]);
    assert_eq!(watches(&table, true), ["All token"]);
    let new = secret("a", "new");
    table.name(&workspace("a"), [new.clone()].into());
    let none: [String; 0] = [];
    assert_eq!(watches(&table, true), none, "no Workspace has read it yet");
    table.note(&workspace("a"), &new, version("1"));
    assert_eq!(watches(&table, true), ["All new"]);
    table.forget_all_but(|_| false);
    assert_eq!(watches(&table, true), none);
    // A check that was in flight restores nothing.
    table.note(&workspace("a"), &new, version("2"));
    assert!(lock(&table.table).named.is_empty());
}

/// Proves: P-many-workspaces
#[tokio::test]
async fn secret_watches_are_bounded_and_a_later_name_ends_none() {
    let table = SecretTable::default();
    for n in 100..2000 {
        name(&table, &format!("ns-{n}"), &format!("token-{n}"));
    }
    let before = watches(&table, true);
    assert_eq!(before.len(), WATCHES);
    name(&table, "ns-0", "earlier-in-the-order");
    assert_eq!(watches(&table, true), before);
    // The room of one that ends is taken.
    table.forget_all_but(|key| key.namespace != "ns-100");
    let after = watches(&table, true);
    assert!(after.len() == WATCHES && after[0] == "All earlier-in-the-order");
}

/// Proves: P-rotation
#[tokio::test]
async fn what_no_watch_shows_is_read() {
    let table = table(&["a", "b"]);
    let both: BTreeSet<_> = [secret("a", "token"), secret("b", "token")].into();
    assert_eq!(table.unwatched(), both);
    watches(&table, true);
    assert_eq!(table.unwatched(), both, "it has not listed yet");
    let all = Watched {
        scope: Scope::All,
        name: "token".to_owned(),
    };
    assert_eq!(table.shown_by(&all), both);
    table.set_listed(&all, true);
    assert_eq!(table.unwatched(), [].into());
    table.set_listed(&all, false);
    assert_eq!(table.unwatched(), both);
    table.note(&workspace("a"), &secret("a", "token"), Read::Unread);
    assert_eq!(table.unwatched(), [secret("b", "token")].into());
    table.note(&workspace("a"), &secret("a", "token"), Read::Version(None));
    assert_eq!(table.unwatched(), both);
}

#[tokio::test]
async fn a_watch_has_the_scope_that_rbac_grants() {
    let table = table(&["a"]);
    let shared = WorkspaceKey {
        kind: WorkspaceKind::ClusterWorkspace,
        ..workspace("")
    };
    let token = secret("operators", "token");
    table.name(&shared, [token.clone()].into());
    table.note(&shared, &token, version("1"));
    let two = ["All token", "Namespace(\"operators\") token"];
    assert_eq!(watches(&table, true), two);
    let two = ["Namespace(\"a\") token", "Namespace(\"operators\") token"];
    assert_eq!(watches(&table, false), two);
}
