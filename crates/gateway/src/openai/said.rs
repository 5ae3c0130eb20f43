//! What the messages of a request say, whichever of the two interfaces they came through. Pure.
//!
//! Whatever is none of a message's known forms is passed over: programs send many things that mean nothing here.

use serde_json::Value;

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Said {
    /// What the caller wants the agent to keep in mind.
    Instructions(String),
    User {
        parts: Vec<Part>,
    },
    Assistant {
        text: String,
        calls: Vec<Called>,
    },
    Result {
        /// The call it answers.
        call: Option<String>,
        /// What stands before it where results are told as text.
        label: Option<String>,
        text: String,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Part {
    Text(String),
    /// A `data:` or a web address.
    Image(String),
}

/// A call of one of the caller's tools.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Called {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: Value,
}

/// The messages of a chat completion.
pub(super) fn of_messages(messages: &[Value]) -> Vec<Said> {
    messages.iter().filter_map(of_message).collect()
}

fn of_message(message: &Value) -> Option<Said> {
    let content = &message["content"];
    Some(match message["role"].as_str()? {
        "system" | "developer" => Said::Instructions(text(content)),
        "user" => Said::User { parts: parts(content) },
        "assistant" => {
            let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
            Said::Assistant { text: text(content), calls: calls.iter().filter_map(chat_call).collect() }
        }
        "tool" | "function" => {
            let (call, label) = (owned(&message["tool_call_id"]), owned(&message["name"]));
            Said::Result { call, label, text: text(content) }
        }
        _ => return None,
    })
}

fn chat_call(call: &Value) -> Option<Called> {
    let function = &call["function"];
    let arguments = read_arguments(&function["arguments"]);
    Some(Called { id: owned(&call["id"])?, name: owned(&function["name"])?, arguments })
}

/// The input of a response: a text, or a list of items.
pub(super) fn of_input(input: &Value) -> Vec<Said> {
    match input {
        Value::String(text) => vec![Said::User { parts: vec![Part::Text(text.clone())] }],
        Value::Array(items) => {
            let mut said = Vec::with_capacity(items.len());
            for item in items.iter().filter_map(of_item) {
                // Calls of one answer come as items of their own.
                match (said.last_mut(), item) {
                    (Some(Said::Assistant { calls, .. }), Said::Assistant { text, calls: more })
                        if text.is_empty() && !more.is_empty() =>
                    {
                        calls.extend(more);
                    }
                    (_, item) => said.push(item),
                }
            }
            said
        }
        _ => Vec::new(),
    }
}

fn of_item(item: &Value) -> Option<Said> {
    match item["type"].as_str() {
        // A message may come without its type.
        Some("message") | None => of_message(item),
        Some("function_call") => {
            let arguments = read_arguments(&item["arguments"]);
            let call = Called { id: owned(&item["call_id"])?, name: owned(&item["name"])?, arguments };
            Some(Said::Assistant { text: String::new(), calls: vec![call] })
        }
        Some("function_call_output") => {
            let call = owned(&item["call_id"]);
            Some(Said::Result { label: call.clone(), call, text: text(&item["output"]) })
        }
        Some(_) => None,
    }
}

fn owned(value: &Value) -> Option<String> {
    value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// An object; the text itself when it is no JSON.
fn read_arguments(arguments: &Value) -> Value {
    match arguments {
        Value::String(text) if text.trim().is_empty() => Value::Object(serde_json::Map::new()),
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| arguments.clone()),
        other => other.clone(),
    }
}

fn parts(content: &Value) -> Vec<Part> {
    match content {
        Value::String(text) => vec![Part::Text(text.clone())],
        Value::Array(list) => list.iter().filter_map(part).collect(),
        _ => Vec::new(),
    }
}

fn part(part: &Value) -> Option<Part> {
    match part["type"].as_str()? {
        "text" | "input_text" | "output_text" => {
            part["text"].as_str().map(|text| Part::Text(text.to_owned()))
        }
        "image_url" | "input_image" => image(part).map(Part::Image),
        _ => None,
    }
}

/// The address of an image in any of the forms in which it comes.
fn image(part: &Value) -> Option<String> {
    let source = &part["source"];
    if let (Some(data), Some(kind)) = (source["data"].as_str(), source["media_type"].as_str()) {
        return Some(format!("data:{kind};base64,{data}"));
    }
    let address = [&part["image_url"]["url"], &part["image_url"], &source["url"]];
    address.into_iter().find_map(|address| address.as_str()).map(str::to_owned)
}

/// The text of a content: a string, or the text parts of a list.
fn text(content: &Value) -> String {
    texts_of(&parts(content))
}

pub(super) fn texts_of(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        Part::Image(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
