//! The models and credentials of a run, tried one after the other until one answers.
//!
//! Nothing is tried again once anything was shown: a reader must never see two beginnings of one answer.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tidegate_net::{Client, Timeouts};
use tidegate_protocol::{AgentId, Cost, ModelRef, Origin, Usage};
use tidegate_runtime::Clock;

use crate::afford;
use crate::call::{self, Calling};
use crate::catalogue::ModelInfo;
use crate::cooldown::Standing;
use crate::failure::{Failure, FailureKind};
use crate::keyring::Keyring;
use crate::ledger::{CallOutcome, Ledger};
use crate::meter::Meter;
use crate::request::Request;
use crate::rotation::{self, Candidate, Wishes};
use crate::standings::Standings;
use crate::stream::{Model, ModelEvent, ModelStream};
use crate::verdict::{Verdict, judge};
use crate::wire::Wire;

/// What every chain of this program shares.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) credentials: Arc<Keyring>,
    pub(crate) standings: Standings,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) timeouts: Timeouts,
    pub(crate) retries: u32,
    /// The pause before the first repetition; doubled each time.
    pub(crate) pause: Duration,
}

impl Shared {
    async fn blame(&self, link: &Link, candidate: &Candidate, failure: &Failure) {
        if failure.kind.counts_against_credential() {
            let (model, now) = (&link.model, self.clock.now_ms());
            self.standings.failed(&model.provider, candidate, &model.id, failure, now).await;
        }
    }
}

/// A model that can be asked.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) model: Arc<ModelInfo>,
    pub(crate) via: Via,
    /// The agent's or the configuration's order of credentials.
    pub(crate) order: Option<Vec<String>>,
}

/// How a model is asked.
#[derive(Clone)]
pub(crate) enum Via {
    Wire(Arc<dyn Wire>),
    /// It is part of this program: no credential, no network.
    BuiltIn(Arc<dyn Model>),
}

/// What answers for one run.
pub(crate) struct Chain {
    pub(crate) shared: Arc<Shared>,
    pub(crate) agent: AgentId,
    pub(crate) links: Vec<Link>,
    pub(crate) profile: Option<String>,
    /// For one call.
    pub(crate) limit: Option<Duration>,
    pub(crate) max_cost: Option<Cost>,
    pub(crate) ledger: Arc<Ledger>,
}

impl Model for Chain {
    fn stream(&self, request: Request) -> ModelStream {
        let running = Running {
            shared: Arc::clone(&self.shared),
            ledger: Arc::clone(&self.ledger),
            links: self.links.iter().cloned().collect(),
            profile: self.profile.clone(),
            limit: self.limit,
            max_cost: self.max_cost,
            request,
            ready: VecDeque::new(),
            state: State::NextModel,
            attempts: Vec::new(),
        };
        tracing::debug!(agent = %self.agent, models = self.links.len(), "asking");
        Box::pin(stream::unfold(running, |mut running| async move {
            let event = running.next().await?;
            Some((event, running))
        }))
    }
}

/// One answer on its way.
struct Running {
    shared: Arc<Shared>,
    ledger: Arc<Ledger>,
    links: VecDeque<Link>,
    profile: Option<String>,
    limit: Option<Duration>,
    max_cost: Option<Cost>,
    request: Request,
    ready: VecDeque<ModelEvent>,
    state: State,
    /// What was tried and why it failed, for the last word.
    attempts: Vec<(ModelRef, Failure)>,
}

enum State {
    NextModel,
    NextCredential(Trying, Fetch),
    /// One call under way.
    Calling(Trying, Box<Current>),
    BuiltIn(ModelStream),
    Over,
}

/// How a credential is fetched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fetch {
    AsItIs,
    Renewed,
}

/// A model whose credentials are tried.
struct Trying {
    link: Link,
    wire: Arc<dyn Wire>,
    left: VecDeque<Candidate>,
    /// Repetitions with the same credential.
    repeats: u32,
    /// Those that were renewed after a refusal: once is enough.
    renewed: HashSet<String>,
    /// Levels of thinking the model did not take.
    thinking_tried: bool,
}

struct Current {
    candidate: Candidate,
    stream: ModelStream,
    meter: Meter,
    shown: bool,
    /// The last that was told of the tokens: passed on once, at the end.
    usage: Option<Usage>,
}

impl Running {
    async fn next(&mut self) -> Option<ModelEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            self.state = match std::mem::replace(&mut self.state, State::Over) {
                State::Over => return None,
                State::NextModel => self.next_model().await,
                State::NextCredential(trying, fetch) => self.next_credential(trying, fetch).await,
                State::Calling(trying, current) => self.read(trying, current).await,
                State::BuiltIn(mut stream) => {
                    let event = stream.next().await?;
                    self.ready.push_back(event);
                    State::BuiltIn(stream)
                }
            };
        }
    }

    fn fail(&mut self, failure: Failure) -> State {
        self.ready.push_back(ModelEvent::Failed(failure));
        State::Over
    }

    async fn next_model(&mut self) -> State {
        let Some(link) = self.links.pop_front() else {
            let last = summary(&self.attempts);
            return self.fail(last);
        };
        let wire = match &link.via {
            Via::BuiltIn(model) => return State::BuiltIn(model.stream(self.request.clone())),
            Via::Wire(wire) => Arc::clone(wire),
        };
        self.shared.standings.load().await;
        let provider = link.model.provider.as_str();
        let candidates = match self.shared.credentials.candidates(provider).await {
            Ok(candidates) => candidates,
            Err(failure) => return self.give_up(&link, None, failure),
        };
        let wishes = Wishes { only: self.profile.as_deref(), order: link.order.as_deref() };
        let now = self.shared.clock.now_ms();
        let standing = |candidate: &Candidate| self.shared.standings.of(provider, candidate, &link.model.id);
        let ordered = rotation::order(&candidates, wishes, standing, now);
        // Nothing is free: what may be probed, or what somebody insists on, is tried if nothing else is left to try.
        let insist = self.request.options.insist || self.profile.is_some();
        let left = VecDeque::from(rotation::to_try(&ordered, standing, now, insist, self.links.is_empty()));
        if left.is_empty() {
            let failure = match ordered.first() {
                Some(candidate) => cooling_down(provider, &standing(candidate), now),
                None => no_credential(provider, self.profile.as_deref()),
            };
            return self.give_up(&link, None, failure);
        }
        let trying = Trying { link, wire, left, repeats: 0, renewed: HashSet::new(), thinking_tried: false };
        State::NextCredential(trying, Fetch::AsItIs)
    }

    /// The model cannot be used: the next one, or the end.
    fn give_up(&mut self, link: &Link, profile_id: Option<String>, failure: Failure) -> State {
        let from = link.model.reference();
        tracing::warn!(model = %from, profile = profile_id, reason = failure.kind.as_str(), "a model cannot be used");
        if !self.links.is_empty() {
            let switched = ModelEvent::Switched { from: from.clone(), profile_id, failure: failure.clone() };
            self.ready.push_back(switched);
        }
        self.attempts.push((from, failure));
        State::NextModel
    }

    async fn next_credential(&mut self, mut trying: Trying, fetch: Fetch) -> State {
        let Some(candidate) = trying.left.pop_front() else { return State::NextModel };
        let provider = trying.link.model.provider.clone();
        let renew = fetch == Fetch::Renewed;
        let granted = self.shared.credentials.grant(&provider, &candidate.profile_id, renew).await;
        let granted = match granted {
            Ok(granted) => granted,
            Err(failure) => {
                // It was no call that was refused: asking for a fresh token once more would spend another one.
                trying.renewed.insert(candidate.profile_id.clone());
                return self.after(trying, candidate, failure).await;
            }
        };
        let mut model = ModelInfo::clone(&trying.link.model);
        if let Some(base_url) = granted.base_url {
            model.base_url = base_url;
        }
        let mut request = self.request.clone();
        if let Some(most) = self.max_cost
            && let Err(failure) = afford::shorten(&mut request, &mut model, most, self.ledger.total().cost)
        {
            return self.fail(failure);
        }
        let now = self.shared.clock.now_ms();
        let profile_id = Some(candidate.profile_id.clone());
        let meter = Meter::new(&self.ledger, model.reference(), profile_id, model.price, now, &request);
        let calling = Calling {
            client: self.shared.client.clone(),
            wire: Arc::clone(&trying.wire),
            model: Arc::new(model),
            access: granted.access,
            timeouts: self.shared.timeouts,
            limit: self.limit,
            clock: Arc::clone(&self.shared.clock),
        };
        let stream = call::stream(calling, request);
        State::Calling(trying, Box::new(Current { candidate, stream, meter, shown: false, usage: None }))
    }

    async fn read(&mut self, trying: Trying, mut current: Box<Current>) -> State {
        let Some(mut event) = current.stream.next().await else {
            let failure = Failure::new(FailureKind::Broken, "the model's answer broke off");
            return self.ended(trying, *current, failure).await;
        };
        current.meter.look(&mut event);
        match event {
            ModelEvent::Failed(failure) => return self.ended(trying, *current, failure).await,
            ModelEvent::Done(reason) => {
                current.meter.end(CallOutcome::Answered);
                let now = self.shared.clock.now_ms();
                let model = &trying.link.model;
                self.shared
                    .standings
                    .succeeded(&model.provider, &current.candidate.profile_id, &model.id, now)
                    .await;
                self.ready.extend(current.usage.map(ModelEvent::Usage));
                self.ready.push_back(ModelEvent::Done(reason));
                return State::Over;
            }
            ModelEvent::Usage(usage) => current.usage = Some(usage),
            event => {
                if !current.shown {
                    current.shown = true;
                    self.ready.push_back(ModelEvent::Start(origin(&trying.link.model, &current.candidate)));
                }
                self.ready.push_back(event);
            }
        }
        State::Calling(trying, current)
    }

    /// A call failed.
    async fn ended(&mut self, trying: Trying, mut current: Current, failure: Failure) -> State {
        current.meter.end(CallOutcome::Failed(failure.kind));
        let Current { candidate, shown, stream, usage, .. } = current;
        drop(stream);
        if shown {
            self.ready.extend(usage.map(ModelEvent::Usage));
            self.shared.blame(&trying.link, &candidate, &failure).await;
            return self.fail(failure);
        }
        self.after(trying, candidate, failure).await
    }

    /// Nothing was shown: what now?
    async fn after(&mut self, mut trying: Trying, candidate: Candidate, failure: Failure) -> State {
        let may_repeat = trying.repeats < self.shared.retries;
        let may_renew = candidate.kind == rotation::CredentialKind::Login
            && !trying.renewed.contains(&candidate.profile_id);
        match judge(&failure, may_repeat, may_renew, !trying.thinking_tried) {
            Verdict::Repeat => {
                trying.repeats += 1;
                let pause = self.shared.pause * 2_u32.saturating_pow(trying.repeats - 1);
                let pause = spread(pause, self.shared.clock.now_ms());
                tokio::time::sleep(failure.retry_after.unwrap_or(pause)).await;
                trying.left.push_front(candidate);
                State::NextCredential(trying, Fetch::AsItIs)
            }
            Verdict::Renew => {
                trying.renewed.insert(candidate.profile_id.clone());
                trying.left.push_front(candidate);
                State::NextCredential(trying, Fetch::Renewed)
            }
            Verdict::ThinkLess(level) => {
                trying.thinking_tried = true;
                self.request.options.thinking = level;
                trying.left.push_front(candidate);
                State::NextCredential(trying, Fetch::AsItIs)
            }
            Verdict::NextCredential => {
                self.shared.blame(&trying.link, &candidate, &failure).await;
                if trying.left.is_empty() {
                    return self.give_up(&trying.link, Some(candidate.profile_id), failure);
                }
                trying.repeats = 0;
                let from = trying.link.model.reference();
                let profile_id = Some(candidate.profile_id);
                self.ready.push_back(ModelEvent::Switched {
                    from: from.clone(),
                    profile_id,
                    failure: failure.clone(),
                });
                self.attempts.push((from, failure));
                State::NextCredential(trying, Fetch::AsItIs)
            }
            Verdict::NextModel => {
                self.shared.blame(&trying.link, &candidate, &failure).await;
                self.give_up(&trying.link, Some(candidate.profile_id), failure)
            }
            Verdict::Final => self.fail(failure),
        }
    }
}

fn origin(model: &ModelInfo, candidate: &Candidate) -> Origin {
    let api = model.api.as_str();
    Origin {
        api: api.to_owned(),
        provider: model.provider.clone(),
        model: model.id.clone(),
        profile_id: Some(candidate.profile_id.clone()),
        route: model.provider.clone(),
        stage: format!("adapter.{api}.{}", candidate.profile_id),
    }
}

/// Why nobody is asked although there are credentials.
pub(crate) fn cooling_down(provider: &str, soonest: &Standing, now: i64) -> Failure {
    let kind = soonest.reason.unwrap_or(FailureKind::RateLimit);
    let seconds = (soonest.until() - now).max(0) / 1000;
    let message = format!(
        "every credential of {provider} is cooling down after failures ({}); the first is free in {seconds} s",
        kind.as_str()
    );
    Failure::new(kind, message)
}

/// A pause up to half as long again, so that runs that failed together do not come back together.
fn spread(pause: Duration, now: i64) -> Duration {
    pause + pause.mul_f64(f64::from(u32::try_from(now.rem_euclid(97)).unwrap_or(0)) / 194.0)
}

fn no_credential(provider: &str, profile: Option<&str>) -> Failure {
    let message = match profile {
        Some(profile) => format!("there is no credential {profile:?} for {provider}"),
        None => format!("there is no credential for {provider}"),
    };
    Failure::new(FailureKind::Auth, message)
}

/// The last word when everything failed: the one failure, or all of them.
fn summary(attempts: &[(ModelRef, Failure)]) -> Failure {
    match attempts {
        [] => Failure::new(FailureKind::NoSuchModel, "the run names no model"),
        [(model, only)] => Failure { message: format!("{model}: {}", only.message), ..only.clone() },
        [.., (_, last)] => {
            let all: Vec<String> =
                attempts.iter().map(|(model, failure)| format!("{model}: {}", failure.message)).collect();
            let message = format!("no model could answer ({} tries): {}", all.len(), all.join("; "));
            // Where they failed for different reasons, none of them is the reason.
            let alike = attempts.iter().all(|(_, failure)| failure.kind == last.kind);
            let kind = if alike { last.kind } else { FailureKind::Broken };
            Failure { kind, message, ..last.clone() }
        }
    }
}
