//! Embedding through the credentials, standings and ledger that all calls share.

use super::{EmbedRequest, Embedded, embed};
use crate::catalogue::EmbeddingInfo;
use crate::chain::{Shared, cooling_down};
use crate::failure::{Failure, FailureKind};
use crate::ledger::{CallOutcome, CallRecord, Ledger};
use crate::rotation::{self, Candidate, Wishes};

impl Shared {
    /// Tries the provider's credentials in their order. Another model is never taken: its vectors mean something else.
    pub(crate) async fn embed(
        &self,
        info: &EmbeddingInfo,
        order: Option<&[String]>,
        request: EmbedRequest<'_>,
        ledger: &Ledger,
    ) -> Result<Embedded, Failure> {
        let provider = info.provider.as_str();
        self.standings.load().await;
        let candidates = self.credentials.candidates(provider).await?;
        let wishes = Wishes { order, ..Wishes::default() };
        let standing = |candidate: &Candidate| self.standings.of(provider, candidate, &info.id);
        let now = self.clock.now_ms();
        let ordered = rotation::order(&candidates, wishes, standing, now);
        let mut last = match ordered.first() {
            Some(candidate) => cooling_down(provider, &standing(candidate), now),
            None => Failure::new(FailureKind::Auth, format!("there is no credential for {provider}")),
        };
        for candidate in rotation::to_try(&ordered, standing, now, false, true) {
            match self.embed_with(info, &candidate, request, ledger).await {
                Ok(embedded) => return Ok(embedded),
                Err(failure) if failure.kind.counts_against_credential() => last = failure,
                Err(failure) => return Err(failure),
            }
        }
        Err(last)
    }

    async fn embed_with(
        &self,
        info: &EmbeddingInfo,
        candidate: &Candidate,
        request: EmbedRequest<'_>,
        ledger: &Ledger,
    ) -> Result<Embedded, Failure> {
        let (provider, profile) = (info.provider.as_str(), candidate.profile_id.as_str());
        let started_at = self.clock.now_ms();
        let granted = self.credentials.grant(provider, profile, false).await?;
        let outcome = embed(&self.client, request, &granted.access, self.timeouts).await;
        let (mut usage, outcome_kind) = match &outcome {
            Ok(embedded) => (embedded.usage, CallOutcome::Answered),
            Err(failure) => (tidegate_protocol::Usage::default(), CallOutcome::Failed(failure.kind)),
        };
        // Google counts nothing: then the usual four characters are a token.
        let estimated = outcome.is_ok() && usage.input == 0;
        if estimated {
            let characters: u64 = request.inputs.iter().map(|text| text.chars().count() as u64).sum();
            usage.input = characters.div_ceil(4);
        }
        usage.cost = info.price.unwrap_or_default().of(&usage);
        ledger.record(CallRecord {
            model: tidegate_protocol::ModelRef { provider: info.provider.clone(), model: info.id.clone() },
            profile_id: Some(profile.to_owned()),
            started_at,
            usage,
            estimated,
            outcome: outcome_kind,
        });
        let now = self.clock.now_ms();
        match outcome {
            Ok(embedded) => {
                self.standings.succeeded(provider, profile, &info.id, now).await;
                Ok(Embedded { usage, ..embedded })
            }
            Err(failure) => {
                if failure.kind.counts_against_credential() {
                    self.standings.failed(provider, candidate, &info.id, &failure, now).await;
                }
                Err(failure)
            }
        }
    }
}
