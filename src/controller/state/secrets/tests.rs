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

/// A table in which the Workspace `default` of each namespace names `token`.
fn table(namespaces: &[&str]) -> SecretTable {
    let table = SecretTable::default();
    for namespace in namespaces {
        let token = secret(namespace, "token");
        table.name(&workspace(namespace), [token.clone()].into());
        table.note(&workspace(namespace), &token, version("1"));
    }
    table
}

/// The Secrets that are read periodically.
fn reread(table: &SecretTable) -> BTreeSet<SecretName> {
    let all = table.next_uncovered(None, usize::MAX);
    assert_eq!(table.uncovered(), all.len());
    all.into_iter().collect()
}

/// Settles with tasks that do nothing, and returns the watched Secrets.
fn settled(table: &SecretTable, cluster_wide: bool) -> BTreeSet<String> {
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

/// Proves: P-secret-forgotten
#[tokio::test]
async fn what_no_workspace_names_is_neither_watched_nor_kept() {
    let table = table(&["a"]);
    assert_eq!(settled(&table, true), ["All token".to_owned()].into());
    table.name(&workspace("a"), [secret("a", "new")].into());
    assert_eq!(
        settled(&table, true),
        [].into(),
        "no Workspace has read it yet"
    );
    table.note(&workspace("a"), &secret("a", "new"), version("1"));
    assert_eq!(settled(&table, true), ["All new".to_owned()].into());
    table.forget_all_but(|_| false);
    assert_eq!(settled(&table, true), [].into());
    // A check that was in flight restores nothing.
    table.note(&workspace("a"), &secret("a", "new"), version("2"));
    let kept = lock(&table.table);
    assert!(kept.named.is_empty() && kept.users.is_empty());
}

/// Proves: P-many-workspaces
#[tokio::test]
async fn secret_watches_are_bounded_and_favour_the_commonest_names() {
    let table = SecretTable::default();
    let name = |namespace: &str, secret_name: &str| {
        let named = secret(namespace, secret_name);
        table.name(&workspace(namespace), [named.clone()].into());
        table.note(&workspace(namespace), &named, version("1"));
    };
    for n in 0..2000 {
        name(&format!("own-{n:04}"), &format!("token-{n:04}"));
    }
    let before = settled(&table, true);
    assert_eq!(before.len(), WATCHES);
    assert_eq!(table.uncovered(), 2000, "none is established");
    // A later name that is equally useful replaces none; a more useful one does.
    name("own-x", "aaa");
    assert_eq!(settled(&table, true), before);
    for n in 0..3 {
        name(&format!("shared-{n}"), "token");
    }
    let after = settled(&table, true);
    assert!(after.contains("All token") && after.len() == WATCHES);
}

/// Proves: P-many-workspaces
#[test]
fn what_no_watch_covers_is_read_again_in_turn() {
    let table = table(&["a", "b", "c"]);
    let names = |after: Option<&SecretName>, most| {
        let next = table.next_uncovered(after, most).into_iter();
        next.map(|secret| secret.namespace).collect::<Vec<_>>()
    };
    assert_eq!(names(None, 2), ["a", "b"]);
    assert_eq!(names(Some(&secret("b", "token")), 2), ["c", "a"]);
    assert_eq!(names(Some(&secret("b", "token")), 9), ["c", "a", "b"]);
}

/// Proves: P-rotation
#[tokio::test]
async fn a_forbidden_cluster_watch_is_replaced_by_namespaced_ones() {
    let table = table(&["a", "b"]);
    let all = Watched {
        scope: Scope::All,
        name: "token".to_owned(),
    };
    settled(&table, true);
    assert_eq!(reread(&table).len(), 2, "not listed yet");
    assert_eq!(table.named_within(&all).len(), 2);
    table.set_coverage(&all, Coverage::Forbidden);
    let three = [
        "All token",
        "Namespace(\"a\") token",
        "Namespace(\"b\") token",
    ];
    assert_eq!(settled(&table, true), three.map(str::to_owned).into());
    let one = Watched {
        scope: Scope::Namespace("a".to_owned()),
        name: "token".to_owned(),
    };
    table.set_coverage(&one, Coverage::Established);
    assert_eq!(reread(&table), [secret("b", "token")].into());
    table.set_coverage(&all, Coverage::Established);
    assert_eq!(settled(&table, true), ["All token".to_owned()].into());
    assert_eq!(reread(&table), [].into());
}

/// Proves: P-many-workspaces
#[tokio::test]
async fn a_watch_that_is_forbidden_takes_the_room_of_none_that_is_not() {
    let namespaces: Vec<String> = (0..WATCHES).map(|n| format!("ns-{n:02}")).collect();
    let names: Vec<&str> = namespaces.iter().map(String::as_str).collect();
    let table = table(&names);
    let all = Watched {
        scope: Scope::All,
        name: "token".to_owned(),
    };
    assert_eq!(settled(&table, true), ["All token".to_owned()].into());
    table.set_coverage(&all, Coverage::Forbidden);
    let each: BTreeSet<String> = names
        .iter()
        .map(|namespace| format!("Namespace({namespace:?}) token"))
        .collect();
    // Nor is it restored automatically: that would end all the others.
    for _ in 0..2 {
        assert_eq!(settled(&table, true), each);
    }
    // With room it is retried.
    table.forget_all_but(|key| key.namespace != "ns-00");
    assert!(settled(&table, true).contains("All token"));
    table.set_coverage(&all, Coverage::Established);
    assert_eq!(settled(&table, true), ["All token".to_owned()].into());
    table.forget_all_but(|_| false);
    settled(&table, true);
    assert!(lock(&table.table).forbidden.is_empty());
}

#[tokio::test]
async fn a_cluster_workspaces_secret_is_watched_in_its_namespace() {
    let table = table(&["a"]);
    let shared = WorkspaceKey {
        kind: WorkspaceKind::ClusterWorkspace,
        ..workspace("")
    };
    let token = secret("operators", "token");
    table.name(&shared, [token.clone()].into());
    table.note(&shared, &token, version("1"));
    let two = ["All token", "Namespace(\"operators\") token"];
    assert_eq!(settled(&table, true), two.map(str::to_owned).into());
}

#[tokio::test]
async fn a_secret_that_can_not_be_read_is_left_to_the_checks() {
    let table = table(&["a"]);
    let token = secret("a", "token");
    table.note(&workspace("a"), &token, Read::Unread);
    assert_eq!(
        (settled(&table, true), reread(&table)),
        ([].into(), [].into())
    );
    table.note(&workspace("a"), &token, Read::Version(None));
    assert_eq!(reread(&table), [token].into());
}
