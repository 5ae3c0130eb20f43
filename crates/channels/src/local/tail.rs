//! Reading on in an inbox: the whole lines behind a cursor, a bounded number of them at a time.
//!
//! Blocking file work, called from a thread that may block. It changes nothing; what was read counts only when the
//! sink has accepted it.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use super::cursor::{Cursor, Identity, WINDOW, fingerprint};
use super::line::{self, Line, Position};
use super::require_plain_file;

/// The longest line that is read, in bytes.
pub const MAX_LINE: usize = 1024 * 1024;
/// Lines read at once.
const MAX_LINES: usize = 100;
/// Bytes read at once; a multiple of the longest line, so that every line fits.
const MAX_BYTES: usize = 4 * MAX_LINE;

/// What a look found. Unchanged since the last look means that nothing has to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    file: Identity,
    len: u64,
    modified: (i64, i64),
}

impl Stamp {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Ok(Self { file: Identity::of(&metadata), len: metadata.len(), modified })
    }
}

/// Lines to be accepted together, with the cursor behind them.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) lines: Vec<Line>,
    /// Lines that were too long: where, and how many bytes.
    pub(super) oversize: Vec<(u64, u64)>,
    pub(super) cursor: Cursor,
    /// Whether the cursor is further than before.
    pub(super) moved: bool,
    /// Whether the limits ended it: there may be more to read at once.
    pub(super) more: bool,
}

/// Reads on behind `held`.
pub(super) fn read(path: &Path, held: Option<&Cursor>) -> io::Result<Batch> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    require_plain_file(&metadata)?;
    let (cursor, unread) = locate(&file, &metadata, held)?;
    let mut batch = Batch { lines: Vec::new(), oversize: Vec::new(), cursor, moved: false, more: false };
    let full = unread.bytes.len() - unread.lead == MAX_BYTES;
    let mut read = 0;
    while let Some(line) = unread.line_at(batch.cursor.offset) {
        if read == MAX_LINES {
            batch.more = true;
            return Ok(batch);
        }
        batch.take(line);
        batch.cursor.before = unread.fingerprint_at(batch.cursor.offset);
        read += 1;
    }
    if full && read == 0 {
        skip_endless(&file, &mut batch)?;
    }
    batch.more = full && batch.moved;
    Ok(batch)
}

impl Batch {
    /// Adds the line that begins at the cursor, given without its end.
    fn take(&mut self, bytes: &[u8]) {
        let Cursor { generation, offset, .. } = self.cursor;
        if bytes.len() > MAX_LINE {
            self.oversize.push((offset, bytes.len() as u64));
        } else {
            self.lines.extend(line::parse(bytes, Position { generation, offset }));
        }
        self.cursor.offset += bytes.len() as u64 + 1;
        self.moved = true;
    }
}

/// Bytes of the file from `start` on. The first `lead` of them were read before.
struct Unread {
    start: u64,
    lead: usize,
    bytes: Vec<u8>,
}

impl Unread {
    fn read(file: &File, cursor: &Cursor, len: u64) -> io::Result<Self> {
        let start = cursor.window_start();
        let lead = cursor.offset - start;
        let wanted = usize::try_from(len.saturating_sub(start)).unwrap_or(usize::MAX);
        let lead = usize::try_from(lead).unwrap_or(usize::MAX);
        Ok(Self { start, lead, bytes: read_at(file, start, wanted.min(lead + MAX_BYTES))? })
    }

    fn index(&self, offset: u64) -> usize {
        usize::try_from(offset - self.start).unwrap_or(usize::MAX)
    }

    /// The whole line that begins there, without its end.
    fn line_at(&self, offset: u64) -> Option<&[u8]> {
        let rest = self.bytes.get(self.index(offset)..)?;
        rest.iter().position(|byte| *byte == b'\n').map(|end| &rest[..end])
    }

    fn fingerprint_at(&self, offset: u64) -> String {
        let end = self.index(offset);
        let window = usize::try_from(WINDOW.min(offset)).unwrap_or(end);
        fingerprint(&self.bytes[end.saturating_sub(window)..end])
    }
}

/// Where to go on in the file that is there now, and what stands there.
fn locate(file: &File, metadata: &Metadata, held: Option<&Cursor>) -> io::Result<(Cursor, Unread)> {
    let identity = Identity::of(metadata);
    let start = Cursor::start(1, identity);
    let unread = Unread::read(file, held.unwrap_or(&start), metadata.len())?;
    let before = unread.bytes.get(..unread.lead).unwrap_or(&unread.bytes);
    let cursor = Cursor::resume(held, identity, before);
    if held.is_none_or(|held| held.offset == cursor.offset) {
        return Ok((cursor, unread));
    }
    let unread = Unread::read(file, &cursor, metadata.len())?;
    Ok((cursor, unread))
}

/// Passes a line that does not fit into one read, without keeping it. Nothing happens while its end is missing.
fn skip_endless(file: &File, batch: &mut Batch) -> io::Result<()> {
    let begin = batch.cursor.offset;
    let mut at = begin;
    loop {
        let chunk = read_at(file, at, MAX_BYTES)?;
        if chunk.is_empty() {
            return Ok(());
        }
        if let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            let next = at + end as u64 + 1;
            let window = read_at(file, next - WINDOW, usize::try_from(WINDOW).unwrap_or(0))?;
            batch.cursor.offset = next;
            batch.cursor.before = fingerprint(&window);
            batch.oversize.push((begin, next - begin - 1));
            batch.moved = true;
            return Ok(());
        }
        at += chunk.len() as u64;
    }
}

/// Up to `wanted` bytes; fewer only at the end of the file.
fn read_at(file: &File, offset: u64, wanted: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; wanted];
    let mut filled = 0;
    while filled < wanted {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;

    struct Inbox {
        _folder: tempfile::TempDir,
        path: PathBuf,
        cursor: Option<Cursor>,
    }

    impl Inbox {
        fn with(content: impl AsRef<[u8]>) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("inbox");
            fs::write(&path, content).unwrap();
            Self { _folder: folder, path, cursor: None }
        }

        fn append(&self, bytes: impl AsRef<[u8]>) {
            let mut file = fs::OpenOptions::new().append(true).open(&self.path).unwrap();
            file.write_all(bytes.as_ref()).unwrap();
        }

        fn batch(&mut self) -> Batch {
            let batch = read(&self.path, self.cursor.as_ref()).unwrap();
            // Through its text, as after a restart.
            let text = serde_json::to_string(&batch.cursor).unwrap();
            self.cursor = Some(Cursor::parse(&text).unwrap());
            batch
        }

        /// Everything there is, as (id, text).
        fn drain(&mut self) -> Vec<(String, String)> {
            let mut lines = Vec::new();
            loop {
                let batch = self.batch();
                lines.extend(batch.lines.into_iter().map(|line| (line.id, line.text)));
                if !batch.moved {
                    return lines;
                }
            }
        }

        fn texts(&mut self) -> Vec<String> {
            self.drain().into_iter().map(|(_, text)| text).collect()
        }
    }

    #[test]
    fn a_line_without_its_end_waits() {
        let mut inbox = Inbox::with("one\ntw");
        assert_eq!(inbox.texts(), ["one"]);
        inbox.append("o");
        assert_eq!(inbox.texts(), Vec::<String>::new());
        inbox.append("\r\n\n");
        assert_eq!(inbox.drain(), [("@1-4".to_owned(), "two".to_owned())]);
    }

    #[test]
    fn a_batch_has_a_hundred_lines_at_most() {
        let mut inbox = Inbox::with("x\n".repeat(250));
        let sizes: Vec<_> = (0..4).map(|_| inbox.batch()).map(|it| (it.lines.len(), it.more)).collect();
        assert_eq!(sizes, [(100, true), (100, true), (50, false), (0, false)]);
    }

    #[test]
    fn a_file_that_was_replaced_cut_or_rewritten_is_new() {
        let mut inbox = Inbox::with("one\ntwo\n");
        assert_eq!(inbox.drain().len(), 2);
        let other = inbox.path.with_extension("new");
        fs::write(&other, "one\ntwo\n").unwrap();
        fs::rename(&other, &inbox.path).unwrap();
        let ids: Vec<_> = inbox.drain().into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, ["@2-0", "@2-4"], "replaced by one with the same content");
        fs::write(&inbox.path, "").unwrap();
        assert_eq!(inbox.drain(), [], "cut");
        inbox.append("six\n");
        assert_eq!(inbox.drain(), [("@3-0".to_owned(), "six".to_owned())]);
        fs::write(&inbox.path, "ten\nsix\n").unwrap();
        let ids: Vec<_> = inbox.drain().into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, ["@4-0", "@4-4"], "rewritten, longer than before");
    }

    #[test]
    fn a_change_before_the_remembered_bytes_does_not_matter_and_one_in_them_does() {
        let long = format!("{}\n", "a".repeat(2_000));
        let mut inbox = Inbox::with(&long);
        assert_eq!(inbox.drain().len(), 1);
        let file = fs::OpenOptions::new().write(true).open(&inbox.path).unwrap();
        file.write_all_at(b"b", 0).unwrap();
        inbox.append("next\n");
        assert_eq!(inbox.texts(), ["next"]);
        file.write_all_at(b"b", 1_900).unwrap();
        assert_eq!(inbox.drain().len(), 2);
    }

    #[test]
    fn a_line_that_is_too_long_is_left_out_and_the_next_is_read() {
        for size in [MAX_LINE + 1, MAX_BYTES, MAX_BYTES + 1, 2 * MAX_BYTES + 7] {
            let mut inbox = Inbox::with(format!("{}\nshort\n", "x".repeat(size)));
            let (mut texts, mut oversize) = (Vec::new(), Vec::new());
            for _ in 0..3 {
                let batch = inbox.batch();
                texts.extend(batch.lines.into_iter().map(|line| line.text));
                oversize.extend(batch.oversize);
            }
            assert_eq!((texts, oversize), (vec!["short".to_owned()], vec![(0, size as u64)]));
            inbox.append("after\n");
            assert_eq!(inbox.texts(), ["after"], "the place behind it is remembered");
        }
        let mut longest = Inbox::with(format!("{}\n", "x".repeat(MAX_LINE)));
        assert_eq!(longest.texts(), ["x".repeat(MAX_LINE)]);
    }

    #[test]
    fn an_endless_line_waits_for_its_end() {
        let mut inbox = Inbox::with("x".repeat(MAX_BYTES + 5));
        let batch = inbox.batch();
        assert!(!batch.moved && !batch.more && batch.oversize.is_empty());
        inbox.append("\nshort\n");
        assert_eq!(inbox.texts(), ["short"]);
    }

    #[test]
    fn what_is_no_plain_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path(), None).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(read(&folder.path().join("none"), None).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    fn content() -> impl Strategy<Value = Vec<u8>> {
        let line = prop_oneof![
            "[a-c ]{0,6}".prop_map(String::into_bytes),
            Just(br#"{"input":"hi","sessionKey":"k"}"#.to_vec()),
            Just(br#"{"input":"#.to_vec()),
            Just("é\r".as_bytes().to_vec()),
            Just(b"\xef\xbb\xbf\xff".to_vec()),
            Just(vec![b'z'; 1_500]),
        ];
        prop::collection::vec(line, 0..130).prop_map(|lines| lines.join(&b'\n'))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn however_it_is_appended_every_line_comes_once(
            content in content(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let whole = Inbox::with(&content).drain();
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(content.len() + 1)).collect();
            cuts.push(content.len());
            cuts.sort_unstable();
            let mut inbox = Inbox::with("");
            let (mut pieces, mut from) = (Vec::new(), 0);
            for cut in cuts {
                inbox.append(&content[from..cut]);
                pieces.extend(inbox.drain());
                from = cut;
            }
            prop_assert_eq!(pieces, whole);
        }
    }
}
