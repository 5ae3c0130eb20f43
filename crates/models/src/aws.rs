//! Amazon's keys where its own tools keep them: variables, or a profile of `~/.aws/credentials`.

use std::path::PathBuf;

use tidegate_secrets::Secret;

use crate::wire::Access;

type Environment<'a> = &'a (dyn Fn(&str) -> Option<String> + Send + Sync);

/// Keys that sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AwsKeys {
    access_key: String,
    secret_key: Secret,
    session_token: Option<Secret>,
    region: Option<String>,
}

impl AwsKeys {
    pub(crate) fn access(self, region: Option<&str>) -> Access {
        Access::Aws {
            access_key: self.access_key,
            secret_key: self.secret_key,
            session_token: self.session_token,
            region: region.map(str::to_owned).or(self.region),
        }
    }
}

/// The keys of the environment, else those of its profile.
pub(crate) fn find(environment: Environment<'_>) -> Option<AwsKeys> {
    let region = region(environment);
    let keys = of_variables(environment).or_else(|| of_profile(environment))?;
    Some(AwsKeys { region: region.or(keys.region), ..keys })
}

/// The region of the environment.
pub(crate) fn region(environment: Environment<'_>) -> Option<String> {
    set(environment, "AWS_REGION").or_else(|| set(environment, "AWS_DEFAULT_REGION"))
}

fn set(environment: Environment<'_>, name: &str) -> Option<String> {
    environment(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

fn of_variables(environment: Environment<'_>) -> Option<AwsKeys> {
    Some(AwsKeys {
        access_key: set(environment, "AWS_ACCESS_KEY_ID")?,
        secret_key: Secret::new(set(environment, "AWS_SECRET_ACCESS_KEY")?),
        session_token: set(environment, "AWS_SESSION_TOKEN").map(Secret::new),
        region: None,
    })
}

/// Only a profile that somebody named: keys that lie about are not ours to use.
fn of_profile(environment: Environment<'_>) -> Option<AwsKeys> {
    let profile = set(environment, "AWS_PROFILE")?;
    let file = match set(environment, "AWS_SHARED_CREDENTIALS_FILE") {
        Some(file) => PathBuf::from(file),
        None => PathBuf::from(set(environment, "HOME")?).join(".aws/credentials"),
    };
    parse(&std::fs::read_to_string(file).ok()?, &profile)
}

fn parse(text: &str, profile: &str) -> Option<AwsKeys> {
    let mut inside = false;
    let (mut access_key, mut secret_key, mut session_token, mut region) = (None, None, None, None);
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            inside = name.trim() == profile;
        } else if let Some((key, value)) =
            line.split_once('=').filter(|_| inside && !line.starts_with(['#', ';']))
        {
            let value = value.trim().to_owned();
            match key.trim() {
                "aws_access_key_id" => access_key = Some(value),
                "aws_secret_access_key" => secret_key = Some(Secret::new(value)),
                "aws_session_token" => session_token = Some(Secret::new(value)),
                "region" => region = Some(value),
                _ => {}
            }
        }
    }
    Some(AwsKeys { access_key: access_key?, secret_key: secret_key?, session_token, region })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_profile_is_read_and_no_other() {
        let text = "[default]\naws_access_key_id = A1\naws_secret_access_key=s1\n\n[work]\n# note = x\naws_access_key_id=A2\naws_secret_access_key = s2\nregion = eu-west-1\n";
        let keys = parse(text, "work").unwrap();
        assert_eq!((keys.access_key.as_str(), keys.secret_key.expose()), ("A2", "s2"));
        assert_eq!(keys.region.as_deref(), Some("eu-west-1"));
        assert_eq!(parse(text, "none"), None);
    }

    #[test]
    fn variables_come_first_and_half_a_pair_is_none() {
        let full = |name: &str| match name {
            "AWS_ACCESS_KEY_ID" => Some("A".to_owned()),
            "AWS_SECRET_ACCESS_KEY" => Some("s".to_owned()),
            "AWS_REGION" => Some("us-west-2".to_owned()),
            _ => None,
        };
        assert_eq!(find(&full).unwrap().region.as_deref(), Some("us-west-2"));
        let half = |name: &str| (name == "AWS_ACCESS_KEY_ID").then(|| "A".to_owned());
        assert_eq!(find(&half), None);
    }
}
