//! How long an answer a run can still pay for. Pure.

use tidegate_protocol::{Cost, Usage};

use crate::catalogue::ModelInfo;
use crate::failure::{Failure, FailureKind};
use crate::meter;
use crate::money::format_usd;
use crate::request::Request;

/// Shortens the answer to what the run can pay for, thoughts included: a format may give thoughts room beyond what is
/// asked for, but never beyond the model's own limit. Fails where not even the question can be paid for.
pub(crate) fn shorten(
    request: &mut Request,
    model: &mut ModelInfo,
    most: Cost,
    spent: Cost,
) -> Result<(), Failure> {
    let Some(price) = model.price.filter(|price| price.output > 0.0) else { return Ok(()) };
    let question = Usage { input: meter::estimate(request), ..Usage::default() };
    let left = most.0.saturating_sub(spent.0).saturating_sub(price.of(&question).0);
    if left == 0 {
        let message = format!(
            "the run may cost {} and this call of {} would go beyond it ({} spent)",
            format_usd(most.usd()),
            model.reference(),
            format_usd(spent.usd()),
        );
        return Err(Failure::new(FailureKind::CostLimit, message));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    let tokens = ((Cost(left).usd() / price.output * 1e6) as u32).max(1);
    if tokens < model.max_tokens {
        model.max_tokens = tokens;
        // Said aloud: where nothing is asked for, a format may set no limit at all.
        let asked = request.options.max_tokens.unwrap_or(tokens);
        request.options.max_tokens = Some(asked.min(tokens));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tidegate_protocol::{Message, ThinkingLevel};

    use super::*;
    use crate::catalogue::{Api, Price};
    use crate::wire::{Access, Target, of};

    fn model() -> ModelInfo {
        let provider = crate::known_provider("anthropic").unwrap();
        let price = Some(Price { input: 1.0, output: 10.0, ..Price::default() });
        ModelInfo { max_tokens: 64_000, price, ..provider.model("claude-sonnet-4-5").unwrap().clone() }
    }

    fn ask() -> Request {
        Request { messages: vec![Message::user("hi", 1)], ..Request::default() }
    }

    #[test]
    fn thoughts_are_paid_from_the_same_purse_as_the_answer() {
        let (mut request, mut model) = (ask(), model());
        request.options.thinking = ThinkingLevel::High;
        shorten(&mut request, &mut model, Cost::from_usd(0.05), Cost::default()).unwrap();
        let target = Target { model: &model, access: &Access::Open, now_ms: 0 };
        let body = of(Api::AnthropicMessages).unwrap().prepare(&request, &target).unwrap().body;
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let most = body["max_tokens"].as_u64().unwrap();
        assert!((4_000..=5_000).contains(&most), "{most}");
        assert!(body["thinking"]["budget_tokens"].as_u64().unwrap() < most);
    }

    #[test]
    fn a_limit_that_is_far_away_changes_nothing() {
        let (mut request, mut model) = (ask(), model());
        let before = (request.clone(), model.clone());
        shorten(&mut request, &mut model, Cost::from_usd(10.0), Cost::default()).unwrap();
        assert_eq!((request, model), before);
    }

    #[test]
    fn a_run_that_spent_its_money_asks_nothing_more() {
        let (mut request, mut model) = (ask(), model());
        let all = Cost::from_usd(0.05);
        let refused = shorten(&mut request, &mut model, all, all).unwrap_err();
        assert_eq!(refused.kind, FailureKind::CostLimit);
    }
}
