//! The paths that a source file names, by its parsed syntax: `use` trees unfolded, imported names followed, and
//! `crate`, `super` and `self` resolved.

use std::collections::BTreeMap;

use proc_macro2::TokenStream;
use syn::visit::{self, Visit};

use crate::tokens::{self, Token};

/// A path's segments, and its line. A path inside the crate begins with `crate`.
pub(crate) type Path = (usize, Vec<String>);

/// The names in a file.
#[derive(Debug, Default)]
pub(crate) struct Named {
    /// Every path but those of `pub use`.
    pub(crate) paths: Vec<Path>,
    /// The names that `pub use` exports, each with its path.
    pub(crate) exports: Vec<(String, Vec<String>)>,
    /// The files that it declares as modules.
    pub(crate) modules: Vec<String>,
}

/// Reads a file whose own module is `module`; `tests` decides whether code that is compiled only for tests
/// counts.
pub(crate) fn named(source: &str, module: &[String], tests: bool) -> Named {
    let file = syn::parse_file(source).expect("the source can be parsed");
    let mut reader = Reader {
        module: module.to_vec(),
        tests,
        aliases: BTreeMap::new(),
        named: Named::default(),
    };
    reader.declare(&file.items);
    reader.visit_file(&file);
    reader.named
}

struct Reader {
    module: Vec<String>,
    tests: bool,
    /// The paths of the names that are imported or declared.
    aliases: BTreeMap<String, Vec<String>>,
    named: Named,
}

impl Reader {
    /// Adds the modules and imports of a file or an inline module, wherever they are in it.
    fn declare(&mut self, items: &[syn::Item]) {
        for item in items {
            match item {
                syn::Item::Mod(module) if self.counts(&module.attrs) => {
                    let name = module.ident.to_string();
                    let path = resolved(vec!["self".to_owned(), name.clone()], &self.module);
                    if module.content.is_none() {
                        self.named.modules.push(name.clone());
                    }
                    self.aliases.insert(name, path);
                }
                syn::Item::Use(item) if self.counts(&item.attrs) => {
                    for (name, path) in leaves(&item.tree) {
                        self.aliases.insert(name, resolved(path, &self.module));
                    }
                }
                _ => {}
            }
        }
    }

    fn counts(&self, attributes: &[syn::Attribute]) -> bool {
        let for_tests = |a: &syn::Attribute| {
            a.path().is_ident("cfg")
                && matches!(&a.meta, syn::Meta::List(list) if list.tokens.to_string() == "test")
        };
        self.tests || !attributes.iter().any(for_tests)
    }

    fn add(&mut self, line: usize, path: Vec<String>) {
        let known = path.first().and_then(|first| self.aliases.get(first));
        let path = match known {
            Some(start) => start.iter().chain(&path[1..]).cloned().collect(),
            None => resolved(path, &self.module),
        };
        self.named.paths.push((line, path));
    }

    /// The paths in the tokens of a macro or an attribute.
    fn scan(&mut self, stream: TokenStream) {
        let mut flat = Vec::new();
        tokens::flatten(stream, &mut flat);
        let mut at = 0;
        while let Some((line, token)) = flat.get(at) {
            at += 1;
            let Some(word) = token.word() else { continue };
            let mut path = vec![word.to_owned()];
            let colon = |n: usize| flat.get(n).is_some_and(|(_, t)| t.is(':'));
            while colon(at)
                && colon(at + 1)
                && let Some(next) = flat.get(at + 2).and_then(|(_, t)| Token::word(t))
            {
                path.push(next.to_owned());
                at += 3;
            }
            if path.len() > 1 {
                self.add(*line, path);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !self.counts(&item.attrs) {
            return;
        }
        let outer = (self.module.clone(), self.aliases.clone());
        self.module.push(item.ident.to_string());
        if let Some((_, items)) = &item.content {
            self.declare(items);
        }
        visit::visit_item_mod(self, item);
        (self.module, self.aliases) = outer;
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !self.counts(&item.attrs) {
            return;
        }
        let public = !matches!(item.vis, syn::Visibility::Inherited);
        let line = item.use_token.span.start().line;
        for (name, path) in leaves(&item.tree) {
            // Resolved by its path: a module that the file declares, for example.
            let first = path
                .first()
                .filter(|first| **first != name || path.len() > 1);
            let path = match first.and_then(|first| self.aliases.get(first)) {
                Some(start) => start.iter().chain(&path[1..]).cloned().collect(),
                None => resolved(path, &self.module),
            };
            if public {
                self.named.exports.push((name, path));
            } else {
                self.named.paths.push((line, path));
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        let line = path
            .segments
            .first()
            .map_or(0, |s| s.ident.span().start().line);
        self.add(line, segments);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.scan(item.tokens.clone());
        visit::visit_macro(self, item);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.scan(list.tokens.clone());
        }
        visit::visit_attribute(self, attribute);
    }
}

/// Each name that a `use` tree imports, and its path.
fn leaves(tree: &syn::UseTree) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    unfold(tree, &mut Vec::new(), &mut found);
    found
}

fn unfold(tree: &syn::UseTree, start: &mut Vec<String>, found: &mut Vec<(String, Vec<String>)>) {
    let mut leaf = |name: String, segment: Option<String>| {
        let path: Vec<String> = start.iter().cloned().chain(segment).collect();
        let name = if name == "self" {
            path.last().cloned().unwrap_or_default()
        } else {
            name
        };
        found.push((name, path));
    };
    let own = |name: &syn::Ident| Some(name.to_string()).filter(|name| name != "self");
    match tree {
        syn::UseTree::Name(name) => leaf(name.ident.to_string(), own(&name.ident)),
        syn::UseTree::Rename(renamed) => leaf(renamed.rename.to_string(), own(&renamed.ident)),
        syn::UseTree::Glob(_) => leaf("*".to_owned(), None),
        syn::UseTree::Path(path) => {
            start.push(path.ident.to_string());
            unfold(&path.tree, start, found);
            start.pop();
        }
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                unfold(tree, start, found);
            }
        }
    }
}

/// `super` and `self` at the front, replaced by where they lead.
fn resolved(path: Vec<String>, module: &[String]) -> Vec<String> {
    let mut base = module.to_vec();
    let mut rest = path.as_slice();
    match rest.first().map(String::as_str) {
        Some("self") => rest = &rest[1..],
        Some("super") => {
            while let Some(("super", tail)) = rest.split_first().map(|(w, t)| (w.as_str(), t)) {
                base.pop();
                rest = tail;
            }
        }
        _ => return path,
    }
    let inside = base.into_iter().chain(rest.iter().cloned());
    std::iter::once("crate".to_owned()).chain(inside).collect()
}

#[test]
fn trees_aliases_macros_and_attributes_are_unfolded() {
    let source = r#"
        use super::{a::{self, B}, c as d};
        mod child;
        pub use child::Thing;
        #[tokio::test]
        async fn f() { a::g(); d::h(); let _: child::T; println!("{}", crate::x::y()); }
        #[cfg(test)]
        mod tests { use crate::only_in_tests::Z; }
    "#;
    let module = ["one", "two"].map(str::to_owned);
    let named = named(source, &module, false);
    let paths: Vec<String> = named.paths.iter().map(|(_, p)| p.join("::")).collect();
    for path in [
        "crate::one::a",
        "crate::one::a::B",
        "crate::one::c",
        "crate::one::a::g",
        "crate::one::c::h",
        "crate::one::two::child::T",
        "crate::x::y",
        "tokio::test",
    ] {
        assert!(paths.iter().any(|p| p == path), "{path} in {paths:?}");
    }
    assert!(!paths.iter().any(|p| p.contains("only_in_tests")));
    assert_eq!(named.modules, ["child"]);
    let exports: Vec<_> = named
        .exports
        .iter()
        .map(|(n, p)| (n.as_str(), p.join("::")))
        .collect();
    assert_eq!(
        exports,
        [("Thing", "crate::one::two::child::Thing".to_owned())]
    );
}
