//! What the command line says about conversations.

use tidegate_runtime::texts;

texts! {
    SUMMARY: "summary", "摘要";
    INTERRUPTED: "  (interrupted)", "  （被中断）";
    LEFT_OUT: "({count} of {last} lines come before these: --all shows them, --limit <n> more of them)", "（前面还有 {count} 条，共 {last} 条：--all 显示全部，--limit <n> 显示更多）";
    UNKNOWN: "unknown", "未知";
    IMAGE: "(an image, {kind})", "（图像，{kind}）";
    INVALID_FORMAT: "Invalid value for --format: {value} ({known})", "--format 的值无效：{value}（{known}）";
    UNKNOWN_ENDING: "{file}: its ending does not say what to write; end it in .md, .jsonl or .html, or choose with --format", "{file}：扩展名无法确定格式；请用 .md、.jsonl 或 .html，或以 --format 指定";
    FILE_EXISTS: "{file} is there already; replace it with --force, or write to another file", "{file} 已存在；用 --force 替换，或写入其他文件";
    NOTHING_FOUND: "Nothing found for: {words}", "没有找到：{words}";
    FOUND_TITLES: "session,line,from,when,text", "会话,行,来自,时间,内容";
    RENAMED: "{name} is now called: {title}", "{name} 的标题：{title}";
    UNNAMED: "{name} has no title any more", "{name} 不再有标题";
    RESET: "{name} begins anew with the next message; the old conversation stays: sessions branches {name}", "{name} 将从下一条消息重新开始；旧对话仍保留：sessions branches {name}";
    BRANCH_TITLES: "current,id,messages,last used,forked from,title", "当前,编号,消息数,最近使用,分支自,标题";
    NO_SUCH_LINE: "there is no single line {at}; lines are numbered 1 to {last}, see: {program} sessions show {name}", "没有唯一的第 {at} 行；行号为 1 到 {last}，见：{program} sessions show {name}";
    NAME_TAKEN: "there is a conversation {name} already; fork to another name, or with --force let it go on there (its present log stays as a branch)", "已有名为 {name} 的会话；请换一个名称，或用 --force 让其从此继续（现有对话保留为分支）";
    FORKED: "{name} goes on in {log}", "{name} 现在使用 {log}";
    SWITCHED: "{name} goes on where {id} ended, in a copy: {log}", "{name} 从 {id} 的结尾继续，使用其副本：{log}";
    IS_THERE: "{name} is there already: {log} has the lines of {id}, and nothing was written since", "{name} 已在该处：{log} 即 {id} 的内容，此后没有新内容";
    NO_SUCH_BRANCH: "{name} has no branch {id}; see: {program} sessions branches {name}", "{name} 没有分支 {id}；查看：{program} sessions branches {name}";
    NOT_OF_AGENT: "agent {agent} has no session {name}; see: {program} sessions list --agent {agent}", "agent {agent} 没有名为 {name} 的会话；查看：{program} sessions list --agent {agent}";
    NOT_A_QUESTION: "line {line} of {name} is not a person's message; see: sessions show {name}", "{name} 的第 {line} 行不是用户消息；见：sessions show {name}";
    DELETED_ALL: "deleted session {name} with all its {logs} conversations", "已删除会话 {name} 及其全部 {logs} 个对话";
    UNTITLED: "{name} has no title any more", "{name} 不再有标题";
    EDIT_CUT: "note: {name} now ends before line {line}; to have it back as it was: {program} sessions switch {name} {log}", "注意：{name} 现在止于第 {line} 行之前；要恢复原样：{program} sessions switch {name} {log}";
    NOT_ASKED_HERE: "{name} is a conversation of a network and cannot be asked in from here; fork line {line} to a name with sessions fork --to", "{name} 是网络上的会话，不能在此提问；请用 sessions fork --to 将第 {line} 行分支到一个名称";
}
