//! Server-sent events, cut as they come. A frame whose data is one line inside one chunk is handed on as a slice of it;
//! only what is incomplete is kept, in buffers that are used again.

use super::{Cutter, Each, Frame, MOST_FRAME, too_large};
use crate::failure::Failure;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

pub(crate) struct Sse {
    /// Bytes of one line, and of one frame's data, at most.
    most: usize,
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    /// The name of the frame at hand.
    event: String,
    /// The data of the frame at hand, except for what [`Held`] still has in the chunk.
    data: Vec<u8>,
    has_data: bool,
    /// A chunk ended in CR: a LF at the start of the next one belongs to it.
    after_cr: bool,
    /// Whether a line was read: only before the first a byte order mark may stand.
    begun: bool,
}

/// The frame's only line of data so far, where it lies in the chunk that is being read.
type Held<'c> = Option<&'c [u8]>;

impl Default for Sse {
    fn default() -> Self {
        Self::with_most(MOST_FRAME)
    }
}

impl Sse {
    fn with_most(most: usize) -> Self {
        Self {
            most,
            line: Vec::new(),
            event: String::new(),
            data: Vec::new(),
            has_data: false,
            after_cr: false,
            begun: false,
        }
    }

    /// Takes one whole line, without its end.
    fn take_line<'c>(
        &mut self,
        mut line: &'c [u8],
        held: &mut Held<'c>,
        each: &mut Each<'_>,
    ) -> Result<(), Failure> {
        if line.len() > self.most {
            return Err(too_large());
        }
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(held.take(), each);
        }
        let (field, value) = split_field(line);
        match field {
            b"data" => self.take_data(value, held)?,
            b"event" => {
                self.event.clear();
                // A name that is no text is no name anybody knows.
                self.event.push_str(std::str::from_utf8(value).unwrap_or_default());
            }
            // Comments, ids, retry times and what is to come.
            _ => {}
        }
        Ok(())
    }

    fn take_data<'c>(&mut self, value: &'c [u8], held: &mut Held<'c>) -> Result<(), Failure> {
        if !std::mem::replace(&mut self.has_data, true) {
            *held = Some(value);
            return Ok(());
        }
        self.keep(held);
        if self.data.len() + 1 + value.len() > self.most {
            return Err(too_large());
        }
        self.data.push(b'\n');
        self.data.extend_from_slice(value);
        Ok(())
    }

    /// Moves the held line into the buffer, before its chunk is gone or another line follows it.
    fn keep(&mut self, held: &mut Held<'_>) {
        if let Some(line) = held.take() {
            self.data.extend_from_slice(line);
        }
    }

    /// A blank line ended the frame. Without data there is none.
    fn dispatch(&mut self, held: Held<'_>, each: &mut Each<'_>) -> Result<(), Failure> {
        let handed = if self.has_data {
            each(Frame { event: &self.event, data: held.unwrap_or(&self.data) })
        } else {
            Ok(())
        };
        self.event.clear();
        self.data.clear();
        self.has_data = false;
        handed
    }

    /// The line that began in an earlier chunk is whole now.
    fn take_buffered(&mut self, each: &mut Each<'_>) -> Result<(), Failure> {
        let mut line = std::mem::take(&mut self.line);
        let mut held = None;
        let taken = self.take_line(&line, &mut held, each);
        self.keep(&mut held);
        line.clear();
        self.line = line;
        taken
    }

    fn buffer(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.line.len() + bytes.len() > self.most {
            return Err(too_large());
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }
}

impl Cutter for Sse {
    fn push(&mut self, bytes: &[u8], each: &mut Each<'_>) -> Result<(), Failure> {
        let mut rest = bytes;
        let mut held = None;
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_cr) {
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
                continue;
            }
            let Some(end) = line_end(rest) else {
                self.buffer(rest)?;
                break;
            };
            let line = &rest[..end];
            self.after_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if self.line.is_empty() {
                self.take_line(line, &mut held, each)?;
            } else {
                self.buffer(line)?;
                self.take_buffered(each)?;
            }
        }
        self.keep(&mut held);
        Ok(())
    }

    fn end(&mut self, each: &mut Each<'_>) -> Result<(), Failure> {
        if !self.line.is_empty() {
            self.take_buffered(each)?;
        }
        self.dispatch(None, each)
    }
}

/// A line's field and its value. A comment is a field without a name.
fn split_field(line: &[u8]) -> (&[u8], &[u8]) {
    // The two that matter come first: their names are short, so this is cheaper than a search.
    let colon = match line {
        [b'd', b'a', b't', b'a', b':', ..] => Some(4),
        _ => line.iter().position(|byte| *byte == b':'),
    };
    match colon {
        None => (line, b""),
        Some(at) => {
            let value = &line[at + 1..];
            (&line[..at], value.strip_prefix(b" ").unwrap_or(value))
        }
    }
}

/// Where the first line ends. Looks at sixteen bytes at a time without a branch, which the compiler makes one
/// instruction of.
fn line_end(bytes: &[u8]) -> Option<usize> {
    let ends = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let lanes = bytes.chunks_exact(16);
    let clear = lanes.take_while(|lane| !lane.iter().fold(false, |found, byte| found | ends(byte))).count();
    let from = clear * 16;
    bytes[from..].iter().position(ends).map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Frames = Vec<(String, Vec<u8>)>;

    fn cut<'a>(most: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> (Frames, bool) {
        let mut frames = Frames::new();
        let mut sse = Sse::with_most(most);
        let mut each = |frame: Frame<'_>| {
            frames.push((frame.event.to_owned(), frame.data.to_owned()));
            Ok(())
        };
        let pushed = chunks.into_iter().try_for_each(|chunk| sse.push(chunk, &mut each));
        let whole = pushed.and_then(|()| sse.end(&mut each)).is_ok();
        (frames, whole)
    }

    fn frames(body: &str) -> Vec<(String, String)> {
        let (frames, whole) = cut(MOST_FRAME, [body.as_bytes()]);
        assert!(whole);
        frames.into_iter().map(|(event, data)| (event, String::from_utf8(data).unwrap())).collect()
    }

    fn frame(event: &str, data: &str) -> (String, String) {
        (event.to_owned(), data.to_owned())
    }

    /// The same, the slow and obvious way: lines first, then fields, all of it copied.
    fn reference(body: &[u8]) -> Frames {
        let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
        let mut lines: Vec<Vec<u8>> = vec![Vec::new()];
        let mut at = 0;
        while at < body.len() {
            match body[at] {
                b'\r' | b'\n' => {
                    at += usize::from(body[at..].starts_with(b"\r\n"));
                    lines.push(Vec::new());
                }
                byte => lines.last_mut().unwrap().push(byte),
            }
            at += 1;
        }
        // The end of the body ends its last frame.
        lines.push(Vec::new());
        let (mut frames, mut event, mut data) = (Frames::new(), String::new(), None::<Vec<Vec<u8>>>);
        for line in lines {
            if line.is_empty() {
                let name = std::mem::take(&mut event);
                frames.extend(data.take().map(|lines| (name, lines.join(&b'\n'))));
                continue;
            }
            let mut halves = line.splitn(2, |byte| *byte == b':');
            let field = halves.next().unwrap();
            let value = halves.next().unwrap_or_default();
            let value = value.strip_prefix(b" ").unwrap_or(value).to_vec();
            match field {
                b"data" => data.get_or_insert_default().push(value),
                b"event" => event = String::from_utf8(value).unwrap_or_default(),
                _ => {}
            }
        }
        frames
    }

    #[test]
    fn a_frame_has_its_name_and_its_data() {
        let body = "event: ping\ndata: {}\n\ndata:no space\n\ndata:  two\n\n";
        assert_eq!(frames(body), [frame("ping", "{}"), frame("", "no space"), frame("", " two")]);
    }

    #[test]
    fn lines_of_data_are_joined() {
        assert_eq!(frames("data: a\ndata: b\ndata\ndata: c\n\n"), [frame("", "a\nb\n\nc")]);
    }

    #[test]
    fn comments_ids_and_names_alone_make_no_frame() {
        assert_eq!(frames(": alive\n\nid: 7\nretry: 1\n\nevent: lost\n\ndata: x\n\n"), [frame("", "x")]);
    }

    #[test]
    fn every_line_end_is_one_also_mixed() {
        let body = "event: a\r\ndata: 1\r\n\r\ndata: 2\r\rdata: 3\n\r\ndata: 4\r\n\n";
        assert_eq!(frames(body), [frame("a", "1"), frame("", "2"), frame("", "3"), frame("", "4")]);
    }

    #[test]
    fn the_end_of_the_body_ends_the_last_frame() {
        assert_eq!(frames("data: a\n\ndata: b"), [frame("", "a"), frame("", "b")]);
        assert_eq!(frames("data: a\n"), [frame("", "a")]);
        assert_eq!(frames(""), []);
    }

    #[test]
    fn a_byte_order_mark_counts_at_the_start_only() {
        assert_eq!(frames("\u{feff}data: a\n\n\u{feff}data: b\n\n"), [frame("", "a")]);
    }

    #[test]
    fn a_frame_past_the_limit_is_refused_in_one_line_or_in_many() {
        for body in ["data: 0123456789", "data: 0123\ndata: 4567\ndata: 89ab\n\n", ": a long comment here"] {
            let body = format!("data: ok\n\n{body}");
            for size in 1..=body.len() {
                let (frames, whole) = cut(13, body.as_bytes().chunks(size));
                assert_eq!((frames.len(), whole), (1, false), "{body:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn an_error_of_the_reader_ends_the_cutting() {
        let mut seen = 0;
        let cut = Sse::default().push(b"data: 1\n\ndata: 2\n\n", &mut |_| {
            seen += 1;
            Err(too_large())
        });
        assert!(cut.is_err());
        assert_eq!(seen, 1);
    }

    /// Bodies made of what matters to the format, with some noise.
    fn body() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            4 => prop::sample::select(vec![
                "data: ", "data:", "data", "event: ", "event:x", ":", "id: 1", "\n", "\r", "\r\n", "\n\n", "\u{feff}",
                " ", "ü", "日本", "🦀", "{\"text\":\"a much longer line than sixteen bytes\"}",
            ])
            .prop_map(|piece| piece.as_bytes().to_vec()),
            1 => prop::collection::vec(any::<u8>(), 0..20),
        ];
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_split_of_any_body_gives_the_same_frames(
            body in body(),
            sizes in prop::collection::vec(0_usize..24, 1..40),
        ) {
            let mut chunks = Vec::new();
            let mut rest = body.as_slice();
            for size in sizes.iter().cycle().take(body.len() + sizes.len()) {
                let (chunk, later) = rest.split_at((*size).min(rest.len()));
                chunks.push(chunk);
                rest = later;
            }
            chunks.push(rest);
            let expected = (reference(&body), true);
            prop_assert_eq!(&cut(MOST_FRAME, [body.as_slice()]), &expected);
            prop_assert_eq!(&cut(MOST_FRAME, chunks), &expected);
            prop_assert_eq!(&cut(MOST_FRAME, body.chunks(1)), &expected);
        }

        #[test]
        fn a_limit_is_reached_at_the_same_frame_however_the_body_is_split(body in body(), most in 1_usize..40) {
            let whole = cut(most, [body.as_slice()]);
            prop_assert_eq!(&cut(most, body.chunks(1)), &whole);
            prop_assert_eq!(&cut(most, body.chunks(7)), &whole);
        }
    }
}
