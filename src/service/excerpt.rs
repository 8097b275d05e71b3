//! An excerpt of a JSON text, made while the text is received. An answer may repeat a workload of any size and depth; what
//! is needed of it are the values that a few pointers name.

use crate::api::contract::names;

/// Bytes of a value that is only shown, and of all of them: what has more is left out, and makes no answer unreadable.
const SHOWN_VALUE: usize = 16 << 10;
const SHOWN: usize = 128 << 10;

/// Keeps the objects and arrays that the pointers pass and the other values that they name, and `null` for the rest: an
/// object of any size may be where another service has its state. The excerpt is JSON only if the text is, but for
/// mistakes in what is left out.
pub(super) struct Excerpt {
    /// JSON pointers (RFC 6901) by their names.
    pointers: Vec<Vec<String>>,
    /// Those to values that are only shown.
    shown: Vec<Vec<String>>,
    kept: Vec<u8>,
    /// How much of it is only shown.
    shown_bytes: usize,
    /// The objects and arrays around this byte that a pointer passes.
    open: Vec<Level>,
    /// The value around this byte that is kept or left out as a whole.
    whole: Option<Whole>,
    string: InString,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum InString {
    No,
    Yes,
    /// After a backslash.
    Escape,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    No,
    Yes,
    /// To show it. It begins at this byte of what is kept.
    Shown(usize),
}

struct Whole {
    keep: Keep,
    /// Objects and arrays that are open in it.
    depth: usize,
}

struct Level {
    is_array: bool,
    /// The key of the present member as written, quotation marks included.
    key: Vec<u8>,
    /// The number of the present item.
    item: usize,
    value_is_next: bool,
}

impl Level {
    fn begun_by(bracket: u8) -> Self {
        let is_array = bracket == b'[';
        Self {
            is_array,
            key: Vec::new(),
            item: 0,
            value_is_next: is_array,
        }
    }

    /// Name of the present member or item; `None` for a key that no pointer can have.
    fn name(&self) -> Option<String> {
        if self.is_array {
            return Some(self.item.to_string());
        }
        serde_json::from_slice(&self.key).ok()
    }
}

impl Excerpt {
    pub(super) fn new<'a>(pointers: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            pointers: split(pointers),
            shown: Vec::new(),
            kept: Vec::new(),
            shown_bytes: 0,
            open: Vec::new(),
            whole: None,
            string: InString::No,
        }
    }

    /// With values that are only shown.
    pub(super) fn showing<'a>(self, pointers: impl IntoIterator<Item = &'a str>) -> Self {
        let shown = split(pointers);
        Self { shown, ..self }
    }

    /// Bytes that are kept, without those of values that are only shown.
    pub(super) fn len(&self) -> usize {
        self.kept.len().saturating_sub(self.shown_bytes)
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.kept
    }

    pub(super) fn read(&mut self, chunk: &[u8]) {
        for byte in chunk {
            self.read_byte(*byte);
        }
    }

    fn read_byte(&mut self, byte: u8) {
        let in_string = self.passes_string(byte);
        if let Some(whole) = &mut self.whole {
            match byte {
                _ if in_string => {}
                b'{' | b'[' => whole.depth += 1,
                // The byte belongs to the level around it.
                b'}' | b']' | b',' if whole.depth == 0 => self.whole = None,
                b'}' | b']' => whole.depth -= 1,
                _ => {}
            }
        }
        match self.whole.as_ref().map(|whole| whole.keep) {
            Some(Keep::Yes) => self.kept.push(byte),
            Some(Keep::Shown(from)) => self.show(byte, from),
            Some(Keep::No) => {}
            None => self.read_structure(byte, in_string),
        }
    }

    /// Of a value that is only shown, and that began at this byte of what is kept.
    fn show(&mut self, byte: u8, from: usize) {
        self.kept.push(byte);
        self.shown_bytes += 1;
        let length = self.kept.len().saturating_sub(from);
        if length > SHOWN_VALUE || self.shown_bytes > SHOWN {
            self.kept.truncate(from);
            self.kept.extend_from_slice(b"null");
            self.shown_bytes = self.shown_bytes.saturating_sub(length);
            self.whole
                .iter_mut()
                .for_each(|whole| whole.keep = Keep::No);
        }
    }

    /// Whether this byte is in a string, its quotation marks included.
    fn passes_string(&mut self, byte: u8) -> bool {
        let before = self.string;
        self.string = match (before, byte) {
            (InString::No, b'"') | (InString::Escape, _) => InString::Yes,
            (InString::Yes, b'"') => InString::No,
            (InString::Yes, b'\\') => InString::Escape,
            (same, _) => same,
        };
        before != InString::No || self.string != InString::No
    }

    /// Of the document itself, or of an object or array that a pointer passes.
    fn read_structure(&mut self, byte: u8, in_string: bool) {
        let Some(level) = self.open.last_mut() else {
            if !in_string && matches!(byte, b'{' | b'[') {
                self.open.push(Level::begun_by(byte));
            }
            self.kept.push(byte);
            return;
        };
        let between = matches!(
            byte,
            b' ' | b'\t' | b'\n' | b'\r' | b'}' | b']' | b',' | b':'
        );
        if level.value_is_next && !between {
            level.value_is_next = false;
            self.begin_value(byte);
            return;
        }
        match byte {
            _ if in_string => level.key.push(byte),
            b':' => level.value_is_next = true,
            b',' => {
                level.key.clear();
                level.item += 1;
                level.value_is_next = level.is_array;
            }
            b'}' | b']' => drop(self.open.pop()),
            _ => {}
        }
        self.kept.push(byte);
    }

    fn begin_value(&mut self, byte: u8) {
        let bracket = matches!(byte, b'{' | b'[');
        let path: Option<Vec<String>> = self.open.iter().map(Level::name).collect();
        let leads = |pointers: &[Vec<String>]| {
            path.as_ref().is_some_and(|path| {
                let through = |names: &Vec<String>| bracket == (names.len() > path.len());
                let mut pointers = pointers.iter();
                pointers.any(|names| names.starts_with(path) && through(names))
            })
        };
        let keep = if leads(&self.pointers) {
            Keep::Yes
        } else if leads(&self.shown) {
            Keep::Shown(self.kept.len())
        } else {
            Keep::No
        };
        if keep != Keep::No && bracket {
            self.open.push(Level::begun_by(byte));
            self.kept.push(byte);
            return;
        }
        let depth = usize::from(bracket);
        self.whole = Some(Whole { keep, depth });
        match keep {
            Keep::Yes => self.kept.push(byte),
            Keep::Shown(from) => self.show(byte, from),
            Keep::No => self.kept.extend_from_slice(b"null"),
        }
    }
}

fn split<'a>(pointers: impl IntoIterator<Item = &'a str>) -> Vec<Vec<String>> {
    let pointers = pointers.into_iter();
    pointers.map(|pointer| names(pointer).collect()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::Value;

    use super::*;

    fn excerpt(text: &str, pointers: &[&str]) -> String {
        let mut excerpt = Excerpt::new(pointers.iter().copied());
        excerpt.read(text.as_bytes());
        String::from_utf8(excerpt.into_bytes()).unwrap()
    }

    #[rstest]
    #[case::a_member(r#"{"a":1,"b":[{"a":2}],"c":"x"}"#, r#"{"a":1,"b":null,"c":null}"#)]
    #[case::white_space("{ \"b\" : [ 1 , 2 ] ,\n\"a\" : 7 }", "{ \"b\" : null,\n\"a\" : 7 }")]
    #[case::brackets_in_a_string(r#"{"b":"]},\"{[","a":1}"#, r#"{"b":null,"a":1}"#)]
    #[case::an_object_that_is_only_named(r#"{"a":{"a":[1,"}"]},"b":0}"#, r#"{"a":null,"b":null}"#)]
    #[case::deeper(
        r#"{"d":{"x":1,"list":[0,{"y":1,"id":"r"}]}}"#,
        r#"{"d":{"x":null,"list":[null,{"y":null,"id":"r"}]}}"#
    )]
    #[case::what_is_passed_and_is_no_object(r#"{"d":{"list":"text"}}"#, r#"{"d":{"list":null}}"#)]
    #[case::what_is_passed_and_named(r#"{"d":"text"}"#, r#"{"d":"text"}"#)]
    #[case::an_escaped_key(r#"{"\u0061":1,"a\"":2}"#, r#"{"\u0061":1,"a\"":null}"#)]
    #[case::a_key_twice(r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2}"#)]
    #[case::empty(r#"{"d":{"list":[]},"b":{}}"#, r#"{"d":{"list":[]},"b":null}"#)]
    #[case::cut_in_what_is_left_out(r#"{"a":1,"b":{"c":"#, r#"{"a":1,"b":null"#)]
    #[case::no_json("<html>{}", "<html>{}")]
    #[case::twice(r#"{"a":1}{"b":1}"#, r#"{"a":1}{"b":null}"#)]
    fn what_no_pointer_leads_to_is_left_out(#[case] text: &str, #[case] kept: &str) {
        assert_eq!(excerpt(text, &["/a", "/d", "/d/list/1/id"]), kept);
    }

    /// Proves: F-heavy
    #[test]
    fn neither_depth_nor_size_of_what_is_left_out_costs_anything() {
        let deep = format!(
            r#"{{"w":{}{},"a":1}}"#,
            "[".repeat(50_000),
            "]".repeat(50_000)
        );
        assert_eq!(excerpt(&deep, &["/a"]), r#"{"w":null,"a":1}"#);
    }

    /// Proves: X-caps, P-details
    #[test]
    fn a_value_that_is_only_shown_is_left_out_where_it_is_too_long_and_counts_for_nothing() {
        let read = |text: &str| {
            let mut excerpt = Excerpt::new(["/a"]).showing(["/a", "/b", "/d/0", "/d/1"]);
            excerpt.read(text.as_bytes());
            let counted = excerpt.len();
            (counted, String::from_utf8(excerpt.into_bytes()).unwrap())
        };
        let (counted, kept) = read(r#"{"b":"xyz","a":1,"d":[true,2,{}],"e":3}"#);
        let expected = r#"{"b":"xyz","a":1,"d":[true,2,null],"e":null}"#;
        assert_eq!(kept, expected);
        assert_eq!(counted, expected.len() - r#""xyz"true2"#.len());
        let long = "x".repeat(SHOWN_VALUE);
        let (counted, kept) = read(&format!(r#"{{"b":"{long}","d":[7],"a":"{long}"}}"#));
        assert_eq!(kept, format!(r#"{{"b":null,"d":[7],"a":"{long}"}}"#));
        assert_eq!(counted, kept.len() - 1);
        // Of a key that comes again and again.
        let again = format!(r#""b":"{}","#, "x".repeat(SHOWN_VALUE / 2)).repeat(100);
        let (counted, kept) = read(&format!(r#"{{{again}"a":1}}"#));
        assert!(kept.len() < SHOWN + 2000 && counted < 2000, "{counted}");
        assert!(kept.ends_with(r#""b":null,"a":1}"#));
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "[a-c\"\\\\{}\\[\\],:]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 48, 4, |inner| {
            let members = proptest::collection::vec(("[a-c~/\"]{0,2}", inner.clone()), 0..4);
            prop_oneof![
                proptest::collection::vec(inner, 0..4).prop_map(Value::from),
                members.prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    fn scalar<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
        let found = value.pointer(pointer);
        found.filter(|found| !found.is_object() && !found.is_array() && !found.is_null())
    }

    proptest! {
        /// Proves: X-caps
        #[test]
        fn a_pointer_finds_in_it_the_scalar_that_it_finds_in_the_text(
            value in values(),
            pointers in proptest::collection::vec("(/([a-c]|~0|~1|0|1|\"){0,2}){1,3}", 1..4),
            cut in 0..200_usize,
        ) {
            let text = value.to_string();
            let (before, after) = text.as_bytes().split_at(cut.min(text.len()));
            let mut excerpt = Excerpt::new(pointers.iter().map(String::as_str));
            excerpt.read(before);
            excerpt.read(after);
            let kept: Value = serde_json::from_slice(&excerpt.into_bytes()).unwrap();
            for pointer in &pointers {
                prop_assert_eq!(scalar(&kept, pointer), scalar(&value, pointer), "{}", pointer);
            }
        }
    }
}
