//! The readable text of a web page: its title, and its main part as Markdown or plain text.
//!
//! The page is read as a row of tags, never as a tree, so that nothing in it can exhaust the stack. What is preferred:
//! `main`, else the `article`s, else everything but menus, headers, footers, sidebars and forms; and when hardly
//! anything is left of a page, everything that a browser would show.

mod entities;
mod layout;
mod render;
mod tokens;

use tidegate_net::Address;

use layout::Layout;
use render::Region;
use tokens::{Token, Tokens};

/// How text is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Mode {
    Markdown,
    Text,
}

/// What there is to read on a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Readable {
    pub(super) title: Option<String>,
    pub(super) text: String,
    /// The text is not the whole one.
    pub(super) cut: bool,
}

/// Bytes of text with which a part of a page is taken for its content.
const ENOUGH: usize = 200;
/// With less, it must be this part of everything there is.
const FAIR_PART: usize = 4;
const LONGEST_TITLE: usize = 300;

/// Reads a page. `base` is where it came from; `limit` is for the bytes of the text.
pub(super) fn readable(html: &str, base: Option<&Address>, mode: Mode, limit: usize) -> Readable {
    let render = |region| render::render(html, region, Layout::new(mode, base, limit));
    let inner = ["main", "article"].into_iter().find(|name| has_element(html, name)).map(Region::Inside);
    let mut short = Vec::new();
    for region in inner.into_iter().chain([Region::Body]) {
        let (text, cut) = render(region);
        if text.len() >= ENOUGH {
            return Readable { title: title(html), text, cut };
        }
        short.push((text, cut));
    }
    // Little text may be all there is, or what is left of a page that puts its content into a form.
    let everything = render(Region::Everything);
    let fair = |(text, _): &(String, bool)| text.len() * FAIR_PART >= everything.0.len();
    let (text, cut) = short.into_iter().find(fair).unwrap_or(everything);
    Readable { title: title(html), text, cut }
}

fn has_element(html: &str, name: &str) -> bool {
    Tokens::of(html).any(|token| matches!(token, Token::Open(tag) if tag.name == name))
}

/// The page's title on one line, else its first heading.
fn title(html: &str) -> Option<String> {
    after(html, "title").or_else(|| after(html, "h1"))
}

/// The text of the first element of this name.
fn after(html: &str, name: &str) -> Option<String> {
    let mut tokens =
        Tokens::of(html).skip_while(|token| !matches!(token, Token::Open(tag) if tag.name == name));
    tokens.next()?;
    let mut text = String::new();
    for token in tokens {
        match token {
            Token::Text(piece) if text.len() < 4 * LONGEST_TITLE => text.push_str(piece),
            Token::Open(_) => {}
            Token::Close(closed) if closed != name => {}
            _ => break,
        }
    }
    let text = entities::decode(&text);
    let words: Vec<_> = text.split_whitespace().collect();
    let line: String = words.join(" ").chars().take(LONGEST_TITLE).collect();
    (!line.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(html: &str, mode: Mode) -> Readable {
        let base = Address::read("https://example.com/docs/page").unwrap();
        readable(html, Some(&base), mode, 1 << 20)
    }

    fn markdown(html: &str) -> String {
        read(html, Mode::Markdown).text
    }

    #[test]
    fn a_page_becomes_the_markdown_a_person_would_have_written() {
        for (html, expected) in [
            ("<h1>Top</h1><p>One  two\n three</p><p>Four</p>", "# Top\n\nOne two three\n\nFour"),
            ("a<br>b<hr>c", "a\nb\n\n---\n\nc"),
            ("<p>x <b> bold </b>y <em>it</em><i></i>.</p>", "x **bold** y _it_."),
            (
                "<p>see <a href='../a?b=1'>this</a>, <a href='#x'>here</a></p>",
                "see [this](https://example.com/a?b=1), here",
            ),
            ("<a href='javascript:x()'>js</a> <a href='mailto:a@b'>mail</a> <a href='/x'></a>", "js mail"),
            ("<ul><li>one<li>two <ul><li>deep</ul></ul><p>end", "- one\n- two\n  - deep\n\nend"),
            ("<ol><li>one</li><li><p>two</p></li></ol>", "1. one\n2. two"),
            ("<pre>a\n  b &lt;c&gt;\n</pre>after", "```\na\n  b <c>\n```\n\nafter"),
            ("<pre><code>```\nx</code></pre>", "````\n```\nx\n````"),
            ("<p>use <code>cargo  test</code> now", "use `cargo test` now"),
            ("<blockquote><p>said</p><p>more</p></blockquote>x", "> said\n>\n> more\n\nx"),
            ("<table><tr><th>A<th>B<tr><td>1<td><p>2</p></table>", "| A | B |\n|---|---|\n| 1 | 2 |"),
            ("<table><tr><td>left</td><td>right</td></tr><tr><td>x</td></tr></table>", "left | right\nx"),
            ("<img src=/i.png alt='a cat'><img src=x>", "![a cat](https://example.com/i.png)"),
            ("<dl><dt>word<dd>meaning</dl>", "word\nmeaning"),
            ("caf&eacute; &amp; co", "café & co"),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
    }

    #[test]
    fn plain_text_has_no_marks() {
        let html = "<h2>Top</h2><p>a <b>b</b> <a href=/x>c</a> <code>d</code></p><ul><li>one<li>two</ul><pre>x\n y</pre>";
        assert_eq!(read(html, Mode::Text).text, "Top\n\na b c d\n\n- one\n- two\n\nx\n y");
    }

    #[test]
    fn what_is_not_the_content_is_left_out() {
        let html = "<head><title> The\n page &amp; more</title><style>p{}</style></head><body><header>menu</header><nav>nav\
            </nav><script>var a='<p>no</p>'</script><p>content</p><aside>ads</aside><form>field<button>go</button></form>\
            <footer>legal</footer><svg><text>picture</text></svg><template>later</template><!-- comment --></body>";
        let page = read(html, Mode::Markdown);
        assert_eq!(page.title.as_deref(), Some("The page & more"));
        let shown = readable(html, None, Mode::Text, 1 << 20).text;
        // A page with next to nothing on it is shown with everything a browser shows.
        assert!(shown.contains("content") && shown.contains("menu"));
        for hidden in ["var a", "p{}", "picture", "later", "comment"] {
            assert!(!shown.contains(hidden), "{hidden}: {shown}");
        }
        let long = html.replace("content", &"content ".repeat(40));
        let shown = markdown(&long);
        for left_out in ["menu", "nav", "ads", "field", "go", "legal"] {
            assert!(!shown.contains(left_out), "{left_out}: {shown}");
        }
    }

    #[test]
    fn the_main_part_is_preferred_and_keeps_its_own_header() {
        let words = "word ".repeat(60);
        let html = format!("<div>around</div><main><header><h1>Head</h1></header>{words}</main><p>after</p>");
        let text = markdown(&html);
        assert!(
            text.starts_with("# Head\n\nword") && !text.contains("around") && !text.contains("after"),
            "{text}"
        );
        let html = format!("<p>teaser</p><article>{words}</article><p>x</p><article>second</article>");
        let text = markdown(&html);
        assert!(text.contains("second") && !text.contains("teaser"), "{text}");
        let html = format!("<main></main><p>{words}</p>");
        assert!(markdown(&html).starts_with("word"));
        let html = format!("<form><p>{words}</p></form>");
        assert!(markdown(&html).starts_with("word"), "a page inside one form is a page");
    }

    #[test]
    fn text_that_a_browser_hides_is_not_read() {
        let html = "<p>seen</p><p hidden>no1<p>seen2</p><div style='Display : none'>no2<div>no3</div></div>\
            <span aria-hidden=true>no4</span><span style=\"font-size:0px\">no5</span><div><p hidden>no6</div>seen3";
        let text = markdown(html);
        assert!(!text.contains("no"), "{text}");
        for seen in ["seen", "seen2", "seen3"] {
            assert!(text.contains(seen), "{seen}: {text}");
        }
    }

    #[test]
    fn a_page_nested_without_end_is_read_without_a_stack() {
        for tag in ["div", "b", "blockquote", "ul><li", "table><tr><td", "a href=/", "pre"] {
            let html = format!("{}deep", format!("<{tag}>").repeat(20_000));
            let page = readable(&html, None, Mode::Markdown, 100_000);
            assert!(page.text.contains("deep") || page.cut, "{tag}");
            assert!(page.text.len() <= 110_000, "{tag}: {}", page.text.len());
        }
    }

    #[test]
    fn the_text_ends_at_its_limit_however_much_a_page_makes_of_little() {
        let base = Address::read(&format!("https://example.com/{}/", "x".repeat(4000))).unwrap();
        let html = "<a href=y>z</a> ".repeat(10_000);
        let page = readable(&html, Some(&base), Mode::Markdown, 50_000);
        assert!(page.cut && page.text.len() < 60_000, "{}", page.text.len());
        let html = format!("{}{}", "<blockquote>".repeat(1000), "x<br>".repeat(10_000));
        assert!(readable(&html, None, Mode::Markdown, 50_000).text.len() < 60_000);
    }

    proptest! {
        #[test]
        fn nothing_a_page_holds_is_a_failure(
            html in "(<(/)?(p|b|ul|li|ol|pre|code|table|tr|td|th|a href=x|main|form|script|blockquote|br)>|[a-z &;\n]){0,60}"
        ) {
            for mode in [Mode::Markdown, Mode::Text] {
                let page = readable(&html, None, mode, 10_000);
                prop_assert!(!page.text.contains("\n\n\n") || html.contains("pre"), "{:?}", page.text);
            }
        }
    }
}
