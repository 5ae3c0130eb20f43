//! What the agent itself says to people.

tidegate_runtime::texts! {
    BUSY:
        "The model is busy at the moment. Please try again in a little while.",
        "模型目前繁忙，请稍后再试。";
    TIMED_OUT:
        "The model took too long to answer. Please try again.",
        "模型响应超时，请重试。";
    TOO_LONG:
        "The conversation is too long for this model. Start a new one with /new, or choose a model that can read more.",
        "对话对此模型来说过长。请用 /new 开始新对话，或选择上下文更长的模型。";
    MODEL_ERROR: "LLM error", "模型错误";
}

#[cfg(test)]
mod tests {
    use tidegate_runtime::catalogue::Text;

    #[test]
    fn both_languages_have_the_same_places() {
        for (name, text) in super::ALL {
            assert_eq!(Text::places(text.en), Text::places(text.zh), "{name}");
        }
    }
}
