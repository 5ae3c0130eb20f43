//! What the command line says about runs: tools in a question, replays, stopping.

use tidegate_runtime::texts;

texts! {
    NOT_RUN: "○ {tool}: not run, only shown", "○ {tool}：未执行，仅展示";
    MORE_LINES: "… {count} more lines", "… 还有 {count} 行";
    SUMMED_UP: "note: the conversation had grown long and was summed up ({before} → {after} tokens)", "注意：会话过长，已作摘要（{before} → {after} 词元）";
    ANSWERED_ELSEWHERE: "note: somebody else has answered this already", "注意：已有他人答复";
    DRY_RUN: "note: this was a dry run; whatever would have changed something was decided and shown, and not done", "注意：这是演练；所有会产生改变的操作都只作了判断与展示，并未执行";

    NO_SUCH_TOOL: "--tool-allow: there is no tool {name}", "--tool-allow：没有名为 {name} 的工具";
    NO_COMMAND_HERE: "note: ask takes no commands, /{name} goes to the model as it is; {program} chat takes them", "注意：ask 不接受命令，/{name} 会原样发给模型；请在 {program} chat 中使用";
    STEPS_HINT: "A whole number from 1", "从 1 起的整数";
    COUNTING: "still being counted", "仍在统计";
    IN_SHADOW: "{state} (dry run)", "{state}（演练）";
    STOPPED: "Stopped {id} ({session}, {state}): {text}", "已停止 {id}（{session}，{state}）：{text}";
    NOTHING_TO_STOP: "Nothing is under way.", "没有进行中的运行。";
    WAITING_LEFT: "Runs that wait for their turn go on; to end those as well: {program} stop --all", "排队等待的运行会继续；若也要停止：{program} stop --all";
}
