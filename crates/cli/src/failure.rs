//! What went wrong, as a person and a script are told.

use std::fmt;

use tidegate_client::ClientError;
use tidegate_config::{EditError, LoadError};
use tidegate_engine::{EngineError, SettingsError};
use tidegate_models::{Api, CannotSpeak};
use tidegate_protocol::{ErrorBody, ErrorCode};
use tidegate_runtime::catalogue::{Language, Text};
use tidegate_secrets::SecretsError;
use tidegate_storage::StoreError;

use crate::arguments::{Command, closest};
use crate::texts;

/// A text of the catalogue with its places filled, still in every language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) en: String,
    pub(crate) zh: String,
}

impl Message {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { zh: text.clone(), en: text }
    }

    pub(crate) fn in_language(&self, language: Language) -> &str {
        match language {
            Language::English => &self.en,
            Language::Chinese => &self.zh,
        }
    }
}

/// Fills a catalogue text.
pub(crate) trait With {
    fn with(&self, values: &[(&str, &dyn fmt::Display)]) -> Message;
}

impl With for Text {
    fn with(&self, values: &[(&str, &dyn fmt::Display)]) -> Message {
        Message { en: self.fill(Language::English, values), zh: self.fill(Language::Chinese, values) }
    }
}

/// An error on its way to the person: code, message, what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: ErrorCode,
    pub(crate) message: Message,
    pub(crate) hint: Option<Message>,
    /// The command whose usage line is shown.
    pub(crate) usage: Option<&'static Command>,
    pub(crate) empty_store: bool,
    /// Exit code, 1 unless a signal ended the command.
    pub(crate) exit: u8,
}

impl Failure {
    pub(crate) fn new(code: ErrorCode, message: Message) -> Self {
        Self { code, message, hint: None, usage: None, empty_store: false, exit: 1 }
    }

    pub(crate) fn with_hint(mut self, hint: Message) -> Self {
        self.hint = Some(hint);
        self
    }

    pub(crate) fn with_usage(mut self, command: &'static Command) -> Self {
        self.usage = Some(command);
        self
    }

    /// Whether it only says that nothing was ever written.
    pub(crate) fn is_empty_store(&self) -> bool {
        self.empty_store
    }

    /// An error that was told by another process or kept with a run.
    pub(crate) fn of_body(error: &ErrorBody) -> Self {
        let waited = error.details.as_ref().and_then(|details| details["waitedMs"].as_u64());
        if let (ErrorCode::SessionBusy, Some(ms)) = (error.code, waited) {
            return Self::with_usual_hint(error.code, texts::E_WAITED.with(&[("ms", &ms)]));
        }
        let text = match error.code {
            ErrorCode::DeadlineExceeded => texts::E_DEADLINE,
            ErrorCode::Aborted => texts::E_ABORTED,
            _ => texts::E_RUN,
        };
        Self::with_usual_hint(error.code, text.with(&[("detail", &error.message)]))
    }

    /// The message with what can be done about an error of this kind.
    fn with_usual_hint(code: ErrorCode, message: Message) -> Self {
        let message = if code == ErrorCode::ConfigConflict { texts::E_CONFLICT.with(&[]) } else { message };
        let failure = Self::new(code, message);
        match texts::hint_for(code) {
            Some(hint) => failure.with_hint(hint.with(&[])),
            None => failure,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message.en)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let message = match &error {
            StoreError::StaleFence => texts::E_STALE.with(&[]),
            StoreError::IdempotencyConflict => texts::E_IDEMPOTENCY.with(&[]),
            StoreError::NotFound(detail) => texts::E_NOT_FOUND.with(&[("detail", detail)]),
            StoreError::SessionBusy => texts::E_SESSION_BUSY.with(&[]),
            StoreError::Full(detail) => texts::E_FULL.with(&[("detail", detail)]),
            StoreError::Io(detail) => texts::E_IO.with(&[("detail", detail)]),
            StoreError::Damaged(detail) => texts::E_DAMAGED.with(&[("detail", detail)]),
            StoreError::ReadOnly(detail) => texts::E_READ_ONLY.with(&[("detail", detail)]),
            StoreError::Newer { found, needed, known } => {
                texts::E_NEWER.with(&[("found", found), ("needed", needed), ("known", known)])
            }
            StoreError::Empty => texts::E_EMPTY.with(&[]),
            StoreError::Unavailable(detail) => texts::E_UNAVAILABLE.with(&[("detail", detail)]),
            StoreError::Internal(detail) => texts::E_INTERNAL.with(&[("detail", detail)]),
        };
        Self { empty_store: error == StoreError::Empty, ..Self::with_usual_hint(error.code(), message) }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        // Whoever held the home went between two looks.
        if let ClientError::Nobody { .. } = error {
            return Self::with_usual_hint(ErrorCode::Closing, texts::E_CLOSING.with(&[]));
        }
        let hint = error.hint().map(Message::plain);
        let failure = Self::of_body(&error.body());
        match hint {
            Some(hint) if failure.hint.is_none() => failure.with_hint(hint),
            _ => failure,
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let code = error.body().code;
        let message = match error {
            EngineError::Store(error) => return error.into(),
            EngineError::Run { error, .. } | EngineError::Refused(error) => return Self::of_body(&error),
            EngineError::HomeBusy { path, holder } => {
                texts::E_HOME_BUSY.with(&[("path", &path.display()), ("holder", &holder)])
            }
            EngineError::HomeUnusable { path, cause } => {
                texts::E_HOME_UNUSABLE.with(&[("path", &path.display()), ("cause", &cause)])
            }
            EngineError::OwnState { path } => texts::E_OWN_STATE.with(&[("path", &path.display())]),
            EngineError::Closing => texts::E_CLOSING.with(&[]),
            EngineError::Settings(error) => return error.into(),
            EngineError::Models(error) => return error.into(),
            EngineError::Name(error) => Message::plain(error.to_string()),
            EngineError::Randomness(error) => Message::plain(error.to_string()),
        };
        Self::with_usual_hint(code, message)
    }
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        let code = error.body().code;
        match error {
            SettingsError::NoSuchAgent { name, known } => {
                Self::new(code, texts::NO_SUCH_AGENT.with(&[("name", &name), ("known", &known)]))
            }
            SettingsError::UnknownProvider { provider, known } => {
                let failure = Self::new(code, texts::UNSUPPORTED_PROVIDER.with(&[("provider", &provider)]));
                if provider == Api::Scripted.as_str() {
                    return failure.with_hint(texts::IS_AN_API.with(&[("api", &provider)]));
                }
                match closest(&provider, known.split(", ")) {
                    Some(near) => failure.with_hint(texts::DID_YOU_MEAN.with(&[("word", &near)])),
                    None => failure.with_hint(texts::KNOWN_PROVIDERS.with(&[("known", &known)])),
                }
            }
            SettingsError::UnknownModel { text } => {
                Self::new(code, texts::UNKNOWN_MODEL.with(&[("text", &text)]))
                    .with_hint(texts::SEE_MODELS.with(&[]))
            }
            SettingsError::NotListed { model } => {
                Self::with_usual_hint(code, texts::NOT_LISTED.with(&[("model", &model)]))
            }
            SettingsError::PolicyDenied { stage, rule } => {
                Self::with_usual_hint(code, texts::POLICY_DENIED.with(&[("stage", &stage), ("rule", &rule)]))
            }
            SettingsError::UnknownPrice { model } => {
                Self::with_usual_hint(code, texts::UNKNOWN_PRICE.with(&[("model", &model)]))
            }
            SettingsError::ToolRules(problem) => {
                Self::with_usual_hint(code, texts::tools::RULES_UNUSABLE.with(&[("problem", &problem)]))
            }
        }
    }
}

impl From<CannotSpeak> for Failure {
    fn from(error: CannotSpeak) -> Self {
        let code = error.body().code;
        match &error {
            CannotSpeak::NoCredential { provider } => {
                Self::new(code, texts::NO_PROFILE.with(&[("provider", provider)]))
                    .with_hint(texts::USE_OFFLINE.with(&[]))
            }
            CannotSpeak::NoSuchProfile { provider, profile } => {
                Self::new(code, texts::NO_SUCH_PROFILE.with(&[("provider", provider), ("profile", profile)]))
                    .with_hint(texts::SEE_AUTH_STATUS.with(&[]))
            }
            CannotSpeak::Unreadable(_) | CannotSpeak::Unusable { .. } => {
                Self::with_usual_hint(code, Message::plain(error.to_string()))
            }
        }
    }
}

impl From<SecretsError> for Failure {
    fn from(error: SecretsError) -> Self {
        let code = match &error {
            SecretsError::NoSuchProfile(name) => {
                return Self::new(ErrorCode::NotFound, texts::PROFILE_NOT_FOUND.with(&[("name", name)]))
                    .with_hint(texts::SEE_AUTH_STATUS.with(&[]));
            }
            SecretsError::BadId(_) | SecretsError::TooMany(_) | SecretsError::Import(_) => {
                ErrorCode::InvalidValue
            }
            SecretsError::Io { .. } => ErrorCode::HomeUnusable,
            SecretsError::Busy { .. } => ErrorCode::HomeBusy,
            SecretsError::Randomness => ErrorCode::Internal,
            SecretsError::Damaged { .. }
            | SecretsError::Newer { .. }
            | SecretsError::KeyUnavailable { .. }
            | SecretsError::KeychainUnusable { .. }
            | SecretsError::Unreadable { .. }
            | SecretsError::UnknownKind { .. } => ErrorCode::CredentialsUnreadable,
        };
        // The text says itself what mends it.
        Self::new(code, Message::plain(error.to_string()))
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        Self::with_usual_hint(ErrorCode::parse(error.code()), Message::plain(error.to_string()))
    }
}

impl From<tidegate_config::StoreError> for Failure {
    fn from(error: tidegate_config::StoreError) -> Self {
        Self::with_usual_hint(ErrorCode::parse(error.code()), Message::plain(error.to_string()))
    }
}

impl From<EditError> for Failure {
    fn from(error: EditError) -> Self {
        if let EditError::Refused { .. } = error {
            // The file itself is as good as before; what is wrong is the change, and the message says what.
            return Self::new(ErrorCode::parse(error.code()), Message::plain(error.to_string()));
        }
        Self::with_usual_hint(ErrorCode::parse(error.code()), Message::plain(error.to_string()))
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(ErrorCode::Internal, Message::plain(error.to_string()))
    }
}
