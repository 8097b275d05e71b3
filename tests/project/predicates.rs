//! Each rule of policy is in one predicate that is named by its meaning: policy reads as sentences, and the
//! switch that removes a rule for the proofs is inside of them.

use std::collections::{BTreeMap, BTreeSet};

use rstest::rstest;
use syn::visit::{self, Visit};

use crate::files;

/// The switch, and the rules' names.
const SWITCH: &str = "src/decide/invariants.rs";

/// A function that asks for rules.
#[derive(Debug)]
struct Predicate {
    name: String,
    /// True if its docstring names the rules and has more than their names.
    documented: bool,
    answers_yes_or_no: bool,
    rules: BTreeSet<String>,
}

/// The functions of a file that ask for rules.
fn predicates(source: &str) -> Vec<Predicate> {
    let file = syn::parse_file(source).expect("the source can be parsed");
    let mut reader = Functions::default();
    reader.visit_file(&file);
    reader.0
}

#[derive(Default)]
struct Functions(Vec<Predicate>);

impl Functions {
    fn add(
        &mut self,
        attributes: &[syn::Attribute],
        signature: &syn::Signature,
        body: &syn::Block,
    ) {
        let mut named = Rules::default();
        named.visit_block(body);
        if named.0.is_empty() {
            return;
        }
        let docs = docs(attributes);
        let answers_yes_or_no = match &signature.output {
            syn::ReturnType::Type(_, kind) => {
                matches!(&**kind, syn::Type::Path(path) if path.path.is_ident("bool"))
            }
            syn::ReturnType::Default => false,
        };
        self.0.push(Predicate {
            name: signature.ident.to_string(),
            documented: named
                .0
                .iter()
                .all(|rule| docs.contains(&format!("`Rule::{rule}`"))),
            answers_yes_or_no,
            rules: named.0,
        });
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.attrs, &item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.attrs, &item.sig, &item.block);
    }
}

/// The rules that an expression names.
#[derive(Default)]
struct Rules(BTreeSet<String>);

impl<'ast> Visit<'ast> for Rules {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if let [.., of, rule] = segments.as_slice()
            && of == "Rule"
        {
            self.0.insert(rule.clone());
        }
        visit::visit_path(self, path);
    }
}

fn docs(attributes: &[syn::Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| {
        let syn::Meta::NameValue(pair) = &attribute.meta else {
            return None;
        };
        match &pair.value {
            syn::Expr::Lit(syn::ExprLit {
                lit: syn::Lit::Str(line),
                ..
            }) if pair.path.is_ident("doc") => Some(line.value()),
            _ => None,
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The fault of a predicate.
fn wrong(predicate: &Predicate) -> Option<&'static str> {
    if predicate.rules.len() > 1 {
        Some("asks for several rules; give each a predicate")
    } else if !predicate.answers_yes_or_no {
        Some(
            "asks for a rule in the middle of policy; give the rule a predicate, which returns a bool",
        )
    } else if !predicate.documented {
        Some("names its rule not in its docstring, as in (`Rule::SameBytes`)")
    } else {
        None
    }
}

/// The names of the rules.
fn rules() -> Vec<String> {
    let text = files::text(SWITCH);
    let (_, list) = text.split_once("\nrules! {").expect("the list of rules");
    let (list, _) = list.split_once("\n}").expect("its end");
    let names = list
        .lines()
        .filter_map(|line| line.trim().strip_suffix(','));
    names
        .filter(|name| name.chars().all(char::is_alphanumeric))
        .map(str::to_owned)
        .collect()
}

#[test]
fn each_rule_stands_in_one_predicate_that_names_it() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut found = Vec::new();
    for file in files::below("src/decide", "rs") {
        if file == SWITCH {
            continue;
        }
        for predicate in predicates(&files::text(&file)) {
            let place = format!("{file}: {}", predicate.name);
            found.extend(wrong(&predicate).map(|what| format!("{place} {what}")));
            for rule in predicate.rules {
                places.entry(rule).or_default().push(place.clone());
            }
        }
    }
    let rules = rules();
    assert!(rules.len() > 60, "{rules:?}");
    for rule in rules {
        match places.get(&rule).map_or(&[][..], Vec::as_slice) {
            [_] => {}
            [] => found.push(format!("no predicate stands for {rule}")),
            several => found.push(format!("{rule} stands in {}", several.join(" and "))),
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[rstest]
#[case::predicate(
    "/// One (`Rule::A`).\nfn one() -> bool { x || !holds(Rule::A) }",
    false
)]
#[case::method(
    "struct S; impl S { /// `Rule::A`\nfn one(&self) -> bool { holds(Rule::A) } }",
    false
)]
#[case::undocumented("/// One.\nfn one() -> bool { x && holds(Rule::A) }", true)]
#[case::two(
    "/// `Rule::A`, `Rule::B`\nfn one() -> bool { holds(Rule::A) && holds(Rule::B) }",
    true
)]
#[case::inside(
    "/// `Rule::A`\nfn one() -> Decision { if holds(Rule::A) { a() } else { b() } }",
    true
)]
#[case::closure(
    "/// `Rule::A`\nfn one() -> Option<u8> { two().filter(|_| holds(Rule::A)) }",
    true
)]
fn a_planted_rule_is_found(#[case] source: &str, #[case] found: bool) {
    let predicates = predicates(source);
    assert_eq!(predicates.len(), 1, "{source}");
    assert_eq!(wrong(&predicates[0]).is_some(), found, "{source}");
}
