//! What the command line says about tools and approvals.

use tidegate_runtime::texts;

texts! {
    RULES_UNUSABLE: "the rules about tools cannot be used: {problem}", "工具规则无法使用：{problem}";
    TOOL_NOT_FOUND: "Tool not found: {name}", "没有这个工具：{name}";
    INVALID_ARGS: "Invalid --args json: {cause}", "--args 不是有效的 JSON：{cause}";
    NO_SUCH_FOLDER: "there is no folder {path}", "没有目录 {path}";
    TOOL_TITLES: "tool,risk,for {agent},what it does", "工具,风险,对 {agent},用途";
    ALLOWED: "allowed", "允许";
    ASKS: "asks", "需批准";
    DENIED: "denied", "拒绝";
    RISK_READ: "read", "读取";
    RISK_WRITE: "write", "写入";
    RISK_NETWORK: "network", "网络";
    RISK_EXECUTE: "execute", "执行";
    SEE_TOOLS: "See: {program} tools list", "查看：{program} tools list";
    NO_TOOLS: "Policy leaves the agent {agent} no tools. Why: {program} tools explain <tool>", "策略没有给 agent {agent} 留下任何工具。原因：{program} tools explain <工具>";
    INFO_NAME: "tool", "工具";
    INFO_ALIASES: "also called", "别名";
    INFO_RISK: "risk", "风险";
    INFO_AGAIN: "run twice", "重复执行";
    AGAIN_SAME: "the same as once", "与一次相同";
    AGAIN_DIFFERS: "not the same as once", "与一次不同";
    INFO_TIMEOUT: "may take", "时限";
    OWN_TIME: "as long as it needs; it keeps its own time", "自行控制时间";
    INFO_VERDICT: "for {agent}", "对 {agent}";
    INFO_ARGUMENTS: "Arguments", "参数";
    NO_ARGUMENTS: "It takes no arguments.", "没有参数。";
    ARGUMENT_TITLES: "name,type,default,meaning", "名称,类型,默认值,含义";
    REQUIRED: "required", "必需";

    EXPLAIN_ALLOW: "{tool} is allowed for agent {agent}", "agent {agent} 可以使用 {tool}";
    EXPLAIN_ASK: "{tool} asks a person first for agent {agent}", "agent {agent} 使用 {tool} 须先经人批准";
    EXPLAIN_DENY: "{tool} is denied for agent {agent}", "agent {agent} 不能使用 {tool}";
    EXPLAIN_RULE: "decided by", "决定规则";
    EXPLAIN_STAGE: "stage", "阶段";
    EXPLAIN_REASON: "why", "原因";
    EXPLAIN_SAVED: "an approval can be saved", "批准可以保存";
    EXPLAIN_TOUCHES: "it touches", "涉及";
    EXPLAIN_RUNS: "it runs", "运行";
    EXPLAIN_SHELL: "a shell reads it: {reason}", "由 shell 解释：{reason}";
    EXPLAIN_TRAIL: "What each stage says, the strictest counts:", "各阶段的意见（取最严格者）：";
    EXPLAIN_TITLES: "stage,verdict,rule", "阶段,结论,规则";
    EXPLAIN_WITHOUT_ARGS: "This is about the tool as such. Rules may say more about a call: --args '{…}'", "以上针对工具本身；具体调用可能另有规则：--args '{…}'";

    NO_SUCH_APPROVAL: "there is no question {id}; see: {program} approvals list --all", "没有编号为 {id} 的请求；查看：{program} approvals list --all";
    AMBIGUOUS_APPROVAL: "several questions begin with {id}; write more of it", "有多个请求以 {id} 开头；请多写几位";
    NOTHING_PENDING: "Nothing waits for an answer. What was asked before: {program} approvals list --all", "没有等待批准的请求。查看以前的：{program} approvals list --all";
    NO_APPROVALS: "Nothing was ever asked.", "还没有任何请求。";
    APPROVAL_TITLES: "id,state,expires in,agent,tool,what", "编号,状态,剩余时间,agent,工具,内容";
    Q_TOOL: "tool", "工具";
    Q_ID: "id", "编号";
    Q_STATE: "state", "状态";
    Q_WHO: "asked by", "请求者";
    Q_REASON: "why it is asked", "须批准的原因";
    Q_EXPIRES: "expires", "到期";
    Q_CWD: "in", "目录";
    Q_ENV: "with", "环境变量";
    Q_TOUCHES: "touches", "涉及";
    Q_ANSWERED: "answered by", "答复者";
    Q_ANSWER_REASON: "who said", "理由";
    Q_SHELL: "A shell reads this script, which could not be taken apart:", "由 shell 执行以下脚本（无法逐条解析）：";
    Q_COMMANDS: "It runs exactly this:", "将执行：";
    Q_ARGS: "Arguments:", "参数：";
    Q_PREVIEW: "What changes:", "改动：";
    Q_RULE: "Allowing it for good saves this rule:", "始终允许将保存此规则：";

    WAITS_FOR_ANSWER: "It has to be approved: {program} approvals approve {id}", "须经批准：{program} approvals approve {id}";
    CHOICE: "Allow it? y once, n no: ", "允许吗？y 一次，n 拒绝：";
    CHOICE_OR_ALWAYS: "Allow it? y once, a always (saves the rule above), n no: ", "允许吗？y 一次，a 始终（保存以上规则），n 拒绝：";
    WHY_NOT: "Why not? (told to the model; may be empty) ", "理由？（会告知模型，可留空）";
    OWN_CALL: "whoever made the call may not approve it (approvals.selfApproval)", "发起者不能批准自己的调用（approvals.selfApproval）";
    CANNOT_BE_SAVED: "no rule can be saved for this call; approve it once", "此调用无法保存规则；请只批准一次";
    GONE_APPROVAL: "there is no question {id} any more", "请求 {id} 已不存在";
    PREFIX_WITHOUT_ALWAYS: "--prefix goes with --always", "--prefix 须与 --always 合用";
    APPROVED: "approved, once: {tool}", "已批准一次：{tool}";
    APPROVED_ALWAYS: "approved, and from now on without asking: {tool}. See: approvals allowlist", "已批准，今后不再询问：{tool}。查看：approvals allowlist";
    DENIED_CALL: "denied: {tool}", "已拒绝：{tool}";
    SETTLED_BEFORE: "{id} was settled before: it is {state}", "{id} 此前已处理：状态为 {state}";
    NO_RULES: "Nothing was allowed for good.", "没有始终允许的规则。";
    RULE_TITLES: "id,agent,tool,rule,saved by,last used", "编号,agent,工具,规则,保存者,最近使用";
    NO_SUCH_RULE: "there is no rule {id}; see: {program} approvals allowlist", "没有规则 {id}；查看：{program} approvals allowlist";
    AMBIGUOUS_RULE: "several rules begin with {id}; write more of it", "有多条规则以 {id} 开头；请多写几位";
    RULE_ADDED: "saved {id}: {rule}", "已保存 {id}：{rule}";
    RULE_REMOVED: "removed: {id}", "已删除：{id}";
}
