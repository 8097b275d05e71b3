//! An excerpt of a JSON text, made while the text is received. An answer may repeat a workload of any size and depth; what
//! is needed of it are the values that a few pointers name.

use serde::de::IgnoredAny;

use crate::api::contract::{Contract, RunDetails, names};

use super::text::lossy;

/// Bytes of a value that is only shown, and of all of them with what leads to them.
const SHOWN_VALUE: usize = 16 << 10;
const SHOWN: usize = 128 << 10;

/// Keeps the objects and arrays that the pointers pass and the other values that they name, and `null` for the rest: an
/// object of any size may be where another service has its state. The excerpt is JSON only if the text is, but for
/// mistakes in what is left out.
pub(super) struct Excerpt {
    /// JSON pointers (RFC 6901) by their names.
    pointers: Vec<Vec<String>>,
    kept: Vec<u8>,
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

struct Whole {
    kept: bool,
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
        let pointers = pointers.into_iter().map(|pointer| names(pointer).collect());
        Self {
            pointers: pointers.collect(),
            kept: Vec::new(),
            open: Vec::new(),
            whole: None,
            string: InString::No,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.kept.len()
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
        match &self.whole {
            Some(whole) if whole.kept => self.kept.push(byte),
            Some(_) => {}
            None => self.read_structure(byte, in_string),
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
        let kept = path.is_some_and(|path| {
            let mut pointers = self.pointers.iter();
            pointers.any(|names| names.starts_with(&path) && bracket == (names.len() > path.len()))
        });
        if kept && bracket {
            self.open.push(Level::begun_by(byte));
        } else {
            let depth = usize::from(bracket);
            self.whole = Some(Whole { kept, depth });
        }
        if kept {
            self.kept.push(byte);
        } else {
            self.kept.extend_from_slice(b"null");
        }
    }
}

/// An excerpt of what is only shown. It is read beside the other one, so that nothing in it makes an answer unreadable: a
/// value that is too long or no JSON, such as the `NaN` of Python, becomes `null`, and of too much nothing is shown.
pub(super) struct Shown {
    /// `None` if nothing is named or there is too much of it.
    excerpt: Option<Excerpt>,
    /// Where the value that is read begins in what is kept.
    begin: Option<usize>,
}

impl Shown {
    pub(super) fn new<'a>(pointers: impl IntoIterator<Item = &'a str>) -> Self {
        let excerpt = Some(Excerpt::new(pointers)).filter(|of| !of.pointers.is_empty());
        Self {
            excerpt,
            begin: None,
        }
    }

    pub(super) fn read(&mut self, chunk: &[u8]) {
        for byte in chunk {
            if self.excerpt.is_none() {
                return;
            }
            self.read_byte(*byte);
        }
    }

    fn read_byte(&mut self, byte: u8) {
        self.excerpt.take_if(|excerpt| excerpt.kept.len() > SHOWN);
        let Some(excerpt) = &mut self.excerpt else {
            return;
        };
        let before = excerpt.kept.len();
        excerpt.read_byte(byte);
        let Excerpt { kept, whole, .. } = excerpt;
        match (self.begin, whole.as_mut().filter(|whole| whole.kept)) {
            (None, Some(_)) => self.begin = Some(before),
            (Some(begin), Some(whole)) if before - begin >= SHOWN_VALUE => {
                whole.kept = false;
                kept.truncate(begin);
                kept.extend_from_slice(b"null");
            }
            (Some(begin), None) => {
                self.begin = None;
                if serde_json::from_slice::<IgnoredAny>(&kept[begin..before]).is_err() {
                    kept.splice(begin..before, *b"null");
                }
            }
            _ => {}
        }
    }

    /// What it says of a run. `fit` makes a text fit to be shown, in so many bytes.
    pub(super) fn details(
        &self,
        contract: &Contract,
        fit: impl Fn(&str, usize) -> String,
    ) -> Option<Box<RunDetails>> {
        let text = lossy(&self.excerpt.as_ref()?.kept);
        contract.run_details_of(serde_json::from_str(&text).ok()?, fit)
    }
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

    fn shown(text: &str) -> Option<String> {
        let mut shown = Shown::new(["/a", "/d/0/loss", "/d/1"]);
        let (before, after) = text.as_bytes().split_at(text.len() / 2);
        shown.read(before);
        shown.read(after);
        String::from_utf8(shown.excerpt?.kept).ok()
    }

    /// Proves: P-details
    #[rstest]
    #[case::good(r#"{"a":"x","b":1,"d":[{},2]}"#, r#"{"a":"x","b":null,"d":[{},2]}"#)]
    #[case::nan(r#"{"d":[{"loss":NaN},1.5]}"#, r#"{"d":[{"loss":null},1.5]}"#)]
    #[case::infinity(r#"{"a":-Infinity ,"d":[]}"#, r#"{"a":null,"d":[]}"#)]
    #[case::zeros(r#"{"a":01}"#, r#"{"a":null}"#)]
    #[case::a_line_end("{\"a\":\"x\n\",\"d\":[0,\"y\"]}", r#"{"a":null,"d":[null,"y"]}"#)]
    #[case::an_escape(r#"{"a":"\x41"}"#, r#"{"a":null}"#)]
    fn a_value_that_is_only_shown_and_no_json_is_left_out(#[case] text: &str, #[case] kept: &str) {
        assert_eq!(shown(text).as_deref(), Some(kept));
    }

    /// Proves: X-caps, P-details
    #[test]
    fn what_is_only_shown_is_left_out_where_it_is_too_long() {
        let (fits, long) = ("x".repeat(SHOWN_VALUE - 2), "x".repeat(SHOWN_VALUE - 1));
        let text = |a: &str| format!(r#"{{"a":"{a}","d":[0,"y"]}}"#);
        assert_eq!(
            shown(&text(&fits)),
            Some(text(&fits).replace("[0", "[null"))
        );
        let left_out = r#"{"a":null,"d":[null,"y"]}"#;
        assert_eq!(shown(&text(&long)).as_deref(), Some(left_out));
        assert_eq!(shown(&text(&long.repeat(9))).as_deref(), Some(left_out));
        // Of a key that comes again and again, and of what leads to a value.
        assert_eq!(
            shown(&format!("{{{}}}", format!(r#""a":"{fits}","#).repeat(9))),
            None
        );
        assert_eq!(
            shown(&format!(r#"{{"d":[{}0]}}"#, "0,".repeat(300_000))),
            None
        );
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
