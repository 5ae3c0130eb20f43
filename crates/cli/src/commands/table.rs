//! The table of commands: words, options, help and entry, a row each.

use tidegate_runtime::catalogue::Text;

use super::{
    Entry, approvals, ask, audit, auth, channels, chat, config, events, gateway, mcp, models, outbox, runs,
    sandbox, services, sessions, status, stop, tools, usage,
};
use crate::arguments::{Command, Flag, SingleDash, Takes};

const fn flag(name: &'static str, takes: Takes, en: &'static str, zh: &'static str) -> Flag {
    Flag { name, takes, help: Text::new(en, zh) }
}

/// Options every command has.
pub(super) const GLOBALS: &[Flag] = &[
    flag(
        "home",
        Takes::Value("dir"),
        "where data lives (also TIDEGATE_HOME; default ~/.tidegate)",
        "数据目录（也可用 TIDEGATE_HOME；默认 ~/.tidegate）",
    ),
    flag(
        "instance",
        Takes::Value("name"),
        "a parallel home, ~/.tidegate-<name>",
        "并行的数据目录 ~/.tidegate-<name>",
    ),
    flag("json", Takes::Nothing, "answer in JSON", "以 JSON 输出"),
    flag("help", Takes::Nothing, "show help", "显示帮助"),
];

const AGENT: Flag = flag(
    "agent",
    Takes::Value("id"),
    "the agent (default: the configured one)",
    "agent（默认：配置中的默认项）",
);
const LIMIT: Flag =
    flag("limit", Takes::Value("n"), "how many at most (default 50)", "最多显示多少（默认 50）");
pub(super) const AT: Flag = flag(
    "at",
    Takes::Value("line"),
    "the line, by its number in sessions show or the beginning of its id",
    "行，写 sessions show 中的行号或其编号的开头",
);
const CHANNEL: Flag = flag("channel", Takes::Value("name"), "only this channel", "只看该通道");
const PORT: Flag = flag(
    "port",
    Takes::Value("n"),
    "the port (default gateway.port, 18789); 0 takes a free one",
    "端口（默认 gateway.port，即 18789）；0 表示任取空闲端口",
);
const BASE_HASH: Flag = flag(
    "base-hash",
    Takes::Value("hash"),
    "refuse if the file changed since this hash",
    "若文件自该哈希后已改变则拒绝",
);

const YES: Flag = flag("yes", Takes::Nothing, "do not ask", "不再询问");
const PROFILE: Flag =
    flag("profile", Takes::Value("id"), "the credential to use, and no other", "只使用该凭据");
const LOGIN_FLAGS: &[Flag] = &[
    flag(
        "name",
        Takes::Value("name"),
        "the name of the credential (default: default)",
        "凭据名称（默认 default）",
    ),
    flag("stdin", Takes::Nothing, "read the key from standard input", "从标准输入读取密钥"),
    flag(
        "token",
        Takes::Nothing,
        "it is a bearer token, such as Anthropic's setup token, and no key",
        "这是 bearer 令牌（如 Anthropic 的 setup token），不是密钥",
    ),
    flag("yes", Takes::Nothing, "replace one that is there without asking", "直接替换已有的，不再询问"),
];
const USAGE_FLAGS: &[Flag] = &[
    flag(
        "by",
        Takes::Value("what"),
        "day (default), model, session or agent",
        "day（默认）、model、session 或 agent",
    ),
    flag("days", Takes::Value("n"), "how many days back (default 30)", "最近多少天（默认 30）"),
    flag("agent", Takes::Value("id"), "only this agent", "只看该 agent"),
    flag("session", Takes::Value("name"), "only this conversation", "只看该会话"),
];

const ARGS: Flag = flag("args", Takes::Value("json"), "the arguments, as a JSON object", "参数，JSON 对象");
const ALLOW_AGENT: Flag = flag("agent", Takes::Value("id"), "only this agent", "只看该 agent");
const ROOT: Flag = flag(
    "root",
    Takes::Value("dir"),
    "the folder that the tool is held to (default: this one)",
    "工具限定的目录（默认：当前目录）",
);

const SANDBOX_PROFILE: Flag = flag(
    "profile",
    Takes::Value("name"),
    "none, local, container or microvm (default: the configured one)",
    "none、local、container 或 microvm（默认：配置的）",
);
const SANDBOX_SESSION: Flag =
    flag("session", Takes::Value("name"), "of this conversation (default main)", "该会话的（默认 main）");

const SESSION: Flag =
    flag("session", Takes::Value("name"), "the conversation (default main)", "会话（默认 main）");
const NEW_SESSION: Flag =
    flag("new-session", Takes::Nothing, "begin the conversation anew", "重新开始该会话");
const MODEL: Flag = flag(
    "model",
    Takes::Value("name"),
    "the model, as provider/model or an alias of the configuration",
    "模型，写作 provider/model 或配置中的别名",
);
const THINKING: Flag = flag(
    "thinking",
    Takes::Value("level"),
    "how much it thinks: off, minimal, low, medium, high, xhigh",
    "思考程度：off、minimal、low、medium、high、xhigh",
);
const CHAT_FLAGS: &[Flag] = &[SESSION, NEW_SESSION, AGENT, MODEL, THINKING];

const ASK_FLAGS: &[Flag] = &[
    SESSION,
    NEW_SESSION,
    AGENT,
    flag(
        "provider",
        Takes::Value("name"),
        "the model provider; offline needs no network",
        "模型提供方；offline 无需网络",
    ),
    MODEL,
    PROFILE,
    THINKING,
    flag("timeout", Takes::Value("seconds"), "give up after this long", "超过该时间即放弃"),
    flag(
        "stdin",
        Takes::Nothing,
        "read (more of) the input from standard input",
        "从标准输入读取（更多）输入",
    ),
    flag(
        "memory",
        Takes::Switch,
        "long-term memory of the session; comes with a later version",
        "会话的长期记忆；以后的版本提供",
    ),
    flag(
        "with-tools",
        Takes::Switch,
        "whether the model may call tools (default: yes); calls written as tool:<name> run in any case",
        "模型可否调用工具（默认可以）；以 tool:<name> 写明的调用总会执行",
    ),
    flag(
        "tool-allow",
        Takes::Value("names"),
        "the tools it may call, comma-separated; empty: the default",
        "允许的工具，逗号分隔；空为默认",
    ),
    flag(
        "tool-max-steps",
        Takes::Value("n"),
        "rounds of tool calls at most (default 3)",
        "工具调用最多轮数（默认 3）",
    ),
    flag(
        "dry-run",
        Takes::Nothing,
        "decide and show what tools would change, and change nothing",
        "只判断并展示工具会做的改变，不实际执行",
    ),
    flag("strict", Takes::Nothing, "exit with 2 when a tool failed", "有工具失败时以 2 退出"),
    flag(
        "verbose",
        Takes::Nothing,
        "also show what the model thinks and what came of its tools, on standard error",
        "在标准错误上同时显示模型的思考与工具结果",
    ),
];

const STOP_FLAGS: &[Flag] = &[
    flag("all", Takes::Nothing, "also what waits for its turn", "包括排队等待的"),
    flag("session", Takes::Value("name"), "only this conversation", "只停止该会话的"),
    flag("agent", Takes::Value("id"), "only this agent", "只停止该 agent 的"),
];

const MCP_ADD_FLAGS: &[Flag] = &[
    flag(
        "url",
        Takes::Value("address"),
        "a server that runs elsewhere (Streamable HTTP)",
        "在别处运行的服务器（Streamable HTTP）",
    ),
    flag(
        "header",
        Takes::Value("name=value"),
        "a header for it; may be given several times, and hold ${VAR}",
        "请求头；可多次给出，可含 ${VAR}",
    ),
    flag(
        "env",
        Takes::Value("name=value"),
        "a variable for the command; may be given several times, and hold ${VAR}",
        "命令的环境变量；可多次给出，可含 ${VAR}",
    ),
    flag(
        "cwd",
        Takes::Value("dir"),
        "the folder it works in (default: one of its own)",
        "工作目录（默认：专用目录）",
    ),
];

macro_rules! rows {
    ($([$($word:literal)+] $takes:literal ($least:expr, $most:expr) $flags:expr, $dash:ident, $entry:path, $en:literal, $zh:literal;)+) => {
        pub(super) static ALL: &[Command] = &[$(Command {
            path: &[$($word),+],
            about: Text::new($en, $zh),
            takes: $takes,
            arguments: ($least, $most),
            flags: $flags,
            single_dash: SingleDash::$dash,
        }),+];

        const ENTRIES: &[Entry] = &[$($entry),+];
    };
}

rows! {
    ["ask"] "<input>" (0, usize::MAX) ASK_FLAGS, Input, ask::run,
        "ask an agent (also called agent); a terminal shows the answer, a pipe gets JSON", "向 agent 提问（也可写作 agent）；终端上显示回答，管道中输出 JSON";
    ["chat"] "" (0, 0) CHAT_FLAGS, Option, chat::run,
        "talk with an agent in this terminal; without one, a line is a turn", "在终端中与 agent 对话；非终端时一行为一轮";
    ["up"] "" (0, 0) &[PORT], Option, gateway::up,
        "set up what is missing, start the gateway and show the link to its page", "补全缺少的设置，启动网关并显示页面链接";
    ["gateway" "run"] "" (0, 0) &[PORT], Option, gateway::run,
        "run the gateway in this terminal", "在当前终端运行网关";
    ["gateway" "status"] "" (0, 0) &[], Option, gateway::status,
        "whether the gateway runs, and how it does", "显示网关是否运行及其状况";
    ["gateway" "stop"] "" (0, 0) &[], Option, gateway::stop,
        "stop the gateway in good order", "有序停止网关";
    ["gateway" "link"] "" (0, 0) &[], Option, gateway::link,
        "a new one-time link to the page", "生成新的一次性页面链接";
    ["gateway" "call"] "<method>" (1, 1)
        &[flag("params", Takes::Value("json"), "what the method takes, as a JSON object", "方法的参数，JSON 对象")],
        Option, gateway::call,
        "call a method of the running gateway and print its answer", "调用运行中网关的方法并输出结果";
    ["events"] "" (0, 0)
        &[flag("session", Takes::Value("name"), "follow this conversation (default: what happens anywhere)", "跟随该会话（默认：所有动态）"), AGENT],
        Option, events::run,
        "what happens in the running gateway, as it happens, until Ctrl-C", "实时显示运行中网关的动态，直到 Ctrl-C";
    ["auth" "login"] "<provider>" (0, usize::MAX) LOGIN_FLAGS, Option, auth::login,
        "log in at a model provider, or store its key", "登录模型提供方或保存其密钥";
    ["auth" "status"] "" (0, 0) &[], Option, auth::status,
        "the credentials there are, wherever they are kept", "显示所有凭据及其位置";
    ["auth" "use"] "<profile>" (1, 1) &[], Option, auth::choose,
        "prefer a credential over its provider's others", "优先使用某个凭据";
    ["auth" "logout"] "[profile]" (0, 1)
        &[flag("all", Takes::Nothing, "remove every one", "全部删除")], Option, auth::logout,
        "remove a credential; without a name the active one", "删除凭据；不指定则删除当前使用的";
    ["auth" "import"] "<file>" (1, 1) &[], Option, auth::import,
        "take over credentials from an auth-profiles.json", "从 auth-profiles.json 导入凭据";
    ["auth" "rotate-key"] "" (0, 0) &[], Option, auth::rotate_key,
        "seal the stored credentials with a new key", "用新密钥重新加密凭据";
    ["models" "list"] "" (0, 0)
        &[flag("provider", Takes::Value("name"), "only this provider", "只看该提供方"),
          flag("all", Takes::Nothing, "also those without a credential", "包括没有凭据的")], Option, models::list,
        "models that can be asked, with their prices", "列出可用的模型及价格";
    ["models" "status"] "" (0, 0) &[AGENT], Option, models::status,
        "which models answer, with which credentials, and what is left to spend", "显示由哪些模型回答、使用哪些凭据、预算余额";
    ["models" "set"] "<model>" (1, 1)
        &[flag("agent", Takes::Value("id"), "for this agent only", "只为该 agent 设置")], Option, models::set,
        "choose the model that answers", "选择由哪个模型回答";
    ["models" "fallbacks"] "" (0, 0) &[], Option, models::fallbacks,
        "models that stand in when the first one fails", "列出备用模型";
    ["models" "fallbacks" "list"] "" (0, 0) &[], Option, models::fallbacks,
        "models that stand in when the first one fails", "列出备用模型";
    ["models" "fallbacks" "add"] "<model>" (1, 1) &[], Option, models::add,
        "let another model stand in, after those there are", "添加备用模型（排在最后）";
    ["models" "fallbacks" "remove"] "<model>" (1, 1) &[], Option, models::remove,
        "let a model stand in no more", "移除备用模型";
    ["models" "fallbacks" "clear"] "" (0, 0) &[], Option, models::clear,
        "let no model stand in", "清空备用模型";
    ["models" "test"] "[model]" (0, 1) &[AGENT, PROFILE], Option, models::test,
        "make one tiny call and tell what came of it", "做一次极小的调用并说明结果";
    ["tools" "list"] "" (0, 0)
        &[AGENT, flag("allowed", Takes::Nothing, "only those that policy leaves to the agent", "只列出策略允许该 agent 使用的")], Option, tools::list,
        "the tools there are; a terminal shows what policy says, a pipe gets JSON", "列出工具；终端上显示策略结论，管道中输出 JSON";
    ["tools" "info"] "<tool>" (1, 1) &[AGENT], Option, tools::info,
        "one tool: its arguments, and how it runs", "显示一个工具：参数与运行方式";
    ["tools" "invoke"] "<tool>" (1, 1)
        &[ARGS, AGENT, ROOT, flag("wait", Takes::Nothing, "let others answer when it has to be approved", "需批准时等待他人答复")], Option, tools::invoke,
        "run a tool by hand, under the agent's rules; the answer is JSON", "按 agent 的规则手动运行工具；输出 JSON";
    ["tools" "explain"] "<tool>" (1, 1)
        &[ARGS, AGENT, flag("session", Takes::Value("key"), "in this session (default: the keyboard)", "在该会话中（默认：键盘）"),
          flag("model", Takes::Value("name"), "while this model answers, as provider/model", "由该模型回答时，写作 provider/model"), ROOT], Option, tools::explain,
        "what would become of a call, and which rule says so; nothing is run", "说明调用会如何处理、由哪条规则决定；不会执行";
    ["mcp" "add"] "<name> [-- <command…>]" (1, usize::MAX) MCP_ADD_FLAGS, Option, mcp::add,
        "use the tools of an MCP server: a command, or an address with --url", "使用 MCP 服务器的工具：命令，或用 --url 指定地址";
    ["mcp" "list"] "" (0, 0) &[], Option, mcp::list,
        "the MCP servers there are, and whether they work", "列出 MCP 服务器及其是否可用";
    ["mcp" "test"] "<name>" (1, 1) &[], Option, mcp::test,
        "reach an MCP server, list its tools, or say what is wrong", "连接 MCP 服务器并列出工具，或说明问题";
    ["mcp" "login"] "<name>" (1, 1)
        &[flag("scope", Takes::Value("words"), "what the login has to allow, besides what the server asks for", "除服务器所要求外，登录还须允许的范围")], Option, mcp::login,
        "sign in at an MCP server that runs elsewhere", "登录在别处运行的 MCP 服务器";
    ["mcp" "logout"] "<name>" (1, 1) &[], Option, mcp::logout,
        "forget the login at an MCP server", "忘记 MCP 服务器的登录";
    ["mcp" "remove"] "<name>" (1, 1) &[], Option, mcp::remove,
        "use an MCP server no more", "移除 MCP 服务器";
    ["mcp" "serve"] "" (0, 0) &[], Option, mcp::serve,
        "offer tools and conversations over MCP on standard input and output", "在标准输入输出上以 MCP 提供工具与会话";
    ["approvals" "list"] "" (0, 0)
        &[LIMIT, flag("all", Takes::Nothing, "also those that were settled", "包括已处理的")], Option, approvals::list,
        "what agents want to do and wait for an answer about", "列出等待批准的请求";
    ["approvals" "show"] "<id>" (1, 1) &[], Option, approvals::show,
        "one question, whole: exactly what would be done", "显示一个请求的全部内容";
    ["approvals" "approve"] "<id>" (1, 1)
        &[flag("always", Takes::Nothing, "and do not ask again: saves the rule that is shown", "并保存所示规则，以后不再询问"),
          flag("prefix", Takes::Value("n"), "with --always: only the first n words after the program's name must be the same", "与 --always 合用：程序名之后只有前 n 个词须相同")], Option, approvals::approve,
        "say yes to exactly this call, once", "批准这一次调用";
    ["approvals" "deny"] "<id>" (1, 1)
        &[flag("reason", Takes::Value("text"), "why; the model is told", "理由；会告知模型")], Option, approvals::deny,
        "say no", "拒绝";
    ["approvals" "allowlist"] "" (0, 0) &[ALLOW_AGENT], Option, approvals::allowlist,
        "what was allowed for good", "列出始终允许的规则";
    ["approvals" "allowlist" "list"] "" (0, 0) &[ALLOW_AGENT], Option, approvals::allowlist,
        "what was allowed for good", "列出始终允许的规则";
    ["approvals" "allowlist" "add"] "<command>" (1, 1)
        &[ALLOW_AGENT, flag("prefix", Takes::Value("n"), "only the first n words after the program's name must be the same", "程序名之后只有前 n 个词须相同")], Option, approvals::add,
        "allow a command for good without being asked first", "无需询问，始终允许某个命令";
    ["approvals" "allowlist" "remove"] "<id>" (1, 1) &[], Option, approvals::remove,
        "ask again from now on", "删除规则，今后重新询问";
    ["sandbox" "status"] "" (0, 0) &[AGENT], Option, sandbox::status,
        "what can hold the programs that agents start, and why others cannot", "显示可用于隔离程序的方式，以及其他方式为何不可用";
    ["sandbox" "test"] "-- <program> [arguments]" (1, usize::MAX)
        &[AGENT, SANDBOX_PROFILE, ROOT], Option, sandbox::test,
        "run a program as the agent's programs are held, and say how that is", "按 agent 的隔离方式运行一个程序，并说明隔离情况";
    ["sandbox" "explain"] "" (0, 0) &[AGENT, SANDBOX_SESSION, ROOT], Option, sandbox::explain,
        "how an agent's programs are held, and which key of the configuration says so", "说明 agent 的程序如何隔离，以及由哪个配置项决定";
    ["usage"] "" (0, 0) USAGE_FLAGS, Option, usage::run,
        "tokens and money, by day, model, session or agent", "词元与费用，按日期、模型、会话或 agent";
    ["channels" "list"] "" (0, 0) &[], Option, channels::list,
        "the channels that are configured", "列出已配置的通道";
    ["channels" "status"] "" (0, 0) &[CHANNEL], Option, channels::status,
        "how each channel does right now", "显示各通道的当前状况";
    ["services" "list"] "" (0, 0) &[], Option, services::list,
        "the services that are configured", "列出已配置的服务";
    ["services" "status"] "[name]" (0, 1) &[], Option, services::status,
        "how each service does right now", "显示各服务的当前状况";
    ["services" "restart"] "<name>" (1, 1) &[], Option, services::restart,
        "start a service anew, also one that was given up", "重新启动服务，包括已放弃的";
    ["services" "logs"] "<name>" (1, 1) &[LIMIT], Option, services::logs,
        "the last lines a service wrote", "显示服务最近的输出";
    ["outbox" "list"] "" (0, 0)
        &[CHANNEL, LIMIT, flag("state", Takes::Value("states"), "only parts in these states, comma-separated", "只列出这些状态，逗号分隔")], Option, outbox::list,
        "what goes out to the channels, the newest first", "列出发往通道的内容，最新的在前";
    ["outbox" "retry"] "<part>" (1, 1) &[], Option, outbox::retry,
        "send a part that did not arrive (again)", "（再次）发送未送达的内容";
    ["outbox" "drop"] "<part>" (1, 1) &[], Option, outbox::give_up,
        "give a part up, with the rest of its message", "放弃该内容及其消息的其余部分";
    ["audit" "list"] "" (0, 0) &[LIMIT], Option, audit::list,
        "who did what, the newest first", "列出审计记录，最新的在前";
    ["audit" "verify"] "" (0, 0) &[], Option, audit::verify,
        "check that the record is whole", "检查审计记录是否完整";
    ["sessions" "list"] "" (0, 0)
        &[AGENT, LIMIT, flag("all", Takes::Nothing, "also conversations that were begun anew since", "包括已重新开始的旧会话")], Option, sessions::list,
        "conversations, the last used first", "列出会话，最近使用的在前";
    ["sessions" "show"] "<session>" (1, 1)
        &[AGENT, LIMIT, flag("all", Takes::Nothing, "all of it", "全部内容")], Option, sessions::show,
        "what was said in a conversation", "显示会话内容";
    ["sessions" "export"] "<session>" (1, 1)
        &[AGENT, flag("format", Takes::Value("name"), "jsonl, markdown or html (default: by the ending of the file, else jsonl)", "jsonl、markdown 或 html（默认按文件扩展名，否则为 jsonl）"),
          flag("output", Takes::Value("file"), "write to a file instead of standard output (-)", "写入文件而非标准输出（-）"),
          flag("force", Takes::Nothing, "replace the file if it is there", "文件已存在时替换")], Option, sessions::export,
        "a whole conversation as a file", "导出整个会话";
    ["sessions" "search"] "<words>" (1, usize::MAX)
        &[AGENT, LIMIT, flag("session", Takes::Value("name"), "only in this conversation", "只在该会话中")], Option, sessions::search,
        "lines of all conversations that have the words, the newest first", "在所有会话中搜索，最新的在前";
    ["sessions" "rename"] "<session> <title>" (1, usize::MAX) &[AGENT], Option, sessions::rename,
        "give a conversation a title; without words take it away", "设置会话标题；不写则删除标题";
    ["sessions" "reset"] "<session>" (1, 1) &[AGENT], Option, sessions::reset,
        "begin a conversation anew, as /new does", "重新开始会话，与 /new 相同";
    ["sessions" "fork"] "<session>" (1, 1)
        &[AGENT, AT, flag("to", Takes::Value("name"), "the conversation that gets it (default: the same one)", "分支归入的会话（默认：原会话）"),
          flag("force", Takes::Nothing, "also where a conversation has that name: its present log stays as a branch", "该名称已有会话时也执行：其现有对话保留为分支")], Option, sessions::fork,
        "go on from an earlier line; the old conversation stays", "从之前的某一行继续；旧对话保留";
    ["sessions" "edit"] "<session> <text> --at <line>" (2, usize::MAX) &[AGENT, AT], Option, sessions::edit,
        "ask something else in the place of an earlier message", "改写之前的某条消息并重新提问";
    ["sessions" "branches"] "<session>" (1, 1) &[AGENT], Option, sessions::branches,
        "the conversations a session has had, and which is the current one", "列出会话的各个分支与当前分支";
    ["sessions" "switch"] "<session> <id>" (2, 2) &[AGENT], Option, sessions::switch,
        "go on from the end of another branch", "切换到另一个分支";
    ["sessions" "delete"] "<session>" (1, 1)
        &[AGENT, YES], Option, sessions::delete,
        "remove a conversation for good", "永久删除会话";
    ["runs" "list"] "" (0, 0)
        &[AGENT, LIMIT, flag("state", Takes::Value("state"), "only runs in this state", "只列出该状态的运行"),
          flag("session", Takes::Value("name"), "only runs of this conversation", "只列出该会话的运行")], Option, runs::list,
        "runs, the newest first", "列出运行，最新的在前";
    ["runs" "show"] "<run>" (1, 1) &[], Option, runs::show,
        "one run: input, answer or error, usage", "显示一次运行：输入、回答或错误、用量";
    ["runs" "replay"] "<run>" (1, 1) &[], Option, runs::replay,
        "the story of a run, step by step", "逐步重述一次运行";
    ["runs" "abort"] "<run>" (1, 1) &[], Option, runs::abort,
        "end a run that waits or is under way", "中止等待或进行中的运行";
    ["stop"] "" (0, 0) STOP_FLAGS, Option, stop::run,
        "end what is under way, at once; to stop the gateway itself: gateway stop", "立即停止进行中的运行；停止网关本身请用 gateway stop";
    ["status"] "" (0, 0) &[], Option, status::run,
        "home, configuration, storage and counts", "显示目录、配置、存储与统计";
    ["config" "get"] "[path]" (0, 1)
        &[flag("effective", Takes::Nothing, "with includes, variables and defaults", "包含引用、变量与默认值"),
          flag("show-secrets", Takes::Nothing, "do not blot out secrets", "不遮盖机密")], Option, config::get,
        "a value of the configuration, or all of it", "读取配置项或全部配置";
    ["config" "set"] "<path> <value>" (2, 2) &[BASE_HASH], Option, config::set,
        "change a value; comments stay", "修改配置项；保留注释";
    ["config" "unset"] "<path>" (1, 1) &[BASE_HASH], Option, config::unset,
        "remove a value; comments stay", "删除配置项；保留注释";
    ["config" "validate"] "" (0, 0) &[], Option, config::validate,
        "check the file and name every problem", "检查文件并列出所有问题";
    ["config" "schema"] "" (0, 0) &[], Option, config::schema,
        "the JSON Schema of the file", "输出文件的 JSON Schema";
    ["config" "path"] "" (0, 0) &[], Option, config::path,
        "where the file is", "显示文件位置";
    ["config" "revisions"] "" (0, 0) &[], Option, config::revisions,
        "earlier versions of the file", "列出文件的历史版本";
    ["config" "rollback"] "<revision>" (1, 1) &[BASE_HASH], Option, config::rollback,
        "bring an earlier version back", "恢复某个历史版本";
    ["version"] "" (0, 0) &[], Option, super::version_command,
        "the version (also --version, -v)", "显示版本（也可用 --version、-v）";
    ["help"] "[command]" (0, 2) &[], Option, super::help_command,
        "this help, or that of a command (also --help, -h)", "显示帮助或某个命令的帮助（也可用 --help、-h）";
}

/// What runs this command.
pub(super) fn entry(command: &Command) -> Entry {
    let at = ALL.iter().position(|row| row.path == command.path).unwrap_or(0);
    ENTRIES[at]
}

/// Whether a typed word is this word of a path. `agent` is the later name of `ask`.
pub(super) fn same(part: &str, word: &str) -> bool {
    part == word || part == "ask" && word == "agent"
}
