//! Characters that HTML writes as `&name;` or `&#number;`.

use crate::web::charset::windows;

/// The ones that occur. Names are told apart by case, as HTML does.
const NAMES: &[(&str, &str)] = &[
    ("amp", "&"),
    ("lt", "<"),
    ("gt", ">"),
    ("quot", "\""),
    ("apos", "'"),
    ("nbsp", " "),
    ("AMP", "&"),
    ("LT", "<"),
    ("GT", ">"),
    ("QUOT", "\""),
    ("iexcl", "¡"),
    ("cent", "¢"),
    ("pound", "£"),
    ("curren", "¤"),
    ("yen", "¥"),
    ("brvbar", "¦"),
    ("sect", "§"),
    ("uml", "¨"),
    ("copy", "©"),
    ("COPY", "©"),
    ("ordf", "ª"),
    ("laquo", "«"),
    ("not", "¬"),
    ("shy", ""),
    ("reg", "®"),
    ("REG", "®"),
    ("macr", "¯"),
    ("deg", "°"),
    ("plusmn", "±"),
    ("sup1", "¹"),
    ("sup2", "²"),
    ("sup3", "³"),
    ("acute", "´"),
    ("micro", "µ"),
    ("para", "¶"),
    ("middot", "·"),
    ("cedil", "¸"),
    ("ordm", "º"),
    ("raquo", "»"),
    ("frac14", "¼"),
    ("frac12", "½"),
    ("frac34", "¾"),
    ("iquest", "¿"),
    ("Agrave", "À"),
    ("Aacute", "Á"),
    ("Acirc", "Â"),
    ("Atilde", "Ã"),
    ("Auml", "Ä"),
    ("Aring", "Å"),
    ("AElig", "Æ"),
    ("Ccedil", "Ç"),
    ("Egrave", "È"),
    ("Eacute", "É"),
    ("Ecirc", "Ê"),
    ("Euml", "Ë"),
    ("Igrave", "Ì"),
    ("Iacute", "Í"),
    ("Icirc", "Î"),
    ("Iuml", "Ï"),
    ("ETH", "Ð"),
    ("Ntilde", "Ñ"),
    ("Ograve", "Ò"),
    ("Oacute", "Ó"),
    ("Ocirc", "Ô"),
    ("Otilde", "Õ"),
    ("Ouml", "Ö"),
    ("times", "×"),
    ("Oslash", "Ø"),
    ("Ugrave", "Ù"),
    ("Uacute", "Ú"),
    ("Ucirc", "Û"),
    ("Uuml", "Ü"),
    ("Yacute", "Ý"),
    ("THORN", "Þ"),
    ("szlig", "ß"),
    ("agrave", "à"),
    ("aacute", "á"),
    ("acirc", "â"),
    ("atilde", "ã"),
    ("auml", "ä"),
    ("aring", "å"),
    ("aelig", "æ"),
    ("ccedil", "ç"),
    ("egrave", "è"),
    ("eacute", "é"),
    ("ecirc", "ê"),
    ("euml", "ë"),
    ("igrave", "ì"),
    ("iacute", "í"),
    ("icirc", "î"),
    ("iuml", "ï"),
    ("eth", "ð"),
    ("ntilde", "ñ"),
    ("ograve", "ò"),
    ("oacute", "ó"),
    ("ocirc", "ô"),
    ("otilde", "õ"),
    ("ouml", "ö"),
    ("divide", "÷"),
    ("oslash", "ø"),
    ("ugrave", "ù"),
    ("uacute", "ú"),
    ("ucirc", "û"),
    ("uuml", "ü"),
    ("yacute", "ý"),
    ("thorn", "þ"),
    ("yuml", "ÿ"),
    ("OElig", "Œ"),
    ("oelig", "œ"),
    ("Scaron", "Š"),
    ("scaron", "š"),
    ("Yuml", "Ÿ"),
    ("fnof", "ƒ"),
    ("circ", "ˆ"),
    ("tilde", "˜"),
    ("Alpha", "Α"),
    ("Beta", "Β"),
    ("Gamma", "Γ"),
    ("Delta", "Δ"),
    ("Theta", "Θ"),
    ("Lambda", "Λ"),
    ("Pi", "Π"),
    ("Sigma", "Σ"),
    ("Phi", "Φ"),
    ("Psi", "Ψ"),
    ("Omega", "Ω"),
    ("alpha", "α"),
    ("beta", "β"),
    ("gamma", "γ"),
    ("delta", "δ"),
    ("epsilon", "ε"),
    ("zeta", "ζ"),
    ("eta", "η"),
    ("theta", "θ"),
    ("iota", "ι"),
    ("kappa", "κ"),
    ("lambda", "λ"),
    ("mu", "μ"),
    ("nu", "ν"),
    ("xi", "ξ"),
    ("pi", "π"),
    ("rho", "ρ"),
    ("sigma", "σ"),
    ("tau", "τ"),
    ("phi", "φ"),
    ("chi", "χ"),
    ("psi", "ψ"),
    ("omega", "ω"),
    ("ensp", " "),
    ("emsp", " "),
    ("thinsp", " "),
    ("zwnj", "\u{200c}"),
    ("zwj", "\u{200d}"),
    ("ndash", "–"),
    ("mdash", "—"),
    ("lsquo", "‘"),
    ("rsquo", "’"),
    ("sbquo", "‚"),
    ("ldquo", "“"),
    ("rdquo", "”"),
    ("bdquo", "„"),
    ("dagger", "†"),
    ("Dagger", "‡"),
    ("bull", "•"),
    ("hellip", "…"),
    ("permil", "‰"),
    ("prime", "′"),
    ("Prime", "″"),
    ("lsaquo", "‹"),
    ("rsaquo", "›"),
    ("euro", "€"),
    ("trade", "™"),
    ("larr", "←"),
    ("uarr", "↑"),
    ("rarr", "→"),
    ("darr", "↓"),
    ("harr", "↔"),
    ("rArr", "⇒"),
    ("hArr", "⇔"),
    ("forall", "∀"),
    ("part", "∂"),
    ("exist", "∃"),
    ("empty", "∅"),
    ("nabla", "∇"),
    ("isin", "∈"),
    ("notin", "∉"),
    ("prod", "∏"),
    ("sum", "∑"),
    ("minus", "−"),
    ("radic", "√"),
    ("prop", "∝"),
    ("infin", "∞"),
    ("ang", "∠"),
    ("and", "∧"),
    ("or", "∨"),
    ("cap", "∩"),
    ("cup", "∪"),
    ("int", "∫"),
    ("there4", "∴"),
    ("sim", "∼"),
    ("cong", "≅"),
    ("asymp", "≈"),
    ("ne", "≠"),
    ("equiv", "≡"),
    ("le", "≤"),
    ("ge", "≥"),
    ("sub", "⊂"),
    ("sup", "⊃"),
    ("check", "✓"),
    ("star", "☆"),
    ("starf", "★"),
    ("hearts", "♥"),
    ("lbrace", "{"),
    ("rbrace", "}"),
    ("lbrack", "["),
    ("rbrack", "]"),
    ("lpar", "("),
    ("rpar", ")"),
    ("num", "#"),
    ("percnt", "%"),
    ("ast", "*"),
    ("plus", "+"),
    ("comma", ","),
    ("period", "."),
    ("sol", "/"),
    ("colon", ":"),
    ("semi", ";"),
    ("equals", "="),
    ("quest", "?"),
    ("commat", "@"),
    ("bsol", "\\"),
    ("Hat", "^"),
    ("lowbar", "_"),
    ("grave", "`"),
    ("vert", "|"),
    ("excl", "!"),
    ("dollar", "$"),
    ("Tab", "\t"),
    ("NewLine", "\n"),
];
/// The longest name, and the longest number anybody writes.
const LONGEST: usize = 12;

/// The text with its entities replaced. Unknown ones stay as they are.
pub(super) fn decode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        match entity(rest) {
            Some((meaning, length)) => {
                out.push_str(&meaning);
                rest = &rest[length..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// The meaning of the entity that the text begins with, and its length.
fn entity(text: &str) -> Option<(String, usize)> {
    let body = &text[1..];
    let end = body.bytes().take(LONGEST).position(|byte| byte == b';')?;
    let name = &body[..end];
    let length = end + 2;
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        return Some((numbered(code).to_string(), length));
    }
    let found = NAMES.iter().find(|(known, _)| *known == name)?;
    Some((found.1.to_owned(), length))
}

fn numbered(code: u32) -> char {
    match code {
        0 => char::REPLACEMENT_CHARACTER,
        0x80..=0x9f => u8::try_from(code).map_or(char::REPLACEMENT_CHARACTER, windows),
        0xa0 => ' ',
        _ => char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_become_what_they_stand_for() {
        for (text, expected) in [
            ("a &amp; b &lt;c&gt; &quot;d&quot;", "a & b <c> \"d\""),
            ("&#65;&#x42;&#X43;&#8364;&#x20ac;", "ABC€€"),
            ("&#150;&#0;&#xd800;&#1114112;", "–\u{fffd}\u{fffd}\u{fffd}"),
            ("caf&eacute; &Eacute;&nbsp;x", "café É x"),
            ("AT&T & co; &unknown; &; &#; &#x; &#zz;", "AT&T & co; &unknown; &; &#; &#x; &#zz;"),
            ("&amp;lt;", "&lt;"),
            ("&", "&"),
            ("&äöüäöüäöü;", "&äöüäöüäöü;"),
        ] {
            assert_eq!(decode(text), expected);
        }
    }
}
