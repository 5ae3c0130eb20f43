//! What people read about commands, in both languages of the catalogue.
//!
//! This crate is pure and cannot use the catalogue's own type; whoever shows these picks the language.

/// One text in English and Simplified Chinese.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Help {
    pub en: &'static str,
    pub zh: &'static str,
}

const fn help(en: &'static str, zh: &'static str) -> Help {
    Help { en, zh }
}

pub(crate) const NEW: Help = help(
    "Begin a new conversation; the words after it are its first message",
    "开始新会话；其后的文字作为第一条消息",
);
pub(crate) const RESET: Help = help("The same as /new", "与 /new 相同");
pub(crate) const STOP: Help =
    help("End what is under way; with all, also what waits", "停止正在进行的任务；加 all 同时取消排队的消息");
pub(crate) const COMPACT: Help = help(
    "Sum up the conversation so far; the words after it say what matters",
    "压缩当前会话；其后的文字说明要保留的重点",
);
pub(crate) const STATUS: Help = help("Show where the conversation stands", "显示会话状态");
pub(crate) const HELP: Help = help("Show the commands", "显示命令列表");
pub(crate) const CONTEXT: Help =
    help("Show what the model is sent, and how large it is", "显示发送给模型的内容及其大小");
pub(crate) const MODEL: Help = help(
    "Show or choose the model; with a question, for that question only",
    "显示或选择模型；后面带问题时仅对该问题有效",
);
pub(crate) const THINK: Help = help(
    "Show or choose how much the model thinks; with a question, for that question only",
    "显示或选择思考强度；后面带问题时仅对该问题有效",
);
pub(crate) const VERBOSE: Help = help(
    "Show or choose how much is told about tools; with a question, for that question only",
    "显示或选择工具信息的详细程度；后面带问题时仅对该问题有效",
);
pub(crate) const TITLE: Help = help("Show the conversation's title or give it one", "显示或设置会话标题");
