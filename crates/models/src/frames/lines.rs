//! One JSON value a line, as local servers send it. A line inside one chunk is handed on as a slice of it.

use super::{Cutter, Each, Frame, MOST_FRAME, too_large};
use crate::failure::Failure;

#[derive(Default)]
pub(crate) struct Lines {
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
}

impl Lines {
    fn buffer(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.line.len() + bytes.len() > MOST_FRAME {
            return Err(too_large());
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }
}

impl Cutter for Lines {
    fn push(&mut self, bytes: &[u8], each: &mut Each<'_>) -> Result<(), Failure> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line = &rest[..end];
            rest = &rest[end + 1..];
            if self.line.is_empty() {
                hand_on(line, each)?;
            } else {
                self.buffer(line)?;
                let handed = hand_on(&self.line, each);
                self.line.clear();
                handed?;
            }
        }
        self.buffer(rest)
    }

    fn end(&mut self, each: &mut Each<'_>) -> Result<(), Failure> {
        hand_on(&std::mem::take(&mut self.line), each)
    }
}

/// Blank lines keep a connection open and say nothing.
fn hand_on(line: &[u8], each: &mut Each<'_>) -> Result<(), Failure> {
    let data = line.trim_ascii();
    if data.is_empty() {
        return Ok(());
    }
    if data.len() > MOST_FRAME {
        return Err(too_large());
    }
    each(Frame { event: "", data })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        let mut each = |frame: Frame<'_>| {
            found.push(String::from_utf8_lossy(frame.data).into_owned());
            Ok(())
        };
        for chunk in chunks {
            lines.push(chunk, &mut each).unwrap();
        }
        lines.end(&mut each).unwrap();
        found
    }

    #[test]
    fn a_line_is_a_frame_with_or_without_an_end() {
        assert_eq!(
            cut([b"{\"a\":1}\n\n{\"b\":2}\r\n  \n{\"c\":3}".as_slice()]),
            ["{\"a\":1}", "{\"b\":2}", "{\"c\":3}"]
        );
    }

    #[test]
    fn a_line_without_an_end_is_not_kept_for_ever() {
        let mut lines = Lines::default();
        let half = vec![b'x'; MOST_FRAME / 2 + 1];
        assert!(lines.push(&half, &mut |_| Ok(())).is_ok());
        assert_eq!(lines.push(&half, &mut |_| Ok(())), Err(too_large()));
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_lines(body in "[a\\n\\rü ]{0,60}", size in 1_usize..12) {
            let expected: Vec<_> = body
                .split('\n')
                .map(|line| line.trim_matches(|c: char| c.is_ascii_whitespace()).to_owned())
                .filter(|line| !line.is_empty())
                .collect();
            prop_assert_eq!(cut([body.as_bytes()]), expected.clone());
            prop_assert_eq!(cut(body.as_bytes().chunks(size)), expected);
        }
    }
}
