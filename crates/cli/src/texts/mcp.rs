//! What the command line says about MCP servers.

use tidegate_runtime::texts;

texts! {
    NO_SERVERS: "No MCP servers. Add one: {program} mcp add <name> -- <command…>, or {program} mcp add <name> --url <address>", "没有 MCP 服务器。添加：{program} mcp add <名称> -- <命令…>，或 {program} mcp add <名称> --url <地址>";
    SERVER_TITLES: "server,state,tools,restarts,how", "服务器,状态,工具,重启,方式";
    STARTING: "starting", "启动中";
    READY: "ready", "就绪";
    DISABLED: "off", "已停用";
    FAILED: "failed", "失败";
    ADDED: "{name} was added (revision {revision}). Try it: {program} mcp test {name}", "已添加 {name}（修订 {revision}）。测试：{program} mcp test {name}";
    REMOVED: "{name} was removed (revision {revision})", "已移除 {name}（修订 {revision}）";
    SERVER_THERE: "there is already a server {name}", "已有服务器 {name}";
    REMOVE_FIRST: "Remove it first: {program} mcp remove {name}", "请先移除：{program} mcp remove {name}";
    SERVER_NOT_THERE: "there is no MCP server {name}", "没有 MCP 服务器 {name}";
    SEE_SERVERS: "See: {program} mcp list", "查看：{program} mcp list";
    NEITHER: "a server is a command or an address: write `-- <command…>` behind the name, or --url", "服务器是命令或地址：在名称后写 `-- <命令…>`，或使用 --url";
    BOTH: "a server is a command or an address, not both", "服务器只能是命令或地址之一";
    NOT_A_PAIR: "--{flag} takes name=value", "--{flag} 的格式为 名称=值";
    NOT_FOR_THIS: "--{flag} means nothing for this kind of server", "--{flag} 不适用于这类服务器";
    IN_THE_FILE: "A value was written into the configuration as it is. Write ${NAME} instead to keep it in the environment.", "有值按原样写入了配置。写成 ${NAME} 可让它留在环境变量中。";
    CONNECTED: "{name} answers: {software}, protocol {version}, {count} tools", "{name} 已应答：{software}，协议 {version}，{count} 个工具";
    LEFT_OUT: "left out: {tool} ({why})", "已略去：{tool}（{why}）";
    NOT_CONNECTED: "{name} cannot be used: {why}", "{name} 无法使用：{why}";
    LAST_WORDS: "The end of its error output:", "其错误输出的结尾：";
    MODE_HINT: "Agents ask a person before each call. To let those run that only read: {program} config set mcp.servers.{name}.mode allow", "agent 每次调用前都会询问。允许只读工具直接运行：{program} config set mcp.servers.{name}.mode allow";
    OFFLINE: "Its sandbox reaches no host. If it fetches something when it starts (npx and uvx do), name the host: {program} config set mcp.servers.{name}.sandbox '{\"network\":\"allowlist\",\"allowHosts\":[\"registry.npmjs.org\"]}'", "其沙箱无法访问任何主机。如果它启动时要下载内容（npx、uvx 会），请指定主机：{program} config set mcp.servers.{name}.sandbox '{\"network\":\"allowlist\",\"allowHosts\":[\"registry.npmjs.org\"]}'";
    WANTS_LOGIN: "Sign in: {program} mcp login {name}", "请登录：{program} mcp login {name}";
    WANTS_SCOPE: "Sign in again, for more: {program} mcp login {name} --scope '{scope}'", "请重新登录以获得更多权限：{program} mcp login {name} --scope '{scope}'";
    SIGNED_IN: "You are signed in at {name} ({issuer}). Try it: {program} mcp test {name}", "已登录 {name}（{issuer}）。测试：{program} mcp test {name}";
    MAY_USE: "It allows: {scope}", "允许的范围：{scope}";
    NOT_RENEWED: "It ends {at} and cannot be renewed by itself.", "它在 {at} 到期，无法自动续期。";
    SIGNED_OUT: "The login at {name} was forgotten.", "已忘记 {name} 的登录。";
    NOT_SIGNED_IN: "there is no login at {name}", "没有 {name} 的登录";
    PROGRAM_NEEDS_NONE: "{name} is a program that runs here; there is nothing to sign in at", "{name} 是在本机运行的程序，无需登录";
    HEADER_STANDS: "{name} has an Authorization header in the configuration, which is used in place of a login", "{name} 在配置中有 Authorization 请求头，会代替登录使用";
    HEADER_REMOVE: "Remove it first: {program} config unset mcp.servers.{name}.headers", "请先移除：{program} config unset mcp.servers.{name}.headers";
    BEGIN_AGAIN: "Begin again: {program} mcp login {name}", "请重新开始：{program} mcp login {name}";
}
