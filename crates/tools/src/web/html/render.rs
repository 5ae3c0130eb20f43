//! From tags to text: which parts of a page are read, and what each element means on paper.

use super::layout::Layout;
use super::tokens::{Tag, Token, Tokens};
use super::{Mode, entities};

/// Which part of a page is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Region {
    /// Only what is inside elements of this name.
    Inside(&'static str),
    /// Everything but what surrounds the content.
    Body,
    /// Whatever a browser shows.
    Everything,
}

/// Never text.
const NEVER: [&str; 17] = [
    "script", "style", "head", "template", "noscript", "svg", "math", "iframe", "object", "embed", "canvas",
    "video", "audio", "textarea", "select", "datalist", "map",
];
/// Around the content.
const AROUND: [&str; 7] = ["nav", "header", "footer", "aside", "form", "button", "dialog"];
/// Elements without an end.
const VOID: [&str; 13] =
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"];
/// Elements whose end may be left out.
const LOOSE: [&str; 9] = ["p", "li", "dt", "dd", "td", "th", "tr", "option", "body"];

/// Lays out a region; the text, and whether there was more.
pub(super) fn render(html: &str, region: Region, layout: Layout<'_>) -> (String, bool) {
    let mut page = Page { region, layout, skipped: None, inside: 0, tables: Vec::new(), verbatim: None };
    for token in Tokens::of(html) {
        if page.layout.is_full() {
            break;
        }
        page.token(&token);
    }
    page.end_verbatim();
    page.layout.finish()
}

struct Page<'a> {
    region: Region,
    layout: Layout<'a>,
    skipped: Option<Skipped>,
    /// How deep we are in the elements of the region.
    inside: usize,
    tables: Vec<Table>,
    /// The text of a `pre` so far.
    verbatim: Option<String>,
}

/// An element that is not read.
struct Skipped {
    name: String,
    /// Elements of the same name, this one included.
    same: usize,
    /// Elements of other names inside.
    others: usize,
}

#[derive(Default)]
struct Table {
    rows: usize,
    cells: usize,
    /// It has headings, so that it is a table and not a layout.
    real: bool,
}

impl Page<'_> {
    fn token(&mut self, token: &Token<'_>) {
        if self.skips(token) {
            return;
        }
        match token {
            Token::Text(text) => self.text(text),
            Token::Open(tag) => self.open(tag),
            Token::Close(name) => self.close(name),
        }
    }

    /// Whether the token belongs to an element that is not read.
    fn skips(&mut self, token: &Token<'_>) -> bool {
        let Some(skipped) = &mut self.skipped else { return false };
        let loose = LOOSE.contains(&skipped.name.as_str());
        let over = match token {
            Token::Text(_) => return true,
            Token::Open(tag) if tag.name == skipped.name && loose && skipped.others == 0 => true,
            Token::Open(tag) if tag.name == skipped.name => {
                skipped.same += 1;
                false
            }
            Token::Open(tag) => {
                let counts = !VOID.contains(&tag.name.as_str()) && !LOOSE.contains(&tag.name.as_str());
                skipped.others += usize::from(counts && !tag.self_closing);
                false
            }
            Token::Close(name) if *name == skipped.name => {
                skipped.same -= 1;
                if skipped.same == 0 {
                    self.skipped = None;
                }
                return true;
            }
            // The end of something around a paragraph is the paragraph's end too.
            Token::Close(name) if loose && skipped.others == 0 => !LOOSE.contains(&name.as_str()),
            Token::Close(_) => {
                skipped.others = skipped.others.saturating_sub(1);
                false
            }
        };
        if over {
            self.skipped = None;
        }
        !over
    }

    fn is_read(&self) -> bool {
        !matches!(self.region, Region::Inside(_)) || self.inside > 0
    }

    fn text(&mut self, text: &str) {
        if !self.is_read() {
            return;
        }
        let text = entities::decode(text);
        match &mut self.verbatim {
            Some(verbatim) => verbatim.push_str(&text),
            None => self.layout.words(&text),
        }
    }

    fn open(&mut self, tag: &Tag<'_>) {
        let name = tag.name.as_str();
        if !VOID.contains(&name) && !tag.self_closing && (self.leaves_out(name) || is_hidden(tag)) {
            self.skipped = Some(Skipped { name: name.to_owned(), same: 1, others: 0 });
            return;
        }
        if matches!(self.region, Region::Inside(region) if region == name) {
            self.inside += 1;
        }
        if !self.is_read() {
            return;
        }
        if self.verbatim.is_some() {
            if name == "br" {
                self.text("\n");
            }
            return;
        }
        self.begin(name, tag);
    }

    fn leaves_out(&self, name: &str) -> bool {
        let around = AROUND.contains(&name)
            && match self.region {
                Region::Inside(_) => self.inside == 0 || !matches!(name, "header" | "footer"),
                Region::Body => true,
                Region::Everything => false,
            };
        around || name == "title" || NEVER.contains(&name)
    }

    fn begin(&mut self, name: &str, tag: &Tag<'_>) {
        let layout = &mut self.layout;
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                layout.line(2);
                if layout.mode == Mode::Markdown {
                    layout.lead(&format!("{} ", "#".repeat(usize::from(name.as_bytes()[1] - b'0'))));
                }
            }
            "hr" => {
                layout.line(2);
                layout.literal("---");
                layout.line(2);
            }
            "ul" | "menu" => layout.open_list(false),
            "ol" => layout.open_list(true),
            "li" => layout.item(),
            "blockquote" => layout.open_quote(),
            "pre" => self.verbatim = Some(String::new()),
            "b" | "strong" => layout.open_mark("**", "**".to_owned()),
            "i" | "em" => layout.open_mark("_", "_".to_owned()),
            "code" | "kbd" | "samp" | "tt" => layout.open_mark("`", "`".to_owned()),
            "a" => {
                if let Some(link) = tag.attribute("href").and_then(|target| layout.link(&target)) {
                    layout.open_mark("[", format!("]({link})"));
                }
            }
            "img" => self.image(tag),
            "table" | "tr" | "td" | "th" => self.open_table(name),
            "br" | "dt" | "dd" | "tbody" | "thead" | "caption" | "option" | "summary" => layout.line(1),
            _ if is_block(name) => layout.block(),
            _ => {}
        }
    }

    fn close(&mut self, name: &str) {
        if self.verbatim.is_some() && name != "pre" {
            return;
        }
        if self.is_read() {
            self.end(name);
        }
        if matches!(self.region, Region::Inside(region) if region == name) {
            self.inside = self.inside.saturating_sub(1);
            self.layout.line(2);
        }
    }

    fn end(&mut self, name: &str) {
        let layout = &mut self.layout;
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                layout.lead("");
                layout.line(2);
            }
            "ul" | "ol" | "menu" => layout.close_list(),
            "li" => layout.line(1),
            "blockquote" => layout.close_quote(),
            "pre" => self.end_verbatim(),
            "b" | "strong" => layout.close_mark("**"),
            "i" | "em" => layout.close_mark("_"),
            "code" | "kbd" | "samp" | "tt" => layout.close_mark("`"),
            "a" => layout.close_mark("["),
            "table" | "tr" | "td" | "th" => self.close_table(name),
            _ if is_block(name) => layout.block(),
            _ => {}
        }
    }

    fn end_verbatim(&mut self) {
        if let Some(text) = self.verbatim.take() {
            self.layout.verbatim(&text);
        }
    }

    fn image(&mut self, tag: &Tag<'_>) {
        let Some(alt) = tag.attribute("alt").filter(|alt| !alt.trim().is_empty()) else { return };
        let target = tag.attribute("src").and_then(|target| self.layout.link(&target));
        match (self.layout.mode, target) {
            (Mode::Markdown, Some(target)) => {
                self.layout.words(&format!("![{}]({target})", alt.trim().replace(['[', ']'], " ")));
            }
            _ => self.layout.words(&alt),
        }
    }

    fn open_table(&mut self, name: &str) {
        match name {
            "table" => {
                self.layout.in_cell = false;
                self.layout.line(2);
                self.tables.push(Table::default());
                self.tables.truncate(64);
            }
            "tr" => {
                self.end_row();
                self.layout.line(1);
            }
            _ => {
                self.layout.in_cell = false;
                let markdown = self.layout.mode == Mode::Markdown;
                let Some(table) = self.tables.last_mut() else { return };
                table.real |= name == "th" && markdown && table.rows == 0;
                let first = table.cells == 0;
                table.cells += 1;
                let real = table.real;
                if real {
                    self.layout.words(if first { "| " } else { " | " });
                } else if !first {
                    self.layout.words(" | ");
                }
                self.layout.in_cell = real;
            }
        }
    }

    fn close_table(&mut self, name: &str) {
        match name {
            "table" => {
                self.end_row();
                self.tables.pop();
                self.layout.line(2);
            }
            "tr" => self.end_row(),
            _ => {}
        }
    }

    /// Ends the row that is open, if one is.
    fn end_row(&mut self) {
        self.layout.in_cell = false;
        let Some(table) = self.tables.last_mut().filter(|table| table.cells > 0) else { return };
        let cells = std::mem::take(&mut table.cells);
        table.rows += 1;
        if table.real {
            self.layout.words(" |");
            if table.rows == 1 {
                self.layout.line(1);
                self.layout.literal(&format!("|{}", "---|".repeat(cells.min(64))));
            }
        }
        self.layout.line(1);
    }
}

/// Whether a browser would not show it.
fn is_hidden(tag: &Tag<'_>) -> bool {
    if tag.attribute("hidden").is_some() || tag.attribute("aria-hidden").is_some_and(|value| value == "true")
    {
        return true;
    }
    let Some(style) = tag.attribute("style") else { return false };
    let style: String = style.to_ascii_lowercase().split_whitespace().collect();
    let zero = |name: &str| {
        style.split(';').filter_map(|rule| rule.strip_prefix(name)).any(|value| {
            value
                .trim_end_matches("!important")
                .trim_end_matches(char::is_alphabetic)
                .trim_matches(['0', '.'])
                .is_empty()
        })
    };
    style.contains("display:none")
        || style.contains("visibility:hidden")
        || zero("font-size:")
        || zero("opacity:")
}

fn is_block(name: &str) -> bool {
    matches!(
        name,
        "p" | "div"
            | "section"
            | "article"
            | "main"
            | "header"
            | "footer"
            | "aside"
            | "nav"
            | "form"
            | "fieldset"
            | "figure"
            | "figcaption"
            | "details"
            | "address"
            | "dl"
            | "center"
            | "body"
            | "hgroup"
            | "search"
    )
}
