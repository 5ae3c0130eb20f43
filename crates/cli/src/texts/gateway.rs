//! What the command line says about the port of the gateway, and about restarts.

use tidegate_runtime::texts;

texts! {
    PORT_TAKEN: "{holder} listens on {address} already; port {free} is free: `{program} {command} --port {free}` for once, `{program} config set gateway.port {free}` for good", "{address} 已被占用：{holder}；端口 {free} 空闲：`{program} {command} --port {free}` 仅此一次，`{program} config set gateway.port {free}` 永久使用";
    BY_GATEWAY: "the Tidegate gateway of {home} (process {pid})", "{home} 的 Tidegate 网关（进程 {pid}）";
    BY_PROGRAM: "the program {name} (process {pid})", "程序 {name}（进程 {pid}）";
    BY_USER: "a program of another user (uid {uid})", "其他用户的程序（uid {uid}）";
    BY_SOME_GATEWAY: "another Tidegate gateway", "另一个 Tidegate 网关";
    BY_SOMEBODY: "another program", "其他程序";

    RESTARTING: "Taking the new configuration: runs under way get {seconds} s …", "正在采用新配置：进行中的运行有 {seconds} 秒时间…";
    RESTARTED: "The new configuration holds; listening on {url}", "新配置已生效；正在监听 {url}";
    NOT_RESTARTED: "the configuration is not taken, the gateway goes on with the one it has: {cause}", "未采用该配置，网关继续使用现有配置：{cause}";
    FELL_BACK: "the gateway cannot work with the new configuration and goes on with the one before: {cause}", "网关无法使用新配置，已回到之前的配置：{cause}";
    WAITS_FOR_PORT: "the gateway waits for the port that it had, and tries it again: {cause}", "网关正在等待之前使用的端口，并会重试：{cause}";
    NOT_READY: "the gateway has a problem, and may not come back: {problems}", "网关存在问题，重启后可能无法恢复：{problems}";
    RESTART_ASKED: "asked process {pid} to take the configuration; waiting for it …", "已要求进程 {pid} 采用配置，正在等待…";
    RESTART_DONE: "the gateway has restarted: {url}", "网关已重启：{url}";
    RESTART_FELL_BACK: "the gateway could not work with the new configuration and went on with the one before; {log} says why", "网关无法使用新配置，已回到之前的配置；原因见 {log}";
    PORT_STAYS: "gateway.port is {port} in the configuration, but the gateway was started with --port, which is stronger: it stays on {given}. To move it, stop it and start it without --port", "配置中的 gateway.port 为 {port}，但网关启动时使用了 --port，后者优先：端口仍为 {given}。要更换端口，请停止网关并在不带 --port 的情况下启动";
    RESTART_LATE: "the gateway did not come back within {seconds} s; see {log}", "网关未在 {seconds} 秒内恢复；请查看 {log}";
}
