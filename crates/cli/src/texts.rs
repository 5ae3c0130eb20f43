//! What the command line says, in both languages. Codes, keys and commands are never translated.

pub(crate) mod chat;
pub(crate) mod events;
pub(crate) mod gateway;
pub(crate) mod mcp;
pub(crate) mod runs;
pub(crate) mod sandbox;
pub(crate) mod sessions;
pub(crate) mod tools;

use tidegate_protocol::ErrorCode;
use tidegate_runtime::catalogue::Text;
use tidegate_runtime::texts;

texts! {
    UNKNOWN_COMMAND: "Unknown command: {word}", "未知命令：{word}";
    UNKNOWN_OPTION: "Unknown option: {word}", "未知选项：{word}";
    MISSING_VALUE: "Missing value for {name}", "缺少 {name} 的值";
    TAKES_VALUE: "Write --{name} <{value}>: {help}", "写作 --{name} <{value}>：{help}";
    MISSING_NAMED_ARGUMENT: "Missing argument: {name}", "缺少参数：{name}";
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
    IS_AN_API: "{api} is an api: give a provider of yours models.providers.<name>.api \"{api}\" and ask <name>", "{api} 是一种 api：请在配置中设置 models.providers.<名称>.api 为 \"{api}\"，再使用 <名称>";
    KNOWN_PROVIDERS: "Known: {known}. Others go under models.providers in the configuration.", "已知：{known}。其他的写在配置的 models.providers 下。";
    NO_PROFILE: "No {provider} profile found. Run: tidegate auth login {provider}", "没有 {provider} 的登录信息。请运行：tidegate auth login {provider}";
    NO_SUCH_PROFILE: "Profile {profile} not found for {provider}", "没有 {provider} 的凭据 {profile}";
    SEE_AUTH_STATUS: "See: {program} auth status", "查看：{program} auth status";
    SEE_MODELS: "See: {program} models list", "查看：{program} models list";
    MODEL_SWITCHED: "note: {model}{credential} could not be used: {message}; another one is asked", "注意：{model}{credential} 无法使用：{message}；改问下一个";
    OVER_BUDGET: "note: {message}", "注意：{message}";
    INVALID_THINKING: "Invalid value for --thinking: {value} (off, minimal, low, medium, high, xhigh)", "--thinking 的值无效：{value}（off、minimal、low、medium、high、xhigh）";
    UNKNOWN_MODEL: "{text} names no model: write provider/model, or an alias of agents.defaults.models", "{text} 不是模型：请写 provider/model 或 agents.defaults.models 中的别名";
    NOT_LISTED: "{model} is not one of the models in agents.defaults.models", "{model} 不在 agents.defaults.models 列出的模型中";
    POLICY_DENIED: "policy forbids it ({stage}): {rule}", "规则不允许（{stage}）：{rule}";
    UNKNOWN_PRICE: "nobody knows what {model} costs, and a budget in dollars must not be exceeded; give its cost in models.providers", "{model} 的价格未知，而美元预算不得超出；请在 models.providers 中设置其价格";
    USE_OFFLINE: "To get an answer now: --provider offline", "现在就要回答，请用：--provider offline";
    NO_MEMORY_YET: "--memory is not available in this version; leave it out or use --no-memory", "此版本还没有 --memory；请去掉它或使用 --no-memory";
    NO_OFFLINE_PROFILE: "--profile names a login, and the offline model has none", "--profile 指定登录信息，而离线模型不需要登录";
    INVALID_SESSION: "--session takes a name of 1 to {most} bytes", "--session 的名称须为 1 到 {most} 字节";
    INVALID_TIMEOUT: "Invalid value for --timeout: {value} (seconds, more than 0)", "--timeout 的值无效：{value}（单位为秒，须大于 0）";
    NO_SUCH_AGENT: "there is no agent {name}; known: {known}", "没有名为 {name} 的 agent；已有：{known}";
    INTERRUPTED_RUNS: "note: {count} earlier run(s) ended before they could answer; see: {program} runs list --state interrupted", "注意：{count} 个先前的运行没有来得及回答就结束了；查看：{program} runs list --state interrupted";

    MISSING_SUBCOMMAND: "Missing {word} subcommand.", "缺少 {word} 的子命令。";
    TAKES_NO_VALUE: "--{name} takes no value", "--{name} 不带值";

    UNSUPPORTED_AUTH_PROVIDER: "Unsupported auth provider: {provider}", "不支持登录的模型提供方：{provider}";
    KEY_ON_COMMAND_LINE: "a key does not belong on the command line, where the shell's history and other programs can read it; if this was one, make a new one", "密钥不应写在命令行上：shell 历史和其他程序都能读到；若刚才写的是密钥，请换一个新的";
    KEY_FROM_STDIN: "It is asked for in a terminal, or read with --stdin: {program} auth login <provider> --stdin < file", "可在终端中输入，或用 --stdin 读取：{program} auth login <提供方> --stdin < 文件";
    NOBODY_TO_ASK: "there is no terminal to ask for the key of {provider}", "没有终端可以输入 {provider} 的密钥";
    KEY_QUESTION: "Key for {name} (it is not shown): ", "{name} 的密钥（不显示）：";
    WHERE_KEYS_ARE: "Keys for {name}: {url}", "{name} 的密钥在此获取：{url}";
    NO_KEY_GIVEN: "no key was given; nothing is stored", "没有输入密钥；未保存任何内容";
    NOT_A_KEY: "that is not a key: it has blanks, line breaks or other characters no key has; nothing is stored", "这不是密钥：含有空格、换行或密钥不会有的字符；未保存任何内容";
    PROFILE_EXISTS: "there is a credential {id} already", "已有凭据 {id}";
    PROFILE_EXISTS_HINT: "Replace it with --yes, or keep both with --name <name>", "用 --yes 替换，或用 --name <名称> 另存";
    REPLACE_QUESTION: "Replace the credential {id}? [y/N] ", "替换凭据 {id}？[y/N] ";
    NOTHING_STORED: "nothing was stored", "没有保存任何内容";
    LOGIN_CANCELLED: "cancelled; nothing is stored", "已取消；未保存任何内容";
    PROFILE_CREATED: "Auth profile created: {id}", "已创建登录信息：{id}";
    CREDENTIAL_EXPIRES: "Credential expires: {at}", "凭据到期时间：{at}";
    TRY_IT: "See that it works: {program} models test {provider}", "试一下：{program} models test {provider}";
    LOGIN_NEEDS_TERMINAL: "ERROR: {provider} login requires an interactive terminal.", "ERROR: {provider} 的登录需要交互式终端。";
    NO_CLIENT_ID: "no client id is set for {provider}", "没有设置 {provider} 的客户端编号";
    NO_CLIENT_ID_HINT: "Set one that you may use: {program} config set auth.clients.{provider}.clientId <id>", "请设置你有权使用的编号：{program} config set auth.clients.{provider}.clientId <编号>";
    CLIENT_ID_WHERE: "A login at {name} names the program that asks. Tidegate brings no such client id: use one that you registered or may use. To keep it: auth.clients.{provider}.clientId in the configuration.", "在 {name} 登录需要说明是哪个程序。Tidegate 不自带客户端编号：请用你注册的或有权使用的。可保存在配置的 auth.clients.{provider}.clientId。";
    CLIENT_ID_QUESTION: "Client id: ", "客户端编号：";
    LOGIN_OPEN: "Open this address in a browser:", "请在浏览器中打开：";
    LOGIN_CODE: "and type this code there:", "并输入此代码：";
    LOGIN_PASTE: "If the browser does not come back by itself, paste the address it ended at: ", "若浏览器没有自动返回，请粘贴最后停留的地址：";
    LOGIN_AGAIN: "Nothing was stored. Begin again: {program} auth login", "未保存任何内容。请重新开始：{program} auth login";
    NO_AUTH_PROFILES: "No auth profiles configured.", "没有登录信息。";
    AUTH_HINT: "Hint: run \"{program} auth login openai-codex\"", "提示：运行 \"{program} auth login openai-codex\"";
    AUTH_PROFILES: "Auth profiles:", "登录信息：";
    PROFILE_FILE: "Profile file: {file}", "文件：{file}";
    ACTIVE_PROFILE: "Active profile: {id}", "当前使用：{id}";
    AUTH_UNREADABLE: "unreadable: {reason}", "无法读取：{reason}";
    AUTH_ENVIRONMENT: "Keys in environment variables:", "环境变量中的密钥：";
    AUTH_CONFIGURED: "Keys in the configuration:", "配置中的密钥：";
    AUTH_RESTING: "Left alone for now:", "暂不使用：";
    AUTH_NOTICE: "note: {notice}", "注意：{notice}";
    PROFILE_NOT_FOUND: "ERROR: Profile {name} not found", "ERROR: 没有登录信息 {name}";
    PROFILE_CHOSEN: "Active profile set: {id}", "当前使用：{id}";
    PROFILE_REMOVED: "Profile removed: {id}", "已删除：{id}";
    PROFILES_REMOVED: "All auth profiles removed.", "已删除所有登录信息。";
    NO_ACTIVE_PROFILE: "No active profile to remove.", "没有当前使用的登录信息可删除。";
    LOGOUT_ALL_OR_ONE: "--all removes every profile; name one or use --all, not both", "--all 会删除全部；请指定一个或使用 --all，不要同时使用";
    NOTHING_TO_IMPORT: "there is no profile in {file} that can be read", "{file} 中没有可读取的登录信息";
    PROFILE_IMPORTED: "Profile imported: {id}", "已导入：{id}";
    PROFILE_NOT_IMPORTED: "left as it is, there is one of that name: {id}", "已有同名的，保持不变：{id}";
    IMPORT_KEEPS_FILE: "{file} still holds them in the clear; remove it when you no longer need it", "{file} 中仍有明文；不再需要时请删除";
    NO_KEY_YET: "There is no key yet; the first credential makes one: {program} auth login <provider>", "还没有密钥；保存第一个凭据时会生成：{program} auth login <提供方>";
    KEY_ROTATED: "A new key seals the credentials ({place}): {count} sealed anew, the old one is gone", "已换用新密钥（{place}）：重新加密 {count} 个，旧密钥已删除";
    NOT_RESEALED: "note: {id} could not be opened; it is as it was, and so is its key", "注意：{id} 无法打开；它和它的密钥保持原样";

    NO_MODELS: "No provider has a credential yet, so the built-in offline model answers. Get a real one: {program} auth login anthropic (or openai, google, …). Everything that is known: {program} models list --all", "还没有任何凭据，由内置的离线模型回答。使用真实模型：{program} auth login anthropic（或 openai、google 等）。查看全部：{program} models list --all";
    NO_MODELS_KNOWN: "No models of {provider} are known by name; any works, as {provider}/<model>", "没有 {provider} 的模型名单；可直接写 {provider}/<模型>";
    MODEL_TITLES: "model,name,context,in / out per million,can,credential,alias,answers as", "模型,名称,上下文,每百万输入 / 输出,能力,凭据,别名,用作";
    THINKS: "thinks", "思考";
    SEES: "images", "图像";
    PRIMARY: "primary", "首选";
    FALLBACK_N: "fallback {n}", "备用 {n}";
    YES: "yes", "有";
    NO: "no", "无";
    FREE: "free", "免费";
    MODEL_SET: "{model} answers from now on: {path} set (revision {revision})", "今后由 {model} 回答：已设置 {path}（第 {revision} 版）";
    MODEL_WITHOUT_CREDENTIAL: "note: there is no credential for {provider} yet; run: {program} auth login {provider}", "注意：还没有 {provider} 的凭据；请运行：{program} auth login {provider}";
    MODEL_UNKNOWN: "note: {model} is not known by name; it is asked for as it is written", "注意：名单中没有 {model}；将按原样使用";
    MODEL_UNKNOWN_NEAR: "note: {model} is not known by name; it is asked for as it is written. Did you mean {meant}?", "注意：名单中没有 {model}；将按原样使用。是不是想用 {meant}？";
    AGENT_ELSEWHERE: "the agent {agent} is not in {file} itself; change it in the file that is included", "{file} 本身没有 agent {agent}；请在被引用的文件中修改";
    NO_FALLBACKS: "No fallbacks: when the model fails, nobody stands in. Add one: {program} models fallbacks add <model>", "没有备用模型：首选失败时无人接替。添加：{program} models fallbacks add <模型>";
    FALLBACK_THERE: "{model} is a fallback already", "{model} 已是备用模型";
    FALLBACK_NOT_THERE: "{model} is not a fallback", "{model} 不是备用模型";
    FALLBACKS_SET: "fallbacks: {list} (revision {revision})", "备用模型：{list}（第 {revision} 版）";
    FALLBACKS_CLEARED: "no fallbacks any more (revision {revision})", "已没有备用模型（第 {revision} 版）";
    FALLBACK_WITHOUT_PRIMARY: "note: no model is set, so the first fallback answers; set one: {program} models set <model>", "注意：没有设置首选模型，由第一个备用模型回答；请设置：{program} models set <模型>";
    MODELS_OF: "Models of agent {agent}, in the order in which they are tried", "agent {agent} 的模型（按尝试顺序）";
    MODEL_ALLOWED: "allowed", "允许使用";
    MODEL_DENIED: "not used: {reason}", "不使用：{reason}";
    MODEL_NO_CREDENTIAL: "no credential; run: {program} auth login {provider}", "没有凭据；请运行：{program} auth login {provider}";
    COOLING: "cooling down until {until} ({reason})", "冷却至 {until}（{reason}）";
    KIND_LOGIN: "login", "登录";
    KIND_TOKEN: "token", "令牌";
    KIND_KEY: "key", "密钥";
    KIND_ENVIRONMENT: "environment variable", "环境变量";
    KIND_CONFIGURED: "configuration", "配置";
    KIND_NONE: "needs none", "无需凭据";
    THINKING: "thinking", "思考程度";
    LIMIT_RUN: "a run may take", "每次运行时限";
    LIMIT_CALL: "a call may take", "每次调用时限";
    LIMIT_ANSWER: "tokens of an answer", "回答的最大词元数";
    LIMIT_COST: "a run may cost", "每次运行费用上限";
    BUDGETS: "Budgets", "预算";
    NO_BUDGETS: "No budgets are set.", "没有设置预算。";
    BUDGET_TOKENS: "{used} / {limit} tokens", "{used} / {limit} 词元";
    BUDGET_HARD: "refuses what does not fit", "超出即拒绝";
    BUDGET_SOFT: "only says so", "仅提示";
    ONLY_OFFLINE: "Only the built-in model answers. Get a real one: {program} auth login anthropic, then {program} models set <model>", "只有内置模型回答。使用真实模型：{program} auth login anthropic，然后 {program} models set <模型>";

    TEST_OK: "{model} answers", "{model} 可以回答";
    TEST_SAID: "it said", "回答";
    TEST_CREDENTIAL: "credential", "凭据";
    TEST_TOOK: "took", "用时";
    TEST_TOKENS: "tokens", "词元";
    TOKENS_IN_OUT: "{in} in, {out} out", "输入 {in}，输出 {out}";
    TEST_COST: "cost", "费用";
    COST_UNKNOWN: "nobody knows its price; give it in models.providers", "价格未知；可在 models.providers 中设置";
    TEST_ESTIMATED: "note: the provider did not say how many tokens it took; they are counted from the characters", "注意：提供方没有报告词元数；按字符估算";
    TEST_PASSED_OVER: "note: before that: {cause}", "注意：在此之前：{cause}";
    VERDICT_PLAIN: "{detail}", "{detail}";
    VERDICT_AUTH: "{provider} does not accept the credential {profile}: it is wrong, has ended, or may not use {model}. It says: {detail}", "{provider} 不接受凭据 {profile}：密钥有误、已失效或无权使用 {model}。对方回应：{detail}";
    VERDICT_BILLING: "the account behind {profile} has no credit at {provider}, or its plan has ended. It says: {detail}", "{profile} 在 {provider} 的账户没有余额或套餐已结束。对方回应：{detail}";
    VERDICT_NO_MODEL: "{provider} has no model {model}, or not for this account. It says: {detail}", "{provider} 没有模型 {model}，或此账户不能使用。对方回应：{detail}";
    VERDICT_RATE: "{provider} takes no more requests of {profile} for now. It says: {detail}", "{provider} 暂时不再接受 {profile} 的请求。对方回应：{detail}";
    VERDICT_RATE_UNTIL: "{provider} takes no more requests of {profile} until {until}. It says: {detail}", "{provider} 在 {until} 之前不再接受 {profile} 的请求。对方回应：{detail}";
    VERDICT_OVERLOADED: "{provider} has too much to do right now. It says: {detail}", "{provider} 目前过载。对方回应：{detail}";
    VERDICT_TIMEOUT: "{provider} did not answer in time: {detail}", "{provider} 没有及时回答：{detail}";
    VERDICT_FORMAT: "{provider} does not understand the request. It says: {detail}", "{provider} 不理解请求。对方回应：{detail}";
    VERDICT_BROKEN: "no proper answer came from {provider}: {detail}", "{provider} 没有正常回答：{detail}";
    HINT_LOG_IN: "Store another one: {program} auth login {provider}", "保存新的凭据：{program} auth login {provider}";
    HINT_BILLING: "Pay there, or use another credential with --profile; until then this one is left alone", "请在对方充值，或用 --profile 换一个凭据；在此之前不会使用它";
    HINT_NO_MODEL: "See: {program} models list --provider {provider}", "查看：{program} models list --provider {provider}";
    HINT_ANOTHER: "Wait, use another credential, or let another model stand in: {program} models fallbacks add <model>", "请稍候、换一个凭据，或添加备用模型：{program} models fallbacks add <模型>";
    HINT_TIMEOUT: "Is models.providers.{provider}.baseUrl right, and the server awake? A slow one gets more time with models.idleTimeoutSeconds", "models.providers.{provider}.baseUrl 是否正确、服务器是否在运行？较慢的可增大 models.idleTimeoutSeconds";
    HINT_FORMAT: "Does models.providers.{provider}.api name the format the server speaks? docs/models.md has more", "models.providers.{provider}.api 是否与服务器的格式一致？详见 docs/models.md";
    HINT_SERVER: "The server itself failed; try again, or look into its log if it is yours", "服务器自身出错；请重试，若是你的服务器请查看其日志";
    HINT_UNRESOLVED: "Is the name in models.providers.{provider}.baseUrl right, and is this machine connected?", "models.providers.{provider}.baseUrl 中的域名是否正确？本机是否联网？";
    HINT_TLS: "The connection is not to be trusted: look at the clock of this machine, a proxy in between, or the server's certificate", "连接不可信：请检查本机时钟、中间的代理或服务器证书";
    HINT_NO_TLS: "What listens there seems to speak no TLS; is it http:// instead of https:// in models.providers.{provider}.baseUrl?", "该地址似乎不使用 TLS；models.providers.{provider}.baseUrl 是否应为 http:// 而非 https://？";
    HINT_REFUSED: "Nothing listens there. Does the server run, and is the port in models.providers.{provider}.baseUrl right?", "该地址没有服务。服务器是否在运行、models.providers.{provider}.baseUrl 的端口是否正确？";
    HINT_WEB_PAGE: "The address leads to a web page; is models.providers.{provider}.baseUrl the API's address, with its path (often /v1)?", "该地址是网页；models.providers.{provider}.baseUrl 是否为 API 地址（通常以 /v1 结尾）？";
    HINT_NETWORK: "Look at the network, a proxy in between, and models.providers.{provider}.baseUrl", "请检查网络、中间的代理以及 models.providers.{provider}.baseUrl";

    NO_USAGE: "No model was called in the last {days} day(s). Ask something: {program} ask hello", "最近 {days} 天没有调用模型。提个问题：{program} ask 你好";
    USAGE_TITLES: "group,calls,in,out,cache read,cache write,cost,", "分组,调用,输入,输出,缓存读取,缓存写入,费用,";
    USAGE_DAY: "day", "日期";
    USAGE_MODEL: "model", "模型";
    USAGE_SESSION: "session", "会话";
    USAGE_AGENT: "agent", "agent";
    USAGE_TOTAL: "total", "合计";
    USAGE_NO_SESSION: "(no session)", "（无会话）";
    USAGE_ESTIMATED: "note: the providers of {count} call(s) did not say how many tokens they took; those are counted from the characters", "注意：{count} 次调用的提供方没有报告词元数；按字符估算";
    USAGE_UNPRICED: "note: nobody knows what these cost, so they count as nothing: {models}. Give the price in models.providers", "注意：以下模型价格未知，按零计：{models}。可在 models.providers 中设置价格";
    INVALID_BY: "Invalid value for --by: {value} (day, model, session or agent)", "--by 的值无效：{value}（day、model、session 或 agent）";
    INVALID_DAYS: "Invalid value for --days: {value} (a whole number from 1 to 400)", "--days 的值无效：{value}（1 到 400 的整数）";

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
    SESSION_TITLES: "session,id,messages,last used,route,title", "会话,编号,消息数,最近使用,路由,标题";
    DELETE_QUESTION: "Delete session {name} for good: {messages} messages, and its runs? [y/N] ", "确定永久删除会话 {name}（{messages} 条消息，以及其运行记录）？[y/N] ";
    DELETE_ALL_QUESTION: "Delete session {name} and its {count} earlier conversation(s) for good: {messages} messages in all, and their runs? [y/N] ", "确定永久删除会话 {name} 及其 {count} 段旧对话（共 {messages} 条消息，以及其运行记录）？[y/N] ";
    DELETE_OLD: "{id} is an earlier conversation of the session {name}; deleting takes a whole session: sessions delete {name}", "{id} 是会话 {name} 的旧对话；删除以整个会话为单位：sessions delete {name}";
    WAITING: "waiting for {holder} …", "正在等待 {holder} …";
    HOME_AND_INSTANCE: "--home and --instance both choose the home; use one of them", "--home 与 --instance 都用于选择目录，请只用其一";
    MEANT_ASK: "To ask something: {program} ask '<question>'", "要提问，请用：{program} ask '<问题>'";
    DELETE_NEEDS_YES: "deleting cannot be undone: confirm with --yes", "删除无法撤销：请用 --yes 确认";
    DELETED: "deleted session {name}", "已删除会话 {name}";
    DELETED_ALL: "deleted session {name} and its {count} earlier conversation(s)", "已删除会话 {name} 及其 {count} 段旧对话";
    NOT_DELETED: "nothing was deleted", "没有删除任何内容";
    EXPORTED: "wrote {file}", "已写入 {file}";

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
    NO_SERVICES: "No services are configured (key services).", "还没有配置服务（键 services）。";
    SERVICE_LIST_TITLES: "service,enabled,command", "服务,启用,命令";
    SERVICE_TITLES: "service,state,since,restarts,pid,last error", "服务,状态,开始时间,重启,pid,最近错误";
    SERVICES_STOPPED: "The gateway does not run, so no service does. Start it: {program} gateway run", "网关没有运行，因此服务也没有运行。启动：{program} gateway run";
    SERVICE_RESTARTS: "{name} is started anew.", "正在重新启动 {name}。";
    SERVICE_SAID_NOTHING: "{name} has written nothing.", "{name} 还没有任何输出。";
    NO_SUCH_SERVICE: "There is no service {name}. See: {program} services list", "没有服务 {name}。查看：{program} services list";
    CHANNEL_NOT_YET: "channels.{channel} is configured, but this version has no connector for it", "已配置 channels.{channel}，但此版本还没有它的连接器";

    GATEWAY_LISTENS: "Tidegate {version} listens on {url}", "Tidegate {version} 正在监听 {url}";
    GATEWAY_HOME: "Home {home}, {channels}", "数据目录 {home}，{channels}";
    GATEWAY_NO_CHANNELS: "no channels", "没有通道";
    GATEWAY_STOP_HINT: "Ctrl-C stops it; runs under way get {seconds} s to end.", "Ctrl-C 停止；进行中的运行有 {seconds} 秒时间结束。";
    GATEWAY_DRAINING: "Stopping: runs under way get {seconds} s (once more to stop at once) …", "正在停止：进行中的运行有 {seconds} 秒时间（再按一次立即停止）…";
    GATEWAY_STOPPED: "Stopped. {count} run(s) go on at the next start.", "已停止。{count} 个运行将在下次启动时继续。";
    GATEWAY_IS_RUNNING: "a gateway runs in this home already: {holder}", "此数据目录已有网关在运行：{holder}";
    GATEWAY_IS_RUNNING_HINT: "Open its page with `{program} gateway link`, or stop it with `{program} gateway stop`", "用 `{program} gateway link` 打开页面，或用 `{program} gateway stop` 停止它";
    CHAT_HOLDS_HOME: "an open chat holds the home folder {path}: {holder}", "打开着的 chat 正占用数据目录 {path}：{holder}";
    CHAT_HOLDS_HOME_HINT: "Leave it with Ctrl+D, then start the gateway; a chat that is opened after that joins the gateway. Or give this one a home of its own: --home <dir>", "请用 Ctrl+D 离开 chat，再启动网关；之后打开的 chat 会接入网关。也可另用一个目录：--home <dir>";
    HOME_HELD: "note: {holder} holds this home; a gateway can start once it is left", "注意：{holder} 正占用此数据目录；它结束后网关才能启动";
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
    NEEDS_RESTART: "note: the gateway that runs read its configuration at its start; `tidegate gateway restart` makes it take this", "注意：运行中的网关在启动时读取配置；运行 `tidegate gateway restart` 后才会生效";
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
    STATUS_LANE: "lane {lane}", "车道 {lane}";
    STATUS_PLACES: "{running} of {limit} places taken, {waiting} waiting", "已占用 {running}/{limit} 个位置，{waiting} 个等待";
    STATUS_PLACES_SINCE: "{running} of {limit} places taken, {waiting} waiting, the first for {seconds} s", "已占用 {running}/{limit} 个位置，{waiting} 个等待，最早的已等待 {seconds} 秒";
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
    E_OWN_STATE: "Tools cannot work in {path}: it is part of the gateway's own state, which no tool may reach. Go to another folder (cd) and try again.", "工具不能在 {path} 中工作：它属于网关自身的数据，任何工具都不得访问。请切换到其他目录（cd）后重试。";
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
    HINT_MODEL: "See what is wrong: {program} models test. To get an answer now: --provider offline", "查看原因：{program} models test。现在就要回答，请用：--provider offline";
    HINT_MODEL_RULES: "Rules and budgets of each model: {program} models status", "查看各模型的规则与预算：{program} models status";
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
        ErrorCode::ModelUnavailable => HINT_MODEL,
        ErrorCode::PolicyDenied | ErrorCode::BudgetExceeded => HINT_MODEL_RULES,
        ErrorCode::ConfigSyntax | ErrorCode::ConfigInvalid | ErrorCode::ConfigInclude => HINT_CONFIG,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_languages_have_the_same_places_to_fill() {
        for (name, text) in ALL
            .iter()
            .chain(chat::ALL)
            .chain(events::ALL)
            .chain(gateway::ALL)
            .chain(runs::ALL)
            .chain(sessions::ALL)
            .chain(tools::ALL)
        {
            assert_eq!(Text::places(text.en), Text::places(text.zh), "{name}");
            assert!(!text.en.is_empty() && !text.zh.is_empty(), "{name}");
        }
    }
}
