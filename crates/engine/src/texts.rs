//! What the engine itself says to people on a network.

tidegate_runtime::texts! {
    COULD_NOT_ANSWER:
        "I could not answer this: {message} [{code}]",
        "这条消息未能得到答复：{message} [{code}]";
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
