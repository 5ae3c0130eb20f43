//! What the command line says, in both languages. Codes, keys and commands are never translated.

use tidegate_protocol::ErrorCode;
use tidegate_runtime::catalogue::Text;
use tidegate_runtime::texts;

texts! {
    UNKNOWN_COMMAND: "Unknown command: {word}", "未知命令：{word}";
    UNKNOWN_OPTION: "Unknown option: {word}", "未知选项：{word}";
    MISSING_VALUE: "Missing value for {name}", "缺少 {name} 的值";
    MISSING_ARGUMENT: "Missing argument", "缺少参数";
    EXTRA_ARGUMENT: "Unexpected argument: {word}", "多余的参数：{word}";
    INVALID_VALUE: "Invalid value for --{name} at arg {position}: {value}", "--{name} 的值无效（第 {position} 个参数）：{value}";
    INVALID_INSTANCE: "Invalid instance name {value}: use a-z, 0-9, '-' and '_'", "实例名 {value} 无效：只能用 a-z、0-9、'-' 和 '_'";
    DID_YOU_MEAN: "Did you mean {word}?", "是不是想输入 {word}？";
    SEE_HELP: "See: {program} --help", "用法见：{program} --help";
    USAGE: "Usage: {usage}", "用法：{usage}";
    NO_USER_HOME: "HOME is not set, so there is no place for data: set TIDEGATE_HOME or use --home <dir>", "没有设置 HOME，数据无处可放：请设置 TIDEGATE_HOME 或使用 --home <dir>";

    ASK_INPUT_REQUIRED: "ask command requires non-empty input", "ask 命令需要非空的输入";
    ASK_INPUT_TOO_LARGE: "the input is too large: at most {most} bytes are taken", "输入过大：最多接受 {most} 字节";
    NOT_UTF8: "argument {position} is not UTF-8: {word}", "第 {position} 个参数不是 UTF-8：{word}";
    STDIN_NOT_UTF8: "standard input is not UTF-8", "标准输入不是 UTF-8";
    TRANSCRIPT_REBUILT: "note: the transcript {file} was damaged; it was made anew from the database, the damaged one is {kept}", "注意：会话记录 {file} 已损坏；已依据数据库重建，损坏的文件为 {kept}";
    TRANSCRIPT_LAGS: "note: the answer is kept, but the transcript {file} could not be written ({cause}); it is tried again with the next command", "注意：回答已保存，但会话记录 {file} 无法写入（{cause}）；下次命令时会重试";
    UNSUPPORTED_PROVIDER: "Unsupported provider: {provider}", "不支持的模型提供方：{provider}";
    KNOWN_PROVIDERS: "Known: {known}. Others go under models.providers in the configuration.", "已知：{known}。其他的写在配置的 models.providers 下。";
    NO_PROFILE: "No {provider} profile found. Run: tidegate auth login {provider}", "没有 {provider} 的登录信息。请运行：tidegate auth login {provider}";
    NO_SUCH_PROFILE: "there is no credential {profile} for {provider}", "没有 {provider} 的凭据 {profile}";
    SEE_AUTH_STATUS: "See: {program} auth status", "查看：{program} auth status";
    SEE_MODELS: "See: {program} models list", "查看：{program} models list";
    INVALID_THINKING: "Invalid value for --thinking: {value} (off, minimal, low, medium, high, xhigh)", "--thinking 的值无效：{value}（off、minimal、low、medium、high、xhigh）";
    UNKNOWN_MODEL: "{text} names no model: write provider/model, or an alias of agents.defaults.models", "{text} 不是模型：请写 provider/model 或 agents.defaults.models 中的别名";
    USE_OFFLINE: "To get an answer now: --provider offline", "现在就要回答，请用：--provider offline";
    NO_MEMORY_YET: "--memory is not available in this version; leave it out or use --no-memory", "此版本还没有 --memory；请去掉它或使用 --no-memory";
    NO_OFFLINE_PROFILE: "--profile names a login, and the offline model has none", "--profile 指定登录信息，而离线模型不需要登录";
    INVALID_SESSION: "--session takes a name of 1 to {most} bytes", "--session 的名称须为 1 到 {most} 字节";
    INVALID_TIMEOUT: "Invalid value for --timeout: {value} (seconds, more than 0)", "--timeout 的值无效：{value}（单位为秒，须大于 0）";
    NO_SUCH_AGENT: "there is no agent {name}; known: {known}", "没有名为 {name} 的 agent；已有：{known}";
    INTERRUPTED_RUNS: "note: {count} earlier run(s) ended before they could answer; see: {program} runs list --state interrupted", "注意：{count} 个先前的运行没有来得及回答就结束了；查看：{program} runs list --state interrupted";

    LAST_GOOD: "!! {file} is not valid. Going on with the last good configuration (revision {revision}):", "!! {file} 无效。暂用最近一次有效的配置（第 {revision} 版）：";
    LAST_GOOD_MEND: "!! Mend the file and check it with: {program} config validate", "!! 请修正该文件，并用以下命令检查：{program} config validate";
    CONFIG_VALID: "{file} is valid", "{file} 有效";
    CONFIG_MISSING: "{file} does not exist; every key has its default", "{file} 不存在；所有配置项使用默认值";
    CONFIG_WARNING: "warning: {problem}", "警告：{problem}";
    CONFIG_SET: "{path} set (revision {revision})", "已设置 {path}（第 {revision} 版）";
    CONFIG_UNSET: "{path} removed (revision {revision})", "已删除 {path}（第 {revision} 版）";
    CONFIG_NOT_SET: "{path} is not set", "{path} 没有设置";
    CONFIG_DEFAULTS: "Defaults are shown with --effective", "默认值可用 --effective 查看";
    CONFIG_RESTORED: "revision {number} is in force again (as revision {revision})", "已恢复第 {number} 版（现为第 {revision} 版）";
    INVALID_REVISION: "{value} is not a revision number; see `config revisions`", "{value} 不是版本号；请看 `config revisions`";
    NO_REVISIONS: "No revisions yet. A change with `config set` makes the first.", "还没有历史版本。用 `config set` 修改后会产生第一个。";
    REVISION_TITLES: "revision,saved,state,hash", "版本,保存时间,状态,哈希";

    NO_SESSIONS: "No sessions yet. Begin one: {program} ask hello", "还没有会话。开始一个：{program} ask 你好";
    NO_SUCH_SESSION: "there is no session {name}; see: {program} sessions list", "没有名为 {name} 的会话；查看：{program} sessions list";
    SESSION_TITLES: "session,id,messages,last used,route", "会话,编号,消息数,最近使用,路由";
    DELETE_QUESTION: "Delete session {name} for good: {messages} messages in {logs} conversation(s), and its runs? [y/N] ", "确定永久删除会话 {name}（{logs} 段对话，共 {messages} 条消息，以及其运行记录）？[y/N] ";
    DELETE_OLD: "{id} is an earlier conversation of the session {name}; deleting takes a whole session: sessions delete {name}", "{id} 是会话 {name} 的旧对话；删除以整个会话为单位：sessions delete {name}";
    WAITING: "waiting for {holder} …", "正在等待 {holder} …";
    HOME_AND_INSTANCE: "--home and --instance both choose the home; use one of them", "--home 与 --instance 都用于选择目录，请只用其一";
    MEANT_ASK: "To ask something: {program} ask '<question>'", "要提问，请用：{program} ask '<问题>'";
    DELETE_NEEDS_YES: "deleting cannot be undone: confirm with --yes", "删除无法撤销：请用 --yes 确认";
    DELETED: "deleted session {name}", "已删除会话 {name}";
    NOT_DELETED: "nothing was deleted", "没有删除任何内容";
    EXPORTED: "wrote {file}", "已写入 {file}";
    INVALID_FORMAT: "Invalid value for --format: {value} (jsonl or markdown)", "--format 的值无效：{value}（jsonl 或 markdown）";

    NO_RUNS: "No runs.", "没有运行记录。";
    NO_SUCH_RUN: "there is no run {name}; see: {program} runs list", "没有编号为 {name} 的运行；查看：{program} runs list";
    RUN_TITLES: "run,state,session,started,took,input", "运行,状态,会话,开始,用时,输入";
    INVALID_STATE: "Invalid value for --state: {value} (one of {known})", "--state 的值无效：{value}（可用：{known}）";
    INVALID_LIMIT: "Invalid value for --limit: {value} (a whole number from 1 to 10000)", "--limit 的值无效：{value}（1 到 10000 的整数）";

    NO_PARTS: "Nothing goes out.", "没有待发内容。";
    OUTBOX_TITLES: "part,state,lane,tries,changed,reason,text", "编号,状态,目标,次数,变更时间,原因,内容";
    INVALID_CHANNEL: "Invalid value for --channel: {value}", "--channel 的值无效：{value}";
    INVALID_PART: "{value} is not the id of a part; see `outbox list`", "{value} 不是发件编号；请看 `outbox list`";
    PARTS_RETRIED: "{count} part(s) will be sent", "将发送 {count} 条";
    PARTS_DROPPED: "{count} part(s) dropped", "已放弃 {count} 条";
    PART_NOT_DECIDABLE: "part {id} is {state}: there is nothing to decide", "{id} 的状态为 {state}，无需处理";
    NO_SUCH_PART: "there is no part {id}; see: {program} outbox list", "没有编号为 {id} 的发件；查看：{program} outbox list";
    NO_AUDIT: "Nothing was recorded yet.", "还没有审计记录。";
    AUDIT_TITLES: "time,actor,action,resource", "时间,操作者,操作,对象";
    AUDIT_WHOLE: "whole: {rows} rows under {seals} seals, {unsealed} not sealed yet", "完整：{seals} 个封印共 {rows} 行，另有 {unsealed} 行尚未封印";
    AUDIT_HEAD: "last seal: {number} {chain}", "最后的封印：{number} {chain}";
    AUDIT_BROKEN: "the audit trail is not what was sealed: {count} break(s)", "审计记录与封印不符：{count} 处";
    RUN_ABORTED: "run {id} ended", "已中止运行 {id}";
    RUN_ENDED_BEFORE: "run {id} had ended already ({state})", "运行 {id} 早已结束（{state}）";

    NO_CHANNELS: "No channels are configured. The simplest one is made of files: {program} config set channels.local.enabled true", "还没有配置通道。最简单的是文件通道：{program} config set channels.local.enabled true";
    CHANNEL_TITLES: "channel,account,state,since,restarts,last in,last out,last error", "通道,账号,状态,开始时间,重启,最近收到,最近发出,最近错误";
    CHANNELS_STOPPED: "The gateway does not run, so nothing is connected. Start it: {program} gateway run", "网关没有运行，因此没有连接。启动：{program} gateway run";
    CHANNEL_LIST_TITLES: "channel,account,enabled,details", "通道,账号,启用,详情";
    CHANNEL_NOT_YET: "channels.{channel} is configured, but this version has no connector for it", "已配置 channels.{channel}，但此版本还没有它的连接器";

    GATEWAY_LISTENS: "Tidegate {version} listens on {url}", "Tidegate {version} 正在监听 {url}";
    GATEWAY_HOME: "Home {home}, {channels}", "数据目录 {home}，{channels}";
    GATEWAY_NO_CHANNELS: "no channels", "没有通道";
    GATEWAY_STOP_HINT: "Ctrl-C stops it; runs under way get {seconds} s to end.", "Ctrl-C 停止；进行中的运行有 {seconds} 秒时间结束。";
    GATEWAY_DRAINING: "Stopping: runs under way get {seconds} s (once more to stop at once) …", "正在停止：进行中的运行有 {seconds} 秒时间（再按一次立即停止）…";
    GATEWAY_STOPPED: "Stopped. {count} run(s) go on at the next start.", "已停止。{count} 个运行将在下次启动时继续。";
    GATEWAY_IS_RUNNING: "a gateway runs in this home already: {holder}", "此数据目录已有网关在运行：{holder}";
    GATEWAY_IS_RUNNING_HINT: "Open its page with `{program} gateway link`, or stop it with `{program} gateway stop`", "用 `{program} gateway link` 打开页面，或用 `{program} gateway stop` 停止它";
    GATEWAY_NOT_RUNNING: "no gateway runs in this home", "此数据目录没有网关在运行";
    GATEWAY_NOT_RUNNING_HINT: "Start it: {program} gateway run", "启动：{program} gateway run";
    GATEWAY_FAILED: "the gateway cannot go on: {cause}", "网关无法继续：{cause}";
    GATEWAY_STOPPING: "asked process {pid} to stop; waiting for it …", "已要求进程 {pid} 停止，正在等待…";
    GATEWAY_GONE: "the gateway has stopped", "网关已停止";
    GATEWAY_STILL_THERE: "the gateway did not stop within {seconds} s", "网关没有在 {seconds} 秒内停止";
    GATEWAY_ALREADY_STOPPED: "gateway service already stopped", "网关没有在运行";
    INVALID_PORT: "Invalid value for --port: {value} (0 to 65535)", "--port 的值无效：{value}（0 到 65535）";
    UP_FIRST: "Welcome. A home was made at {home} with a configuration file to edit: {file}", "欢迎。已在 {home} 建立数据目录，配置文件为 {file}";
    UP_OFFLINE: "No model is configured yet, so the built-in offline model answers; nothing leaves this machine.", "尚未配置模型，由内置的离线模型回答；数据不会离开本机。";
    UP_LINK: "Open the page (this link works once, for 10 minutes):", "打开页面（此链接只能用一次，10 分钟内有效）：";
    UP_RUNNING: "A gateway runs in this home already, on {url}. To move it, stop it first.", "此数据目录已有网关在 {url} 运行。若要更换端口，请先停止它。";
    UP_NO_MODEL: "!! No question can be answered: {cause}. Until then: tidegate config unset agents.defaults.model", "!! 目前无法回答任何问题：{cause}。可先运行：tidegate config unset agents.defaults.model";
    NEEDS_RESTART: "note: the gateway that runs read its configuration at its start; restart it to use this", "注意：运行中的网关在启动时读取配置；重启后才会生效";
    CHANNELS_NOT_STARTED: "The gateway that runs was started without channels; restart it to use those that are configured now.", "运行中的网关启动时没有通道；重启后才会使用现在配置的通道。";
    BOOT_RESUMED: "{count} run(s) were under way when the last process ended; they go on", "上次进程结束时有 {count} 个运行未完成，现在继续";
    BOOT_UNDELIVERED: "{count} message part(s) were not delivered; see: {program} outbox list --state dead,unknown", "有 {count} 条消息未能送达；查看：{program} outbox list --state dead,unknown";
    BOOT_PART: "  {state}  {lane}  {reason}", "  {state}  {lane}  {reason}";

    STATUS_GATEWAY: "gateway", "网关";
    STATUS_VERSION: "version", "版本";
    STATUS_HOME: "home", "目录";
    STATUS_CONFIG: "config", "配置";
    STATUS_STORAGE: "storage", "存储";
    STATUS_SESSIONS: "sessions", "会话";
    STATUS_RUNS: "runs", "运行";
    STATUS_OUTBOX: "outbox", "发件箱";
    STATUS_HOLDER: "in use by", "使用者";
    STATUS_EMPTY: "nothing yet; begin with: {program} ask hello", "还没有数据；开始：{program} ask 你好";

    HELP_TAIL: "Global options:", "全局选项：";
    HELP_COMMANDS: "Commands:", "命令：";
    HELP_OPTIONS: "Options:", "选项：";
    HELP_MORE: "Details of a command: {program} <command> --help", "查看某个命令：{program} <命令> --help";
    HELP_LEAD: "Tidegate, a gateway to your AI agents", "Tidegate，你的 AI agent 网关";
    HELP_ENVIRONMENT: "Environment: TIDEGATE_HOME the home, TIDEGATE_LANG the language (en, zh-CN), NO_COLOR no colours", "环境变量：TIDEGATE_HOME 数据目录，TIDEGATE_LANG 语言（en、zh-CN），NO_COLOR 不用颜色";
    HELP_EXIT: "Exit codes: 0 done, 1 failed (the code in brackets on standard error says why), 130 and 143 ended by a signal", "退出码：0 成功，1 失败（标准错误输出中方括号内为错误码），130 与 143 被信号终止";

    E_STALE: "another owner took the session over; this run may not write any more", "会话已被其他进程接管，此运行不能再写入";
    E_IDEMPOTENCY: "the idempotency key was used before with another request", "该幂等键已用于另一请求";
    E_NOT_FOUND: "{detail} does not exist", "{detail} 不存在";
    E_SESSION_BUSY: "the session has a run that has not ended", "该会话有尚未结束的运行";
    E_FULL: "the disk is full: {detail}", "磁盘已满：{detail}";
    E_IO: "the disk failed: {detail}", "磁盘出错：{detail}";
    E_DAMAGED: "the database is damaged: {detail}", "数据库已损坏：{detail}";
    E_READ_ONLY: "the database cannot be written: {detail}", "数据库不可写：{detail}";
    E_NEWER: "the data has schema {found} and needs a release that knows schema {needed}; this one knows {known}", "数据为 schema {found}，需要支持 schema {needed} 的版本；此版本支持 {known}";
    E_EMPTY: "the database is not set up yet", "数据库尚未建立";
    E_UNAVAILABLE: "the database does not answer: {detail}", "数据库没有响应：{detail}";
    E_INTERNAL: "storage fault: {detail}", "存储故障：{detail}";
    E_CONFLICT: "the configuration changed since that hash was read; read it again (config validate --json shows the hash) and retry", "配置自读取该哈希后已改变；请重新读取（config validate --json 可见哈希）后重试";
    E_WAITED: "another run of this session has not ended after {ms} ms", "等待 {ms} 毫秒后，该会话的另一运行仍未结束";
    E_HOME_BUSY: "the home folder {path} is held by {holder}", "数据目录 {path} 正被占用：{holder}";
    E_PORT_IN_USE: "another program listens on {address}; choose another port with --port or `tidegate config set gateway.port <n>`", "{address} 已被其他程序占用；请用 --port 或 `tidegate config set gateway.port <n>` 另选端口";
    E_PORT: "cannot listen on {address}: {cause}; choose another with --port, gateway.port or gateway.bind", "无法监听 {address}：{cause}；请用 --port、gateway.port 或 gateway.bind 另选";
    E_TOKEN: "{path} does not hold a token; remove it and start again, a new one is made", "{path} 中没有令牌；请删除它并重新启动，会生成新的令牌";
    E_HOME_UNUSABLE: "{path} cannot be used: {cause}", "{path} 无法使用：{cause}";
    E_CLOSING: "the process that holds the home is shutting down; try again in a moment", "占用数据目录的进程正在关闭；请稍后重试";
    E_DEADLINE: "{detail}", "模型没有在时限内给出完整回答（{detail}）";
    E_ABORTED: "{detail}", "运行被中止（{detail}）";
    E_RUN: "{detail}", "运行失败：{detail}";

    HINT_HOME_BUSY: "Wait for it to end, or give this one a home of its own: --home <dir>", "请等它结束，或另用一个目录：--home <dir>";
    HINT_HOME_UNUSABLE: "Choose another folder with --home <dir> or TIDEGATE_HOME, or make it writable", "请用 --home <dir> 或 TIDEGATE_HOME 另选目录，或使其可写";
    HINT_DAMAGED: "Nothing was changed. Keep the file, move it away, and restore a copy (see backups/ in the home) or begin anew; docs/troubleshooting.md tells how", "没有改动任何内容。请保留并移开该文件，从备份恢复（见主目录下的 backups/）或重新开始；详见 docs/troubleshooting.md";
    HINT_FULL: "Free some space and try again; what was acknowledged before is safe", "请腾出空间后重试；先前已确认的内容都在";
    HINT_IO: "Check the disk and the system log, then try again; what was acknowledged before is read back at the next start", "请检查磁盘与系统日志后重试；先前已确认的内容会在下次启动时读回";
    HINT_READ_ONLY: "Make the home folder writable, or choose another with --home <dir>", "请使主目录可写，或用 --home <dir> 另选";
    HINT_NEWER: "Use the newer release that wrote it, or another home: --home <dir>", "请使用写入它的较新版本，或另用目录：--home <dir>";
    HINT_UNAVAILABLE: "Another process may hold the database; else check that it runs and, for Postgres, that storage.postgres.url is right", "数据库可能正被其他进程占用；否则请检查它是否在运行，若用 Postgres 请检查 storage.postgres.url";
    HINT_DEADLINE: "Give it more time with --timeout <seconds> or agents.defaults.timeoutSeconds", "可用 --timeout <秒> 或 agents.defaults.timeoutSeconds 延长时限";
    HINT_BUSY: "Another run of this session is under way; try again, or use another session: --session <name>", "该会话正有其他运行；请稍后重试，或用另一个会话：--session <name>";
    HINT_CONFIG: "Check the file with: {program} config validate", "请用以下命令检查：{program} config validate";
}

/// What a person can do about an error of this kind.
pub(crate) fn hint_for(code: ErrorCode) -> Option<Text> {
    Some(match code {
        ErrorCode::HomeBusy => HINT_HOME_BUSY,
        ErrorCode::HomeUnusable => HINT_HOME_UNUSABLE,
        ErrorCode::StorageDamaged => HINT_DAMAGED,
        ErrorCode::StorageFull => HINT_FULL,
        ErrorCode::StorageIo => HINT_IO,
        ErrorCode::StorageReadOnly => HINT_READ_ONLY,
        ErrorCode::StorageNewer => HINT_NEWER,
        ErrorCode::StorageUnavailable => HINT_UNAVAILABLE,
        ErrorCode::DeadlineExceeded => HINT_DEADLINE,
        ErrorCode::SessionBusy => HINT_BUSY,
        ErrorCode::ConfigSyntax | ErrorCode::ConfigInvalid | ErrorCode::ConfigInclude => HINT_CONFIG,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_languages_have_the_same_places_to_fill() {
        for (name, text) in ALL {
            assert_eq!(Text::places(text.en), Text::places(text.zh), "{name}");
            assert!(!text.en.is_empty() && !text.zh.is_empty(), "{name}");
        }
    }
}
