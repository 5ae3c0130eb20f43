//! The secrets that a config holds, by their paths: for whoever sees to it that none leaves.

use serde_json::Value;
use tidegate_secrets::Secret;

use crate::env::Env;
use crate::load::Loaded;
use crate::redact::sounds_secret;
use crate::shape::{Node, Shape, root};

/// A text of random characters has at least so many.
const RANDOM: usize = 16;

impl Loaded {
    /// Every secret with its path. Where a key holds secrets and other texts alike (a header's value), the name and the
    /// look of the text decide: what is no secret must not be taken for one.
    pub fn secrets(&self) -> Vec<(String, Secret)> {
        let mut found = Vec::new();
        // A file that says nothing holds none, and its start need not wait for the schema.
        if self.resolved.as_object().is_none_or(|keys| !keys.is_empty()) {
            collect(root(), false, &self.resolved, "", &mut found);
        }
        found
    }
}

impl Env {
    /// Every variable that is a secret by its name and its look.
    pub fn secrets(&self) -> Vec<(String, Secret)> {
        let secret = self.iter().filter(|(name, value)| is_secret(name, value));
        secret.map(|(name, value)| (format!("the variable {name}"), Secret::new(value))).collect()
    }
}

/// What is below a sensitive key is sensitive too: `inherited`.
fn collect(node: &Node, inherited: bool, value: &Value, path: &str, found: &mut Vec<(String, Secret)>) {
    let node = node.branch_for(value);
    let sensitive = inherited || node.sensitive;
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(map) => {
            for (key, held) in map {
                match node.key(key) {
                    Some(child) => collect(child, sensitive, held, &below(key), found),
                    // Free-form settings: nothing but names to go by.
                    None => by_name(held, &below(key), found),
                }
            }
        }
        Value::Array(items) => {
            let child = match &node.shape {
                Shape::List(child) => child,
                _ => node,
            };
            for (index, item) in items.iter().enumerate() {
                collect(child, sensitive, item, &format!("{path}[{index}]"), found);
            }
        }
        Value::String(text) if sensitive => note(text, path, found),
        _ => {}
    }
}

fn by_name(value: &Value, path: &str, found: &mut Vec<(String, Secret)>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, held)| by_name(held, &format!("{path}.{key}"), found));
        }
        Value::Array(items) => items.iter().for_each(|item| by_name(item, path, found)),
        Value::String(text) if is_secret(last(path), text) => {
            found.push((path.to_owned(), Secret::new(text)));
        }
        _ => {}
    }
}

fn note(text: &str, path: &str, found: &mut Vec<(String, Secret)>) {
    if let Some(password) = password(text) {
        found.push((path.to_owned(), Secret::new(password)));
    } else if is_secret(last(path), text) || path.starts_with("egress.credentials.") || is_random(text) {
        found.push((path.to_owned(), Secret::new(text)));
    }
}

fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// Whether a text is a secret by its name. Some names say so (`DEPLOY_TOKEN`); what is only called a key may be that of a
/// table (`SORT_KEY=created_at`), and a plain word must not be refused in commands or taken out of answers.
fn is_secret(name: &str, text: &str) -> bool {
    let name = name.to_lowercase();
    sounds_secret(&name) || name.ends_with("_pass") || (name.ends_with("key") && !is_plain(text))
}

/// Words as people write them: letters of one case, without a digit among them.
fn is_plain(text: &str) -> bool {
    let is_of =
        |case: fn(&char) -> bool| text.chars().all(|c| case(&c) || matches!(c, '_' | '-' | '.' | ' '));
    is_of(char::is_ascii_lowercase) || is_of(char::is_ascii_uppercase)
}

/// Of `scheme://user:password@host`.
fn password(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user_info, _) = authority.rsplit_once('@')?;
    user_info.split_once(':').map(|(_, password)| password)
}

/// Letters and digits without a blank or a slash between them, and many.
fn is_random(text: &str) -> bool {
    let has = |wanted: fn(&char) -> bool| text.chars().any(|c| wanted(&c));
    text.len() >= RANDOM
        && has(char::is_ascii_digit)
        && has(char::is_ascii_alphabetic)
        && text.split_whitespace().last().is_some_and(|word| word.len() >= RANDOM && !word.contains('/'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_found_with_their_paths_and_plain_settings_are_not() {
        let document = json!({
            "env": {"vars": {"DEPLOY_TOKEN": "deploy-token", "SITE": "https://example.com", "MIXED": "a1b2c3d4e5f6a7b8"}},
            "models": {"providers": {"p": {"apiKey": "key-of-p", "baseUrl": "https://p.example/v1"}}},
            "storage": {"postgres": {"url": "postgres://u:hunter22@h/d"}},
            "channels": {"telegram": {"botToken": "1:abcdefgh", "name": "me"}},
            "egress": {"credentials": {"api": {"host": "api.example", "value": "Bearer a1b2c3d4e5f6a7b8"}}},
        });
        let mut found = Vec::new();
        collect(root(), false, &document, "", &mut found);
        let seen: Vec<_> = found.iter().map(|(path, secret)| (path.as_str(), secret.expose())).collect();
        let expected = [
            ("env.vars.DEPLOY_TOKEN", "deploy-token"),
            ("env.vars.MIXED", "a1b2c3d4e5f6a7b8"),
            ("models.providers.p.apiKey", "key-of-p"),
            ("storage.postgres.url", "hunter22"),
            ("channels.telegram.botToken", "1:abcdefgh"),
            ("egress.credentials.api.value", "Bearer a1b2c3d4e5f6a7b8"),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_plain_word_that_is_called_a_key_is_no_secret() {
        let env = Env::from_iter([
            ("SORT_KEY", "created_at"),
            ("DEPLOY_TOKEN", "created_at"),
            ("ACME_KEY", "k3y-of-acme"),
            ("OTHER_KEY", "aGVsbG8gd29ybGQ"),
        ]);
        let names: Vec<_> = env.secrets().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["the variable ACME_KEY", "the variable DEPLOY_TOKEN", "the variable OTHER_KEY"]);
    }

    #[test]
    fn variables_are_secrets_by_their_names() {
        let env = Env::from_iter([
            ("OPENAI_API_KEY", "k"),
            ("HOME", "/home/me"),
            ("DB_PASSWORD", "p"),
            ("EMPTY_TOKEN", ""),
        ]);
        let names: Vec<_> = env.secrets().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["the variable DB_PASSWORD", "the variable OPENAI_API_KEY"]);
    }
}
