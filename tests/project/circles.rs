//! No file of `src` imports another in a circle, and no folder does.

use std::collections::{BTreeMap, BTreeSet};

use crate::{files, layers::module_of, paths};

/// A file's module.
type Module = Vec<String>;
/// The imports from each module, with one place of each as an example.
type Edges = BTreeMap<Module, BTreeMap<Module, String>>;

/// The imports between the files of `src`. A name that a module only gives out counts as import of where it is
/// defined.
fn imports() -> Edges {
    let mut sources = BTreeMap::new();
    for file in files::below("src", "rs") {
        let module = module_of(&file);
        if file == "src/main.rs" || module.iter().any(|m| m == "tests") {
            continue;
        }
        let named = paths::named(&files::text(&file), &module, false);
        sources.insert(module, (file, named));
    }
    let modules: BTreeSet<Module> = sources.keys().cloned().collect();
    let mut given = BTreeMap::new();
    for (module, (_, named)) in &sources {
        for (name, path) in &named.exports {
            given.insert((module.clone(), name.clone()), path[1..].to_vec());
        }
    }
    let mut edges = Edges::new();
    for (module, (file, named)) in &sources {
        let from = edges.entry(module.clone()).or_default();
        for (line, path) in &named.paths {
            // The binary's files name the library.
            let own = |first: &String| first == "crate" || first == "run_operator";
            if !path.first().is_some_and(own) {
                continue;
            }
            let to = defined_in(&path[1..], &modules, &given, 0);
            // To name a module is no import of what is in it; what follows is.
            if to != *module && !modules.contains(&path[1..]) {
                let place = format!("{file}:{line}: {}", path.join("::"));
                from.entry(to).or_insert(place);
            }
        }
    }
    edges
}

/// The module whose file defines what a path names.
fn defined_in(
    path: &[String],
    modules: &BTreeSet<Module>,
    given: &BTreeMap<(Module, String), Vec<String>>,
    depth: usize,
) -> Module {
    let own = (0..=path.len())
        .rev()
        .map(|n| path[..n].to_vec())
        .find(|start| modules.contains(start))
        .unwrap_or_default();
    let next = path.get(own.len()).cloned();
    match next.and_then(|name| given.get(&(own.clone(), name))) {
        Some(other) if depth < 8 => {
            let rest = path[own.len() + 1..].iter().cloned();
            let path: Vec<String> = other.iter().cloned().chain(rest).collect();
            let found = defined_in(&path, modules, given, depth + 1);
            if found == path { own } else { found }
        }
        _ => own,
    }
}

/// The imports between the members of this module's folder.
fn between(edges: &Edges, folder: &[String]) -> Edges {
    let within = |module: &Module| {
        let inside = module.len() > folder.len() && module.starts_with(folder);
        inside.then(|| module[..=folder.len()].to_vec())
    };
    let mut found = Edges::new();
    for (from, targets) in edges {
        for (to, place) in targets {
            if let (Some(from), Some(to)) = (within(from), within(to))
                && from != to
            {
                let entry = found.entry(from).or_default().entry(to);
                entry.or_insert_with(|| place.clone());
            }
        }
    }
    found
}

/// One circle as a list of places, if there is one: modules that none imports are removed until nothing
/// changes.
fn circle(edges: &Edges) -> Vec<String> {
    let mut left = edges.clone();
    loop {
        let before: usize = left.values().map(BTreeMap::len).sum();
        let ends: BTreeSet<Module> = left
            .iter()
            .filter(|(_, t)| !t.is_empty())
            .map(|(m, _)| m.clone())
            .collect();
        let starts: BTreeSet<Module> = left.values().flat_map(|t| t.keys().cloned()).collect();
        for (from, targets) in &mut left {
            targets.retain(|to, _| ends.contains(to) && starts.contains(from));
        }
        let after: usize = left.values().map(BTreeMap::len).sum();
        if after == before {
            return left.values().flat_map(|t| t.values().cloned()).collect();
        }
    }
}

#[test]
fn no_file_is_in_an_import_circle() {
    let found = circle(&imports());
    assert!(
        found.is_empty(),
        "files import each other in a circle:\n{}",
        found.join("\n")
    );
}

#[test]
fn no_folder_is_in_an_import_circle() {
    let edges = imports();
    let mut folders: BTreeSet<Module> = BTreeSet::from([Vec::new()]);
    folders.extend(
        edges
            .keys()
            .flat_map(|m| (1..m.len()).map(|n| m[..n].to_vec())),
    );
    assert!(folders.len() > 10, "{folders:?}");
    for folder in folders {
        let found = circle(&between(&edges, &folder));
        let name = folder.join("/");
        assert!(
            found.is_empty(),
            "what stands in src/{name} imports each other in a circle:\n{}",
            found.join("\n")
        );
    }
}

#[test]
fn imports_are_found_and_followed_to_where_a_name_is_defined() {
    let edges = imports();
    let module = |path: &str| path.split("::").map(str::to_owned).collect::<Module>();
    let imports = |from: &str, to: &str| edges[&module(from)].contains_key(&module(to));
    assert!(imports("decide::run", "decide::run::submitted"));
    assert!(
        imports("controller::run::policy", "decide::memory::learning"),
        "by decide's re-export"
    );
    assert!(imports("start", "controller::manager"), "from the binary");
}

#[test]
fn a_planted_circle_is_found() {
    let edge = |from: &str, to: &str| (vec![from.to_owned()], vec![to.to_owned()]);
    let mut edges = Edges::new();
    for (from, to) in [
        edge("a", "b"),
        edge("b", "c"),
        edge("c", "b"),
        edge("c", "d"),
    ] {
        let place = format!("{from:?} {to:?}");
        edges.entry(from).or_default().insert(to, place);
    }
    assert_eq!(circle(&edges).len(), 2);
    edges
        .get_mut(&vec!["c".to_owned()])
        .unwrap()
        .remove(&vec!["b".to_owned()]);
    assert!(circle(&edges).is_empty());
}
