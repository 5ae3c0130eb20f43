//! Tool calls that a person writes: `tool:name`, `tool:name {…}`, `tool:{…}` or `tool:[…]`, and on further lines what
//! the model is to be asked afterwards.

use serde_json::{Map, Value};

const PREFIX: &str = "tool:";

/// The calls of a message, in the order they are written.
#[derive(Debug, Clone, PartialEq)]
pub struct Manual {
    pub calls: Vec<ManualCall>,
    /// What follows the calls; may be empty.
    pub residual: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ManualCall {
    pub name: String,
    /// What the tool is given; an empty object when nothing is written.
    pub args: Value,
    /// The call's id, if the person gave it one.
    pub id: Option<String>,
}

/// A message that begins like a tool call and is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Malformed {
    /// What was written, as far as it was read.
    pub input: String,
    pub reason: String,
    /// What follows on further lines; may be empty.
    pub residual: String,
}

/// Reads a message that begins with `tool:`; nothing for any other.
pub fn parse(text: &str) -> Option<Result<Manual, Malformed>> {
    let written = text.trim_start();
    let body = written.strip_prefix(PREFIX)?;
    let (invocation, residual) = invocation(body);
    Some(match calls(invocation) {
        Ok(calls) => Ok(Manual { calls, residual: residual.to_owned() }),
        Err(reason) => Err(Malformed {
            input: format!("{PREFIX}{}", invocation.trim()),
            reason,
            residual: residual.to_owned(),
        }),
    })
}

/// Parts what calls tools from what follows. A call ends with its line, unless its JSON goes on below.
fn invocation(body: &str) -> (&str, &str) {
    let (line, below) = body.split_once('\n').unwrap_or((body, ""));
    let Some(open) = line.find(['{', '[']) else { return (line, below.trim_start()) };
    let (_, json) = body.split_at(open);
    let mut values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
    let Some(Ok(_)) = values.next() else { return (line, below.trim_start()) };
    let (whole, after) = body.split_at(open + values.byte_offset());
    match after.split_once('\n') {
        Some((same_line, below)) if same_line.trim().is_empty() => (whole, below.trim_start()),
        None if after.trim().is_empty() => (whole, ""),
        // Something else stands behind the JSON: it is an error of that line.
        _ => (line, below.trim_start()),
    }
}

fn calls(invocation: &str) -> Result<Vec<ManualCall>, String> {
    const MISSING: &str = "tool invocation missing content";
    let invocation = invocation.trim();
    if invocation.is_empty() {
        return Err(MISSING.to_owned());
    }
    if !invocation.starts_with(['{', '[']) {
        return Ok(vec![by_name(invocation)?]);
    }
    let listed = match json(invocation)? {
        Value::Array(listed) => listed,
        single => vec![single],
    };
    if listed.is_empty() {
        return Err(MISSING.to_owned());
    }
    listed.into_iter().zip(1..).map(|(call, number)| from_json(call, number)).collect()
}

/// `name` or `name {…}`.
fn by_name(invocation: &str) -> Result<ManualCall, String> {
    let end = invocation.find(|c: char| c.is_whitespace() || c == '{').unwrap_or(invocation.len());
    let (name, args) = invocation.split_at(end);
    let args = match args.trim() {
        "" => Value::Object(Map::new()),
        args => json(args)?,
    };
    Ok(ManualCall { name: name.to_owned(), args, id: None })
}

/// `{"name": …, "args": …, "id": …}`.
fn from_json(call: Value, number: usize) -> Result<ManualCall, String> {
    let Value::Object(mut fields) = call else { return Err(nameless(number)) };
    let name = fields.get("name").and_then(Value::as_str).map(str::trim).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| nameless(number))?.to_owned();
    let args =
        fields.remove("args").filter(|args| !args.is_null()).unwrap_or_else(|| Value::Object(Map::new()));
    let id = match fields.remove("id") {
        Some(Value::String(id)) if !id.is_empty() => Some(id),
        Some(Value::Number(id)) => Some(id.to_string()),
        _ => None,
    };
    Ok(ManualCall { name, args, id })
}

fn nameless(number: usize) -> String {
    format!("tool invocation #{number} missing name")
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("tool invocation is not valid JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn call(name: &str, args: Value) -> ManualCall {
        ManualCall { name: name.to_owned(), args, id: None }
    }

    fn manual(text: &str) -> Manual {
        parse(text).unwrap().unwrap()
    }

    fn reason(text: &str) -> String {
        parse(text).unwrap().unwrap_err().reason
    }

    #[test]
    fn a_call_is_written_in_four_ways() {
        for (text, calls) in [
            ("tool:time.now", vec![call("time.now", json!({}))]),
            ("  tool: time.now  ", vec![call("time.now", json!({}))]),
            (r#"tool:tools.echo {"text": "a b"}"#, vec![call("tools.echo", json!({"text": "a b"}))]),
            (r#"tool:tools.echo{"text":1}"#, vec![call("tools.echo", json!({"text": 1}))]),
            (r#"tool:{"name":"a","args":{"x":1}}"#, vec![call("a", json!({"x": 1}))]),
            (
                r#"tool:[{"name":"b"},{"name":"a","args":null}]"#,
                vec![call("b", json!({})), call("a", json!({}))],
            ),
        ] {
            assert_eq!(manual(text), Manual { calls, residual: String::new() }, "{text}");
        }
    }

    #[test]
    fn calls_keep_their_order_and_their_ids() {
        let calls =
            manual(r#"tool:[{"name":"nope","id":"x"},{"name":"time.now","id":7},{"name":"a","id":""}]"#)
                .calls;
        let seen: Vec<_> = calls.iter().map(|call| (call.name.as_str(), call.id.as_deref())).collect();
        assert_eq!(seen, [("nope", Some("x")), ("time.now", Some("7")), ("a", None)]);
    }

    #[test]
    fn what_stands_on_further_lines_is_left_for_the_model() {
        for (text, residual) in [
            ("tool:time.now\nWhat day is it?", "What day is it?"),
            ("tool:time.now\n\n  What day\nis it? ", "What day\nis it? "),
            ("tool:echo {\"a\":\n 1}\nand then {x}", "and then {x}"),
            ("tool:[{\"name\":\"a\"},\n{\"name\":\"b\"}]  \nso?", "so?"),
            ("tool:time.now\n{\"not\": \"arguments\"}", "{\"not\": \"arguments\"}"),
            ("tool:time.now", ""),
        ] {
            assert_eq!(manual(text).residual, residual, "{text}");
        }
        assert_eq!(manual("tool:echo {\"a\":\n 1}\nx").calls, [call("echo", json!({"a": 1}))]);
    }

    #[test]
    fn what_is_no_call_says_why() {
        for text in ["tool:", "tool:   ", "tool:\nhello", "tool:[]"] {
            assert_eq!(reason(text), "tool invocation missing content", "{text}");
        }
        for text in ["tool:tools.echo {bad", "tool:echo hello", "tool:{", r#"tool:echo {"a":1} what now"#] {
            assert!(reason(text).starts_with("tool invocation is not valid JSON: "), "{text}");
        }
        assert_eq!(reason(r#"tool:{"args":{}}"#), "tool invocation #1 missing name");
        assert_eq!(reason(r#"tool:{"name":" "}"#), "tool invocation #1 missing name");
        assert_eq!(reason(r#"tool:[{"name":"a"},3]"#), "tool invocation #2 missing name");
    }

    #[test]
    fn a_malformed_call_shows_what_was_written_and_keeps_the_rest() {
        let malformed = parse("tool:tools.echo {bad\nand so on").unwrap().unwrap_err();
        assert_eq!(malformed.input, "tool:tools.echo {bad");
        assert_eq!(malformed.residual, "and so on");
    }

    #[test]
    fn other_texts_are_none_of_it() {
        for text in ["", "hello", "tools:x", "use tool:time.now", "Tool:time.now", "/tool:x"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_written_the_rest_is_its_end(text in "tool:([a-z.]{0,4}|[\\[{\":,a1}\\] \n]{0,12}|\\PC{0,6})[\n ]{0,2}\\PC{0,8}") {
            let residual = match parse(&text).unwrap() {
                Ok(manual) => {
                    prop_assert!(!manual.calls.is_empty());
                    prop_assert!(manual.calls.iter().all(|call| !call.name.trim().is_empty()));
                    manual.residual
                }
                Err(malformed) => malformed.residual,
            };
            prop_assert!(text.ends_with(&residual));
        }

        #[test]
        fn a_written_call_is_read_back(name in "[a-z_.]{1,8}", key in "[a-z]{1,4}", value in any::<String>(), residual in "[a-z][a-z\n]{0,9}") {
            let args = json!({ key: value });
            let text = format!("tool:{name} {args}\n{residual}");
            prop_assert_eq!(manual(&text), Manual { calls: vec![call(&name, args)], residual });
        }
    }
}
