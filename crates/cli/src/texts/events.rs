//! What the command line says about calling methods and following what happens.

use tidegate_runtime::texts;

texts! {
    INVALID_PARAMS: "Invalid --params json: {cause}", "--params 不是有效的 JSON：{cause}";
    LISTENING: "Listening to the gateway of {home}; Ctrl-C ends it.", "正在监听 {home} 的网关；按 Ctrl-C 结束。";
    DOWN: "The connection is lost ({cause}); trying again …", "连接已断开（{cause}）；正在重试……";
    UP_AGAIN: "Connected again.", "已重新连接。";
    MISSED: "Something was missed that cannot be told again.", "有部分事件已错过，无法补发。";
    RUN: "{session}: run {run} is {state}: {text}", "{session}：运行 {run} 状态为 {state}：{text}";
    RUN_FAILED: "{session}: run {run} is {state} ({code}): {text}", "{session}：运行 {run} 状态为 {state}（{code}）：{text}";
    SESSION: "{session}: {reason}", "{session}：{reason}";
    ASKED: "approval {id} is asked for: {tool} {what}", "请求批准 {id}：{tool} {what}";
    SETTLED: "approval {id} is {state}: {tool}", "批准 {id} 的结果为 {state}：{tool}";
    HEALTH: "the gateway is ready: {ready} {problems}", "网关就绪：{ready} {problems}";
    TOOL: "● {tool} {gist}", "● {tool} {gist}";
    TOOL_DONE: "● {tool}: done in {ms} ms", "● {tool}：完成，用时 {ms} 毫秒";
    TOOL_FAILED: "● {tool}: failed: {text}", "● {tool}：失败：{text}";
    WAITS: "waits for a place in lane {lane}, {ahead} ahead", "正在等待通道 {lane} 的空位，前面还有 {ahead} 个";
    ENDED: "run {run} is {state}", "运行 {run} 状态为 {state}";
}
