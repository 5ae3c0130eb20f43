//! A conversation as one page: no scripts, nothing loaded from anywhere, light or dark as its reader has it.

use std::fmt::Write as _;

use tidegate_runtime::iso_timestamp;

use super::story::{Outcome, Piece, Story};

const STYLE: &str = "\
:root{color-scheme:light dark;--text:#1c2024;--soft:#60646c;--page:#fcfcfd;--card:#f0f0f3;--mine:#e6f4fe;--bad:#ce2c31}\
@media(prefers-color-scheme:dark){:root{--text:#edeef0;--soft:#b0b4ba;--page:#111113;--card:#212225;--mine:#0d2847;--bad:#ff9592}}\
*{box-sizing:border-box}\
body{margin:0 auto;max-width:46rem;padding:2rem 1rem;background:var(--page);color:var(--text);\
font:16px/1.6 system-ui,sans-serif;overflow-wrap:anywhere}\
h1{font-size:1.5rem;line-height:1.25;margin:0}\
header p,h2,h3,.note{color:var(--soft);font-size:.8125rem;font-weight:400}\
h2{margin:2.5rem 0 .5rem}h3{margin:1rem 0 .25rem}\
.said{white-space:pre-wrap;margin:0}\
.user .said,details,.summary{background:var(--card);border-radius:.5rem;padding:.75rem 1rem}\
.user .said{background:var(--mine)}\
details{margin:.75rem 0}summary{cursor:pointer;font-size:.875rem}\
.failed summary{color:var(--bad)}\
pre{white-space:pre-wrap;margin:.75rem 0 0;font:.8125rem/1.5 ui-monospace,monospace}\
@media print{details>*{display:block}}";

pub(super) fn render(story: &Story) -> String {
    let title = escaped(&story.title);
    let mut out = format!(
        "<!doctype html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <header>\n<h1>{title}</h1>\n<p>{}, {}</p>\n</header>\n<main>\n",
        escaped(&story.name),
        iso_timestamp(story.created_at)
    );
    for (number, turn) in story.turns.iter().enumerate() {
        let at = iso_timestamp(turn.at);
        let _ = writeln!(out, "<section>\n<h2>{} · <time datetime=\"{at}\">{at}</time></h2>", number + 1);
        for piece in &turn.pieces {
            out.push_str(&piece_of(piece));
            out.push('\n');
        }
        out.push_str("</section>\n");
    }
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

fn piece_of(piece: &Piece) -> String {
    let said = |class: &str, who: &str, text: &str| {
        let (who, text) = (escaped(who), escaped(text.trim_end()));
        format!("<div class=\"{class}\"><h3>{who}</h3><p class=\"said\">{text}</p></div>")
    };
    match piece {
        Piece::User(text) => said("user", "User", text),
        Piece::Assistant { model, text } => said("assistant", &format!("Assistant ({model})"), text),
        Piece::Image { mime_type } => note(&format!("An image, {mime_type}")),
        Piece::Call { name, arguments, result } => {
            let shown =
                result.as_ref().map_or_else(|| note("Interrupted: no result"), |result| code(&result.text));
            let failed = result.as_ref().is_some_and(|result| result.failed);
            folded(name, failed, &format!("{}{shown}", code(arguments)))
        }
        Piece::Result { name, outcome: Outcome { text, failed } } => folded(name, *failed, &code(text)),
        Piece::Summary(summary) => said("summary", "Summed up", summary),
        Piece::Unknown => note("A line of a newer release"),
    }
}

fn folded(name: &str, failed: bool, inside: &str) -> String {
    let name = escaped(name);
    let (class, ending) = if failed { (" class=\"failed\"", " (failed)") } else { ("", "") };
    format!("<details{class}><summary>Tool: {name}{ending}</summary>{inside}</details>")
}

fn code(text: &str) -> String {
    format!("<pre>{}</pre>", escaped(text.trim_end()))
}

fn note(text: &str) -> String {
    format!("<p class=\"note\">{}</p>", escaped(text))
}

/// Text that is only text, wherever in a page it stands.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            character => out.push(character),
        }
    }
    out
}
