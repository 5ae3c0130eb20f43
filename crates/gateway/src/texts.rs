//! What the gateway itself says to people: hints beside errors, and its two small pages.

use tidegate_protocol::ErrorCode;
use tidegate_runtime::catalogue::Text;

tidegate_runtime::texts! {
    HINT_LOGIN:
        "Open the link that `tidegate up` printed, or run `tidegate gateway link` for a new one. Programs send the token of the home as `Authorization: Bearer`.",
        "请打开 `tidegate up` 打印的链接，或运行 `tidegate gateway link` 获取新链接。程序请以 `Authorization: Bearer` 发送该主目录的令牌。";
    HINT_CODE:
        "A link works once and for ten minutes. Run `tidegate gateway link` for a new one.",
        "链接只能使用一次，十分钟内有效。请运行 `tidegate gateway link` 获取新链接。";
    HINT_LATER:
        "Wait a moment and try again.",
        "请稍候再试。";
    HINT_CLOSING:
        "The gateway is shutting down; send the same request again in a moment.",
        "网关正在关闭；请稍后重新发送同一请求。";
    HINT_FULL:
        "Free some disk space; nothing that was acknowledged is lost.",
        "请释放磁盘空间；已确认的内容不会丢失。";
    LOGIN_TITLE:
        "This link does not work any more",
        "此链接已失效";
    LOGIN_BODY:
        "A login link works once and for ten minutes. Run `tidegate gateway link` on the computer where the gateway runs, and open the new link.",
        "登录链接只能使用一次，十分钟内有效。请在运行网关的电脑上执行 `tidegate gateway link`，然后打开新链接。";
    LOGIN_WAIT:
        "Too many wrong codes were tried. Wait a minute, then open the link again.",
        "错误的登录码尝试次数过多。请等待一分钟后重新打开链接。";
    LOGIN_HOME:
        "Open the page",
        "打开页面";
    NOTICE_TITLE:
        "Tidegate is running",
        "Tidegate 正在运行";
    NOTICE_BODY:
        "This build has no web page. Build and start it with `make run`, or go on with `tidegate ask` in a terminal.",
        "此版本不包含网页。请用 `make run` 构建并启动，或在终端中继续使用 `tidegate ask`。";
}

/// How to mend an error, where the gateway knows.
pub(crate) fn hint(code: ErrorCode) -> Option<Text> {
    match code {
        ErrorCode::Unauthorized => Some(HINT_LOGIN),
        ErrorCode::LoginCodeInvalid => Some(HINT_CODE),
        ErrorCode::TooManyRequests | ErrorCode::StorageUnavailable => Some(HINT_LATER),
        ErrorCode::Closing => Some(HINT_CLOSING),
        ErrorCode::StorageFull => Some(HINT_FULL),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_languages_have_the_same_places() {
        for (name, text) in ALL {
            assert_eq!(Text::places(text.en), Text::places(text.zh), "{name}");
        }
    }
}
