//! What the `process` tool sends to a program: text, keys, pastes. Pure.

use super::keys;

/// More than this at once is no typing.
const LONGEST: usize = 64 * 1024;

const PASTE_BEGINS: &str = "\x1b[200~";
const PASTE_ENDS: &str = "\x1b[201~";

/// What goes to a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) bytes: Vec<u8>,
    /// Its input ends after this.
    pub(crate) ends: bool,
}

/// What a caller wants to send.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) literal: Option<String>,
    pub(crate) hex: Vec<String>,
    pub(crate) tokens: Vec<String>,
}

/// Text as it is, and perhaps the end.
pub(crate) fn write(data: Option<&str>, ends: bool, pty: bool) -> Result<Input, String> {
    if data.is_none() && !ends {
        return Err("data: say what to write".to_owned());
    }
    let mut bytes = data.unwrap_or_default().as_bytes().to_vec();
    if ends && pty {
        // A terminal has no end; this is the key for it.
        bytes.push(0x04);
    }
    bounded(bytes, ends && !pty)
}

/// A line, with what the Enter key sends.
pub(crate) fn submit(data: Option<&str>, pty: bool) -> Result<Input, String> {
    let mut bytes = data.unwrap_or_default().as_bytes().to_vec();
    bytes.push(if pty { b'\r' } else { b'\n' });
    bounded(bytes, false)
}

/// Text as a terminal pastes it. Nothing inside can end the paste.
pub(crate) fn paste(text: Option<&str>, bracketed: bool, pty: bool) -> Result<Input, String> {
    let text = text.filter(|text| !text.is_empty()).ok_or("text: say what to paste")?;
    if !(bracketed && pty) {
        return bounded(text.as_bytes().to_vec(), false);
    }
    let mut inert = text.to_owned();
    while inert.contains(PASTE_ENDS) {
        inert = inert.replace(PASTE_ENDS, "");
    }
    bounded(format!("{PASTE_BEGINS}{inert}{PASTE_ENDS}").into_bytes(), false)
}

/// Literal text first, then bytes, then keys by name.
pub(crate) fn keys(sent: &Keys) -> Result<Input, String> {
    let mut bytes = sent.literal.as_deref().unwrap_or_default().as_bytes().to_vec();
    bytes
        .extend(keys::from_hex(&sent.hex).map_err(|piece| format!("hex: {piece:?} is not pairs of digits"))?);
    bytes.extend(keys::encode(&sent.tokens).map_err(|token| format!("keys: there is no key {token:?}"))?);
    if bytes.is_empty() {
        return Err("keys: say which keys to send".to_owned());
    }
    bounded(bytes, false)
}

fn bounded(bytes: Vec<u8>, ends: bool) -> Result<Input, String> {
    if bytes.len() > LONGEST {
        return Err(format!("more than {LONGEST} bytes at once"));
    }
    Ok(Input { bytes, ends })
}

impl Input {
    /// For the eyes of whoever approves: everything that is sent, with what cannot be seen spelled out.
    pub(crate) fn shown(&self) -> String {
        let mut shown = String::new();
        for piece in self.bytes.utf8_chunks() {
            for c in piece.valid().chars() {
                match c {
                    '\n' => shown.push('\n'),
                    '\\' => shown.push_str("\\\\"),
                    c if super::clean::is_kept(c) && c != '\r' => shown.push(c),
                    c => shown.extend(c.escape_default()),
                }
            }
            shown.extend(piece.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
        }
        if self.ends {
            shown.push_str("(end of input)");
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(input: Result<Input, String>) -> Vec<u8> {
        input.unwrap().bytes
    }

    #[test]
    fn each_way_of_sending_sends_what_a_terminal_would() {
        assert_eq!(bytes(write(Some("a\n"), false, false)), b"a\n");
        assert_eq!(write(None, true, false), Ok(Input { bytes: vec![], ends: true }));
        assert_eq!(write(Some("a"), true, true), Ok(Input { bytes: b"a\x04".to_vec(), ends: false }));
        assert_eq!(bytes(submit(Some("ls"), true)), b"ls\r");
        assert_eq!(bytes(submit(None, false)), b"\n");
        assert_eq!(bytes(paste(Some("x\ny"), true, true)), b"\x1b[200~x\ny\x1b[201~");
        assert_eq!(bytes(paste(Some("x"), false, true)), b"x");
        assert_eq!(bytes(paste(Some("x"), true, false)), b"x");
        let sent = Keys {
            literal: Some("q".into()),
            hex: vec!["41".into()],
            tokens: vec!["C-c".into(), "Up".into()],
        };
        assert_eq!(bytes(keys(&sent)), b"qA\x03\x1b[A");
    }

    #[test]
    fn sending_nothing_or_too_much_is_refused() {
        assert!(write(None, false, true).is_err());
        assert!(paste(Some(""), true, true).is_err());
        assert!(keys(&Keys::default()).is_err());
        assert!(write(Some(&"x".repeat(LONGEST + 1)), false, false).is_err());
        let unknown = Keys { tokens: vec!["Hyper".into()], ..Keys::default() };
        assert_eq!(keys(&unknown), Err("keys: there is no key \"Hyper\"".into()));
    }

    #[test]
    fn what_cannot_be_seen_is_spelled_out() {
        let shown = |text: &str| Input { bytes: text.as_bytes().to_vec(), ends: false }.shown();
        assert_eq!(shown("rm -rf x\r"), "rm -rf x\\r");
        assert_eq!(shown("\x03\u{202e}a"), "\\u{3}\\u{202e}a");
        assert_eq!(Input { bytes: b"\xff".to_vec(), ends: true }.shown(), "\\xff(end of input)");
    }

    proptest! {
        #[test]
        fn no_pasted_text_ends_its_paste(pieces in prop::collection::vec("\u{1b}\\[201~|\u{1b}|\\[|201~|a", 0..20)) {
            let text = pieces.concat();
            if let Ok(input) = paste(Some(&text), true, true) {
                let sent = String::from_utf8(input.bytes).unwrap();
                prop_assert_eq!(sent.matches(PASTE_ENDS).count(), 1);
                prop_assert!(sent.ends_with(PASTE_ENDS));
            }
        }

        #[test]
        fn two_different_inputs_never_look_the_same(a in any::<Vec<u8>>(), b in any::<Vec<u8>>()) {
            let shown = |bytes: &[u8]| Input { bytes: bytes.to_vec(), ends: false }.shown();
            prop_assert_eq!(a == b, shown(&a) == shown(&b));
        }
    }
}
