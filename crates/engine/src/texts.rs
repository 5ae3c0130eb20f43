//! What the engine itself says to people on a network.

tidegate_runtime::texts! {
    COULD_NOT_ANSWER:
        "I could not answer this: {message} [{code}]",
        "这条消息未能得到答复：{message} [{code}]";
    SECRETS_REMOVED:
        "(Removed before sending, because it is a secret here: {secrets})",
        "（发送前已移除的机密：{secrets}）";
    NEW_SESSION:
        "A new conversation begins.",
        "新的对话开始了。";
    SUMMED_UP:
        "Summed up: about {before} tokens became {after}.",
        "已压缩：约 {before} 个 token 变为 {after} 个。";
    WAS_SUMMED_UP:
        "(This conversation has grown long: what came first is now a summary.)",
        "（对话已经很长：较早的内容现已压缩为摘要。）";
    NOTHING_TO_SUM_UP:
        "There is nothing to sum up yet.",
        "目前没有可压缩的内容。";
    STOPPED:
        "Stopped.",
        "已停止。";
    STOPPED_WAITING:
        "Stopped, with {waiting} that waited.",
        "已停止，并取消了 {waiting} 条排队的消息。";
    STOPPED_HELPERS:
        "Stopped; subagents among it: {helpers}.",
        "已停止，其中子代理 {helpers} 个。";
    STOPPED_BOTH:
        "Stopped, with {waiting} that waited; subagents among it: {helpers}.",
        "已停止，其中子代理 {helpers} 个，并取消了 {waiting} 条排队的消息。";
    NOTHING_TO_STOP:
        "Nothing is under way.",
        "当前没有正在进行的任务。";
    NO_SUCH_COMMAND:
        "There is no command /{word}. See /help.",
        "没有命令 /{word}。请看 /help。";
    MODEL_IS:
        "Model: {model}",
        "模型：{model}";
    MODEL_CHOSEN:
        "From now on {model} answers here. Take it back: /model default",
        "此后由 {model} 在此回答。恢复默认：/model default";
    MODEL_USUAL:
        "The usual model answers here again: {model}",
        "恢复默认模型：{model}";
    MODELS_KNOWN:
        "To choose from: {known}",
        "可选：{known}";
    NO_SUCH_PROVIDER:
        "There is no model {value} to choose: no provider is called {provider}. {known}",
        "没有可选的模型 {value}：没有名为 {provider} 的提供方。{known}";
    NO_SUCH_MODEL:
        "There is no model {value} to choose. {known}",
        "没有可选的模型 {value}。{known}";
    THINKING_IS:
        "Thinking: {level} ({levels})",
        "思考强度：{level}（{levels}）";
    THINKING_CHOSEN:
        "Thinking from now on: {level}",
        "此后的思考强度：{level}";
    NO_SUCH_THINKING:
        "There is no thinking level {value}: {levels}",
        "没有思考强度 {value}：{levels}";
    VERBOSE_IS:
        "Tools in the reply: {level} (off, on, full)",
        "回复中的工具信息：{level}（off、on、full）";
    VERBOSE_CHOSEN:
        "Tools in the reply from now on: {level}",
        "此后回复中的工具信息：{level}";
    NO_SUCH_VERBOSE:
        "{value} is none of: off, on, full",
        "{value} 不在 off、on、full 之中";
    TITLE_IS:
        "Title: {title}",
        "标题：{title}";
    NO_TITLE:
        "Nothing was said here yet, so there is nothing to give a title to.",
        "这里还没有内容，无法设置标题。";
    NO_TITLE_SHOWN:
        "This conversation has no title. Give it one: /title <words>",
        "此会话没有标题。设置：/title <文字>";
    STATUS_SESSION:
        "Conversation: {name} ({lines} messages)",
        "会话：{name}（{lines} 条消息）";
    STATUS_CONTEXT:
        "Context: {used} of {window} tokens ({percent} %) as the model counted them last, summed up {times} times",
        "上下文：{used} / {window} 个 token（{percent} %，模型上次的计数），已压缩 {times} 次";
    CONTEXT_ESTIMATED:
        "The next message sends about {tokens}, by estimate:",
        "下一条消息约发送 {tokens}（估计）：";
    STATUS_USED:
        "Used: {input} tokens in, {output} out, {cost}",
        "用量：输入 {input} 个 token，输出 {output} 个，{cost}";
    PRICE_UNKNOWN:
        "price unknown",
        "价格未知";
    CONTEXT_SYSTEM:
        "Instructions: {tokens} (files: {files})",
        "指令：{tokens}（文件：{files}）";
    CONTEXT_TOOLS:
        "Tools: {tokens} ({tools})",
        "工具：{tokens}（{tools}）";
    CONTEXT_HISTORY:
        "Messages: {tokens} ({messages})",
        "消息：{tokens}（{messages} 条）";
    CONTEXT_KEPT:
        "When it grows past {limit} tokens, what is older than the newest {kept} is summed up.",
        "超过 {limit} 个 token 时，最近 {kept} 个 token 之前的内容会被压缩。";
    COMMANDS_ARE:
        "Commands:",
        "命令：";
    TOOL_USED:
        "[{tool}] {call}",
        "[{tool}] {call}";
    TOOL_FAILED:
        "[{tool}] {call} (failed)",
        "[{tool}] {call}（失败）";
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
