//! Five layers, each importing only from those before it, and no circle of files or folders.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rstest::rstest;
use syn::visit::{self, Visit};

use crate::files;

/// Of the pure layers: time is an argument, and the rest is the controller's.
const PURE: &[&str] = &[
    "tokio",
    "tokio_util",
    "reqwest",
    "hyper",
    "hyper_util",
    "axum",
    "futures",
    "rustls",
    "tracing",
    "clap",
    "prometheus_client",
    "uuid",
    "kube::Client",
    "kube::client",
    "kube::Api",
    "kube::api",
    "kube::Config",
    "kube::config",
    "kube::runtime",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::env",
    "std::io",
    "std::os",
    "std::time::SystemTime",
    "std::time::Instant",
    "jiff::Timestamp::now",
    "Timestamp::now",
    "Zoned::now",
    "crate::clock",
    "crate::service",
    "crate::controller",
];

type Module = Vec<String>;

/// What a file names, its unit tests left out.
#[derive(Default)]
struct Source {
    /// Paths, with `crate`, `super` and `self` resolved; one for each leaf of a `use`.
    paths: Vec<Vec<String>>,
    /// `pub use`: the name that it gives out, and the path of what that is.
    exports: Vec<(String, Vec<String>)>,
    is_async: bool,
    module: Module,
    /// The modules that it declares.
    children: BTreeSet<String>,
}

/// `src/service/sse/mod.rs` is `service::sse`.
fn module_of(file: &str) -> Vec<String> {
    let path = Path::new(file.trim_start_matches("src/")).with_extension("");
    let names = path.iter().map(|name| name.to_string_lossy().into_owned());
    names
        .filter(|name| !["mod", "lib", "main"].contains(&name.as_str()))
        .collect()
}

fn read(file: &str, text: &str) -> Source {
    let mut source = Source {
        module: module_of(file),
        ..Source::default()
    };
    let parsed = syn::parse_file(text).expect("the source can be parsed");
    let modules = parsed.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) => Some(module.ident.to_string()),
        _ => None,
    });
    source.children = modules.collect();
    source.visit_file(&parsed);
    source
}

impl Source {
    /// A path from the crate's root.
    fn resolved(&self, path: &[String]) -> Vec<String> {
        if path
            .first()
            .is_some_and(|name| self.children.contains(name))
        {
            return [&["crate".to_owned()], &self.module[..], path].concat();
        }
        let ups = path.iter().take_while(|name| *name == "super").count();
        let relative = ups > 0 || path.first().is_some_and(|name| name == "self");
        let rest = path[ups..].iter().filter(|name| *name != "self").cloned();
        if !relative {
            return rest.collect();
        }
        let base = &self.module[..self.module.len().saturating_sub(ups)];
        std::iter::once("crate".to_owned())
            .chain(base.iter().cloned())
            .chain(rest)
            .collect()
    }

    fn unfold(&mut self, tree: &syn::UseTree, before: &[String], public: bool) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        let (name, path) = match tree {
            syn::UseTree::Path(path) => return self.unfold(&path.tree, &with(&path.ident), public),
            syn::UseTree::Group(group) => {
                return group
                    .items
                    .iter()
                    .for_each(|tree| self.unfold(tree, before, public));
            }
            syn::UseTree::Name(name) => (name.ident.to_string(), with(&name.ident)),
            syn::UseTree::Rename(name) => (name.rename.to_string(), with(&name.ident)),
            syn::UseTree::Glob(_) => ("*".to_owned(), before.to_vec()),
        };
        let path = self.resolved(&path);
        if public {
            self.exports.push((name, path));
        } else {
            self.paths.push(path);
        }
    }
}

impl<'ast> Visit<'ast> for Source {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let tests = |attribute: &syn::Attribute| matches!(&attribute.meta, syn::Meta::List(list) if list.path.is_ident("cfg") && list.tokens.to_string() == "test");
        if !module.attrs.iter().any(tests) {
            self.module.push(module.ident.to_string());
            visit::visit_item_mod(self, module);
            self.module.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.unfold(
            &item.tree,
            &[],
            !matches!(item.vis, syn::Visibility::Inherited),
        );
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path
            .segments
            .iter()
            .map(|part| part.ident.to_string())
            .collect();
        if names.len() > 1 {
            self.paths.push(self.resolved(&names));
        }
        visit::visit_path(self, path);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.is_async |= signature.asyncness.is_some();
        visit::visit_signature(self, signature);
    }
}

/// The forbidden names that a source has.
fn violations(source: &Source, forbidden: &[&str]) -> Vec<String> {
    let exported = source.exports.iter().map(|(_, path)| path);
    let named = source
        .paths
        .iter()
        .chain(exported)
        .map(|path| path.join("::") + "::");
    named
        .filter(|path| {
            forbidden
                .iter()
                .any(|start| path.starts_with(&format!("{start}::")))
        })
        .collect()
}

#[rstest]
#[case::api("src/api", &[PURE, &["crate::decide"]].concat())]
#[case::decide("src/decide", PURE)]
#[case::service("src/service", &["kube", "k8s_openapi", "crate::controller", "axum", "clap", "prometheus_client"])]
#[case::controller("src/controller", &["clap", "axum", "reqwest", "std::env", "std::process"])]
#[case::checks("src/checks", &["crate::controller", "clap", "axum", "std::env", "std::process"])]
#[case::reference_service("tests/reference-service", &["run_operator", "kube", "k8s_openapi", "reqwest"])]
fn a_layer_knows_only_those_before_it(#[case] folder: &str, #[case] forbidden: &[&str]) {
    let files = files::below(folder, "rs");
    assert!(files.len() > 3, "{folder} is not where it was");
    for file in files {
        let text = files::text(&file);
        let source = read(&file, &text);
        let found = violations(&source, forbidden);
        assert!(found.is_empty(), "{file} names {found:?}");
        let pure = forbidden.contains(&"crate::clock");
        assert!(
            !(pure && source.is_async),
            "{file} is pure, and has an async function"
        );
    }
}

#[rstest]
#[case("use kube::{Api, CustomResource};", true)]
#[case("use kube::CustomResource;", false)]
#[case("fn f() { let _ = std::fs::read(\"x\"); }", true)]
#[case("use jiff::Timestamp; fn f() { Timestamp::now(); }", true)]
#[case("use super::super::super::controller::Context;", true)]
#[case("// tokio::spawn\nconst A: &str = \"tokio::spawn\";", false)]
fn a_planted_violation_is_found(#[case] text: &str, #[case] found: bool) {
    let source = read("src/decide/run/planted.rs", text);
    assert_eq!(!violations(&source, PURE).is_empty(), found, "{text}");
}

/// The imports between the files of `src`, by module. What a module only gives out by `pub use` counts as import of the
/// file that defines it.
fn imports() -> BTreeMap<Module, BTreeSet<Module>> {
    let files = files::below("src", "rs").into_iter();
    let files = files.filter(|file| file != "src/main.rs" && !file.ends_with("tests.rs"));
    let sources: BTreeMap<Module, Source> = files
        .map(|file| (module_of(&file), read(&file, &files::text(&file))))
        .collect();
    let defined_in = |path: &[String]| {
        let mut path = path.to_vec();
        // A name may be given out by one module after the other.
        for _ in 0..8 {
            let own = (0..=path.len()).rev().map(|n| &path[..n]);
            let own = own
                .into_iter()
                .find(|start| sources.contains_key(*start))?
                .to_vec();
            let name = path.get(own.len())?;
            let export = sources[&own]
                .exports
                .iter()
                .find(|(exported, _)| exported == name);
            match export {
                Some((_, to)) if to[0] == "crate" => {
                    path = [&to[1..], &path[own.len() + 1..]].concat();
                }
                _ => return Some(own),
            }
        }
        None
    };
    let of = |source: &Source| {
        let own = source
            .paths
            .iter()
            .filter(|path| path[0] == "crate" || path[0] == "run_operator");
        own.filter_map(|path| defined_in(&path[1..])).collect()
    };
    let edges = sources
        .iter()
        .map(|(module, source)| (module.clone(), of(source)));
    edges.collect()
}

/// What is left when modules that import none of the others, or that none imports, are taken away: circles.
fn circles(mut edges: BTreeMap<Module, BTreeSet<Module>>) -> BTreeMap<Module, BTreeSet<Module>> {
    loop {
        let before: usize = edges.values().map(BTreeSet::len).sum();
        let imported: BTreeSet<Module> = edges.values().flatten().cloned().collect();
        edges.retain(|module, to| !to.is_empty() && imported.contains(module));
        let left: BTreeSet<Module> = edges.keys().cloned().collect();
        for (module, to) in &mut edges {
            to.retain(|to| to != module && left.contains(to));
        }
        if before == edges.values().map(BTreeSet::len).sum::<usize>() {
            return edges;
        }
    }
}

/// The same between what stands in a folder: files, and folders as a whole.
#[test]
fn no_file_and_no_folder_is_in_an_import_circle() {
    let imports = imports();
    assert!(
        imports[&module_of("src/decide/run/mod.rs")]
            .contains(&module_of("src/decide/run/submitted.rs"))
    );
    assert_eq!(circles(imports.clone()), BTreeMap::new(), "files");
    let folders: BTreeSet<&[String]> = imports
        .keys()
        .flat_map(|module| (0..module.len()).map(|n| &module[..n]))
        .collect();
    for folder in folders {
        let member = |module: &Module| {
            (module.len() > folder.len() && module.starts_with(folder))
                .then(|| module[..=folder.len()].to_vec())
        };
        let mut between: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for (from, to) in &imports {
            let Some(from) = member(from) else { continue };
            between
                .entry(from)
                .or_default()
                .extend(to.iter().filter_map(member));
        }
        assert_eq!(
            circles(between),
            BTreeMap::new(),
            "src/{}",
            folder.join("/")
        );
    }
}
