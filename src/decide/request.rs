//! The create's body and key: a pure function of the immutable spec, byte for byte the same in every retry (rule 1).
//!
//! The body is canonical JSON: no white space, the keys of each object in byte order, numbers and strings as `serde_json`
//! writes them. Works only on the text, with its own stack: no depth overflows it.

use std::fmt::Write;
use std::ops::Range;

use serde_json::{Number, json};

use crate::api::RunSpec;

/// The serializer that new intents name. An older one stays supported as long as an intent may name it.
pub const CURRENT_SERIALIZER: u32 = 1;

/// The body of `POST /runs`; `None` if this build has no such serializer.
pub fn body(spec: &RunSpec, serializer: u32) -> Option<Vec<u8>> {
    match serializer {
        1 => Some(compact_with_sorted_keys(spec)),
        _ => None,
    }
}

/// Serializer 1. The workload is never parsed into a tree: it may be deep and large.
fn compact_with_sorted_keys(spec: &RunSpec) -> Vec<u8> {
    let workload = spec.workload.as_str();
    let (provider, region) = (json!(spec.provider()), json!(spec.region()));
    let mut body = String::with_capacity(workload.len() + 512);
    // Writing to a String can't fail.
    let _ = write!(
        body,
        r#"{{"provider":{provider},"region":{region},"workload":"#
    );
    write_canonical(workload, &mut body);
    body.push('}');
    body.into_bytes()
}

/// The idempotency key (rule 1): the uid, or the user's key scoped by namespace. A uid contains no slash.
pub fn idempotency_key(spec: &RunSpec, namespace: &str, uid: &str) -> String {
    match &spec.idempotency_key {
        Some(key) => format!("{namespace}/{key}"),
        None => uid.to_owned(),
    }
}

/// An open object: the start of its first member in the output, and its members so far.
struct Open {
    begin: usize,
    members: Vec<Member>,
}

struct Member {
    key: String,
    /// Key and value in the output, without a comma.
    at: Range<usize>,
}

/// Appends `json`, which must be valid, to `out` in canonical form. Of members with the same key the last one is kept.
fn write_canonical(json: &str, out: &mut String) {
    let bytes = json.as_bytes();
    // The open objects, and `None` for an open array.
    let mut levels: Vec<Option<Open>> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let end = match byte {
            b'"' => string_end(bytes, at),
            b'{' | b'}' | b'[' | b']' | b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' => at + 1,
            _ => scalar_end(bytes, at),
        };
        let token = json.get(at..end).unwrap_or_default();
        match byte {
            b'{' => {
                out.push('{');
                levels.push(Some(Open {
                    begin: out.len(),
                    members: Vec::new(),
                }));
            }
            b'[' => {
                out.push('[');
                levels.push(None);
            }
            b'}' | b']' => {
                if let Some(Some(open)) = levels.pop() {
                    close(open, out);
                }
                out.push(char::from(byte));
            }
            b',' => {
                end_member(&mut levels, out);
                out.push(',');
            }
            b':' => out.push(':'),
            b'"' => text(token, &mut levels, out),
            b' ' | b'\t' | b'\n' | b'\r' => {}
            _ => scalar(token, out),
        }
        at = end;
    }
}

fn end_member(levels: &mut [Option<Open>], out: &str) {
    if let Some(Some(open)) = levels.last_mut()
        && let Some(last) = open.members.last_mut()
    {
        last.at.end = out.len();
    }
}

fn text(token: &str, levels: &mut [Option<Open>], out: &mut String) {
    let read = serde_json::from_str::<String>(token);
    let begin = out.len();
    match &read {
        Ok(read) => out.push_str(&serde_json::to_string(read).unwrap_or_else(|_| token.to_owned())),
        // Half of a surrogate pair, which no API server stores: copied unchanged.
        Err(_) => out.push_str(token),
    }
    if let Some(Some(open)) = levels.last_mut()
        && open.waits_for_key(out.as_bytes(), begin)
    {
        open.members.push(Member {
            key: read.unwrap_or_else(|_| token.to_owned()),
            at: begin..begin,
        });
    }
}

impl Open {
    /// Whether the token that begins here is a key: it is the first in its object, or follows a comma.
    fn waits_for_key(&self, out: &[u8], begin: usize) -> bool {
        begin == self.begin || out.get(begin.wrapping_sub(1)) == Some(&b',')
    }
}

/// Ends an object: sorts its members by key. The API server stores them sorted, so usually nothing moves.
fn close(mut open: Open, out: &mut String) {
    if let Some(last) = open.members.last_mut() {
        last.at.end = out.len();
    }
    let sorted = open.members.is_sorted_by(|a, b| a.key < b.key);
    if sorted {
        return;
    }
    let written = out.split_off(open.begin);
    let mut members = open.members;
    // Stable: of members with the same key the last one stays last.
    members.sort_by(|a, b| a.key.cmp(&b.key));
    let mut members = members.iter().peekable();
    while let Some(member) = members.next() {
        if members.peek().is_some_and(|next| next.key == member.key) {
            continue;
        }
        if out.len() > open.begin {
            out.push(',');
        }
        let at = member.at.start - open.begin..member.at.end - open.begin;
        out.push_str(written.get(at).unwrap_or_default());
    }
}

fn scalar(token: &str, out: &mut String) {
    match serde_json::from_str::<Number>(token) {
        // Writing to a String can't fail.
        Ok(number) => drop(write!(out, "{number}")),
        Err(_) => out.push_str(token),
    }
}

/// Position after the quotation mark that ends the string at `begin`.
fn string_end(bytes: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn scalar_end(bytes: &[u8], begin: usize) -> usize {
    let rest = bytes.get(begin..).unwrap_or_default();
    let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
    begin + rest.iter().position(ends).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    fn canonical(json: &str) -> String {
        let mut out = String::new();
        write_canonical(json, &mut out);
        out
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(|float| json!(float)),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 64, 6, |inner| {
            let members = proptest::collection::vec((".{0,4}", inner.clone()), 0..6);
            prop_oneof![
                proptest::collection::vec(inner, 0..6).prop_map(Value::from),
                members.prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// Equals a sorted tree for any document and any white space.
        /// Proves: F-heavy
        #[test]
        fn it_is_what_a_sorted_tree_gives(value in values()) {
            let mut tree: Value = serde_json::from_str(&value.to_string()).unwrap();
            tree.sort_all_objects();
            prop_assert_eq!(canonical(&value.to_string()), tree.to_string());
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            prop_assert_eq!(canonical(&pretty), tree.to_string());
        }
    }

    #[test]
    fn keys_are_sorted_at_every_level_and_the_last_of_two_stays() {
        let text = r#" { "b" : [ { "d":1 , "c" : {"z":{},"y":[]} } ] , "a\u0062" : "\/\u003c" , "b": 2 } "#;
        assert_eq!(canonical(text), r#"{"ab":"/<","b":2}"#);
        assert_eq!(
            canonical(r#"{"b":[{"d":1,"c":{"z":{},"y":[]}}],"a":{}}"#),
            r#"{"a":{},"b":[{"c":{"y":[],"z":{}},"d":1}]}"#
        );
        assert_eq!(
            canonical(r#"{"a":1,"a":{"b":3,"b":4}}"#),
            r#"{"a":{"b":4}}"#
        );
    }

    #[test]
    fn numbers_are_written_as_a_tree_would_write_them() {
        for (read, written) in [
            ("-0", "-0.0"),
            ("1E3", "1000.0"),
            ("1e300", "1e+300"),
            ("18446744073709551616", "1.8446744073709552e+19"),
            ("0.1", "0.1"),
            ("true", "true"),
        ] {
            let tree: Value = serde_json::from_str(read).unwrap();
            assert_eq!(tree.to_string(), written);
            assert_eq!(canonical(&format!("[{read}]")), format!("[{written}]"));
        }
    }

    /// Proves: F-heavy
    #[test]
    fn no_depth_and_no_width_is_too_much() {
        let deep = format!("{}1{}", r#"{"b":[0,"#.repeat(20_000), "]}".repeat(20_000));
        assert_eq!(canonical(&deep), deep);
        let wide: Map<String, Value> = (0..50_000).map(|n| (format!("{n:06}"), json!(n))).collect();
        let wide = Value::Object(wide).to_string();
        assert_eq!(canonical(&wide), wide);
    }
}
