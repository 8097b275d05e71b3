//! Many breakages in one build: a function that some of them edit has its body once as it is, and once as each of them
//! leaves it. [`VARIABLE`] says which of them a program runs with.

use std::collections::BTreeMap;
use std::ops::Range;

use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, ItemFn, ItemMod, ReturnType, Signature, TraitItemFn};

/// The number of a breakage, from 1. Without it nothing is broken.
pub(super) const VARIABLE: &str = "RUN_OPERATOR_BREAKAGE";

/// A file of the program, with the bodies that breakages leave of its functions.
pub(super) struct Switched {
    source: String,
    bodies: Vec<Range<usize>>,
    /// By the function: the number of each breakage that edits it, and the body that it leaves.
    broken: BTreeMap<usize, BTreeMap<usize, String>>,
}

impl Switched {
    /// None if it is no Rust.
    pub(super) fn of(source: String) -> Option<Self> {
        Some(Self {
            bodies: bodies(&source)?,
            source,
            broken: BTreeMap::new(),
        })
    }

    /// Takes in what a breakage makes of the file; false if it edits more than the bodies of functions.
    pub(super) fn takes(&mut self, number: usize, edited: &str) -> bool {
        let Some(own) = bodies(edited) else {
            return false;
        };
        if between(&self.source, &self.bodies) != between(edited, &own) {
            return false;
        }
        for (function, (old, new)) in self.bodies.iter().zip(own).enumerate() {
            if self.source[old.clone()] != edited[new.clone()] {
                let broken = self.broken.entry(function).or_default();
                broken.insert(number, edited[new].to_owned());
            }
        }
        true
    }

    /// Takes a breakage out again.
    pub(super) fn leaves_out(&mut self, number: usize) {
        for broken in self.broken.values_mut() {
            broken.remove(&number);
        }
    }

    /// The source to compile, and the lines of it, from 1, that are each breakage's.
    pub(super) fn text(&self) -> (String, Vec<(Range<usize>, usize)>) {
        let (mut text, mut lines, mut from) = (String::new(), Vec::new(), 0);
        for (function, body) in self.bodies.iter().enumerate() {
            let broken = self.broken.get(&function).filter(|own| !own.is_empty());
            let Some(broken) = broken else {
                continue;
            };
            text.push_str(&self.source[from..body.start]);
            text.push_str(&head());
            for (number, body) in broken {
                let begin = line(&text);
                text.extend([&number.to_string(), " => ", body, "\n"]);
                lines.push((begin..line(&text), *number));
            }
            text.extend(["_ => ", &self.source[body.clone()], "\n}\n}"]);
            from = body.end;
        }
        text.push_str(&self.source[from..]);
        (text, lines)
    }
}

/// Reads the number once for each function: nothing of the program knows of it.
fn head() -> String {
    format!(
        "{{\nstatic BREAKAGE: ::std::sync::OnceLock<usize> = ::std::sync::OnceLock::new();\n\
         match *BREAKAGE.get_or_init(|| ::std::env::var({VARIABLE:?}).ok()\
         .and_then(|number| number.parse().ok()).unwrap_or(0)) {{\n"
    )
}

fn line(text: &str) -> usize {
    text.matches('\n').count() + 1
}

/// What is no function's body.
fn between<'a>(source: &'a str, bodies: &[Range<usize>]) -> Vec<&'a str> {
    let starts = std::iter::once(0).chain(bodies.iter().map(|body| body.end));
    let ends = bodies.iter().map(|body| body.start);
    let ends = ends.chain(std::iter::once(source.len()));
    starts
        .zip(ends)
        .map(|(start, end)| &source[start..end])
        .collect()
}

/// The bodies of the functions, in their order, but for those in a body, those of tests and those that can't be
/// switched. None if it is no Rust.
fn bodies(source: &str) -> Option<Vec<Range<usize>>> {
    let file = syn::parse_file(source).ok()?;
    let mut functions = Functions::default();
    functions.visit_file(&file);
    Some(functions.bodies)
}

#[derive(Default)]
struct Functions {
    bodies: Vec<Range<usize>>,
}

impl Functions {
    fn add(&mut self, signature: &Signature, body: &syn::Block) {
        if signature.constness.is_none() && !one_type(&signature.output) {
            let (open, close) = (body.brace_token.span.open(), body.brace_token.span.close());
            self.bodies
                .push(open.byte_range().start..close.byte_range().end);
        }
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.add(&function.sig, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.add(&function.sig, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(body) = &function.default {
            self.add(&function.sig, body);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !module.attrs.iter().any(of_tests) {
            visit::visit_item_mod(self, module);
        }
    }
}

fn of_tests(attribute: &Attribute) -> bool {
    let is_test = |list: &syn::MetaList| list.tokens.to_string() == "test";
    attribute.path().is_ident("cfg") && attribute.meta.require_list().is_ok_and(is_test)
}

/// `impl Trait` is one type, and that of another body is another.
fn one_type(output: &ReturnType) -> bool {
    struct Opaque(bool);
    impl<'ast> Visit<'ast> for Opaque {
        fn visit_type_impl_trait(&mut self, _: &'ast syn::TypeImplTrait) {
            self.0 = true;
        }
    }
    let mut opaque = Opaque(false);
    opaque.visit_return_type(output);
    opaque.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "use a::B; // é\nfn f(x: u8) -> u8 {\n    x + 1\n}\nimpl B {\n    \
                          async fn g(&self) {\n        self.h()\n    }\n}\nconst fn c() -> u8 { 1 }\n\
                          fn i() -> impl Fn() { || () }\n#[cfg(test)]\nmod tests { fn t() {} }\n";

    #[test]
    fn each_breakage_is_a_body_of_its_own_beside_the_unbroken_one() {
        let mut file = Switched::of(SOURCE.to_owned()).unwrap();
        assert!(file.takes(7, &SOURCE.replace("x + 1", "x - 1")));
        let both = SOURCE
            .replace("x + 1", "x\n+ 2")
            .replace("self.h()", "();\n()");
        assert!(file.takes(9, &both));
        let (text, lines) = file.text();
        assert!(syn::parse_file(&text).is_ok(), "{text}");
        let at = |number: usize| -> Vec<String> {
            let own = lines.iter().filter(|(_, of)| *of == number);
            let text: Vec<&str> = text.lines().collect();
            own.map(|(lines, _)| text[lines.start - 1..lines.end - 1].join("\n"))
                .collect()
        };
        assert_eq!(at(7), ["7 => {\n    x - 1\n}"]);
        let bodies = ["9 => {\n    x\n+ 2\n}", "9 => {\n        ();\n()\n    }"];
        assert_eq!(at(9), bodies);
        assert!(text.contains("_ => {\n    x + 1\n}\n}\n}"), "{text}");

        file.leaves_out(7);
        file.leaves_out(9);
        assert_eq!(file.text(), (SOURCE.to_owned(), Vec::new()));
    }

    #[test]
    fn what_is_more_than_bodies_is_not_taken() {
        for (from, to) in [
            ("x: u8", "x: u16"),
            ("use a::B", "use b::B"),
            ("{ 1 }", "{ 2 }"),
            ("|| ()", "|| todo!()"),
            ("fn t() {}", "fn t() { () }"),
            ("x + 1\n}", "x + 1\n}\nfn new() {}"),
            ("x + 1", "x + 1)"),
        ] {
            let mut file = Switched::of(SOURCE.to_owned()).unwrap();
            assert!(!file.takes(1, &SOURCE.replace(from, to)), "{to}");
            assert_eq!(file.text().0, SOURCE);
        }
    }
}
