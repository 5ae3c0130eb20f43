//! What the command line says about sandboxes.

use tidegate_runtime::texts;

texts! {
    BARE: "WARNING: nothing holds the programs that agent {agent} starts: they have all your rights on this machine ({key}). To hold them again: {way}", "警告：agent {agent} 启动的程序没有任何隔离，拥有你在本机的全部权限（{key}）。恢复隔离：{way}";
    STATUS_SANDBOX: "sandbox", "沙箱";
    STATUS_BARE: " (programs have all your rights)", "（程序拥有你的全部权限）";
    TITLES: "profile,backend,state,what it is or why not", "配置,后端,状态,说明或原因";
    WORKS: "works", "可用";
    FAILS: "does not", "不可用";
    USED: "Agent {agent} uses the profile {profile} ({key}).", "agent {agent} 使用配置 {profile}（{key}）。";
    USED_FAILS: "Agent {agent} is to use the profile {profile} ({key}), and nothing here makes it true: its programs are refused.", "agent {agent} 应使用配置 {profile}（{key}），但本机没有可用的后端：其程序会被拒绝。";
    INVALID_PROFILE: "Invalid value for --profile: {value} (none, local, container, microvm)", "--profile 的值无效：{value}（none、local、container、microvm）";
    HELD: "sandbox: {profile}; folder {folder} ({access}); network {network}; at most {memory}, {processes}, {disk}", "沙箱：{profile}；目录 {folder}（{access}）；网络 {network}；上限 {memory}、{processes}、{disk}";
    ENDED: "sandbox: {end}", "沙箱：{end}";
    ENDED_CODE: "it ended with exit code {code}", "以退出码 {code} 结束";
    ENDED_SIGNAL: "it was ended by signal {signal}", "被信号 {signal} 结束";
    ENDED_LIMIT: "it was killed: it used more than {limit}", "已终止：超出上限 {limit}";
    ENDED_KILLED: "it was killed", "已终止";
    REFUSED: "sandbox: it was refused:", "沙箱：被拒绝的操作：";
    REFUSED_NOTHING: "sandbox: nothing was refused", "沙箱：没有操作被拒绝";
    REFUSED_UNSEEN: "sandbox: what was refused cannot be seen in the profile {profile}; the program's own errors say it", "沙箱：配置 {profile} 下无法观察被拒绝的操作，请看程序自己的错误信息";
    REFUSED_LINE: "  {what}: {error} ({by})", "  {what}：{error}（{by}）";
    REFUSED_CHANGE: "{call} {path}, to change it", "{call} {path}（写入）";
    BY_ACCESS: "{key}: \"rw\" allows it", "{key}: \"rw\" 可允许";
    BY_FOLDER: "outside of what programs see and may change; only {key}: \"none\" opens it", "不在程序可见、可写的范围内；只有 {key}: \"none\" 会放开";
    BY_NETWORK: "{key} decides about it", "由 {key} 决定";
    BY_PROFILE: "no key allows it in this profile ({key})", "此配置下没有任何键可允许（{key}）";
    REFUSED_HOST: "  {host}: {why}", "  {host}：{why}";
    MOST_MEMORY: "{n} MB of memory", "{n} MB 内存";
    MOST_PROCESSES: "{n} processes", "{n} 个进程";
    MOST_DISK: "{n} MB on disks", "{n} MB 磁盘写入";
    CANNOT_BE: "As configured no program starts: {why}", "按此配置，任何程序都不会启动：{why}";
    LOOKING: "Trying what this machine has; a small machine takes some seconds to boot…", "正在尝试本机可用的隔离方式；小型虚拟机启动需要数秒……";
    EXPLAIN_TITLES: "what,value,by", "项目,值,由何决定";
    EXPLAIN_PROFILE: "held by", "隔离方式";
    EXPLAIN_FOLDER: "works in", "工作目录";
    EXPLAIN_ACCESS: "may", "权限";
    EXPLAIN_NETWORK: "network", "网络";
    EXPLAIN_LIMITS: "at most", "上限";
    EXPLAIN_PLACE: "shares /tmp and home as", "共享 /tmp 与主目录";
    EXPLAIN_HIDDEN: "never sees", "不可见";
    ACCESS_RO: "look at it", "只读";
    ACCESS_RW: "change it", "读写";
    NETWORK_NONE: "none", "无";
    NETWORK_FULL: "everything this machine reaches", "本机可达的一切";
    NETWORK_HOSTS: "only {hosts}, through the gateway's proxy", "仅 {hosts}，经网关代理";
    NETWORK_HOSTS_BUT: "only {hosts}, never {denied}, through the gateway's proxy", "仅 {hosts}，不含 {denied}，经网关代理";
    NETWORK_NO_HOSTS: "no host: none is in allowHosts that the rules about hosts leave", "无任何主机：allowHosts 中没有被规则保留的主机";
    EXPLAIN_NOT: "not", "不可达";
    BARE_NOTE: "Nothing else holds them: programs have all your rights. Other keys of the sandbox mean nothing here.", "没有其他隔离：程序拥有你的全部权限。沙箱的其他配置项在此不生效。";
}
