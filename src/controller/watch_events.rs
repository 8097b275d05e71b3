//! Handlers of the watches' events: they update the stores and enqueue the objects concerned.

use std::sync::Arc;

use kube::{Resource, runtime::watcher::Event};

use crate::api::Run;

use super::{
    apiserver::{
        Maybe,
        cache::Cache,
        controller::{Named, Watches},
        scope::Scope,
        workqueue::Name,
    },
    context::Context,
    enqueue,
    run::settled,
    state::run_store::Known,
    workspace::kind::{Kind, key_of},
};

impl Named for Known {
    fn name(&self) -> String {
        let [_, _, name] = self.identity();
        name.to_owned()
    }
}

impl Watches<Run> for Context {
    type Known = Known;

    fn apply(&self, scope: &Scope, event: Event<Maybe<Run>>) {
        match event {
            Event::Init => self.runs.begin(scope),
            Event::InitApply(run) => self.runs.list(scope, settled::known(self, run)),
            Event::InitDone => {
                let last = |uid: &str, shown: Option<&Arc<Run>>| {
                    self.tracked_runs.get(uid)?.last_version(shown)
                };
                for change in self.runs.listed(scope, last) {
                    enqueue::follow(self, &change);
                }
            }
            Event::Apply(run) => enqueue::follow(self, &self.runs.put(settled::known(self, run))),
            Event::Delete(run) => {
                let uid = run.meta().uid.as_deref().unwrap_or_default();
                let entry = self.tracked_runs.get(uid);
                let last = entry.and_then(|entry| entry.last_version(run.good()));
                enqueue::follow(self, &self.runs.gone(uid, last));
            }
        }
    }

    fn find(&self, (_, uid): &Name) -> Option<Known> {
        self.runs.get(uid)
    }

    fn request_all(&self, scope: &Scope) {
        let mut all = Vec::new();
        self.runs.each(|known| {
            let [uid, namespace, _] = known.identity();
            if scope.covers(namespace) && !matches!(known, Known::Ended(_)) {
                all.push((namespace.to_owned(), uid.to_owned()));
            }
        });
        for (namespace, uid) in all {
            self.run_trigger.enqueue(&namespace, &uid);
        }
    }
}

impl<K: Kind> Watches<K> for Context {
    type Known = Arc<Maybe<K>>;

    fn apply(&self, scope: &Scope, event: Event<Maybe<K>>) {
        let mut caches = K::caches(self).iter();
        if let Some(cache) = caches.find(|cache| cache.scope == *scope) {
            cache.apply(&event);
        }
        match event {
            Event::Init | Event::InitApply(_) => {}
            Event::InitDone => {
                enqueue::missing_workspaces(self);
                Watches::<K>::request_all(self, scope);
            }
            Event::Apply(workspace) => self.enqueue_workspace(&key_of::<K>(&workspace)),
            Event::Delete(_) => enqueue::missing_workspaces(self),
        }
    }

    fn find(&self, (namespace, name): &Name) -> Option<Arc<Maybe<K>>> {
        let mut caches = K::caches(self).iter();
        caches.find_map(|cache| cache.get(namespace, name))
    }

    fn request_all(&self, scope: &Scope) {
        let caches = K::caches(self).iter().filter(|cache| cache.scope == *scope);
        for workspace in caches.flat_map(Cache::all) {
            self.enqueue_workspace(&key_of::<K>(workspace.as_ref()));
        }
    }
}
