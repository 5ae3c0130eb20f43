//! The grammar of patches. Pure.

/// One thing a patch does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hunk {
    Add { path: String, content: String },
    Delete { path: String },
    Update { path: String, to: Option<String>, chunks: Vec<Chunk> },
}

/// A piece of a file that changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Lines that come somewhere before it, in order.
    pub(super) after: Vec<String>,
    pub(super) lines: Vec<Line>,
    /// It is at the end of the file.
    pub(super) at_end: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    Keep(String),
    Remove(String),
    Add(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the patch: {problem}")]
pub(super) struct ParseError {
    line: usize,
    problem: String,
}

impl Hunk {
    /// The paths it names, the one it reads first.
    pub(super) fn paths(&self) -> Vec<&str> {
        match self {
            Self::Add { path, .. } | Self::Delete { path } | Self::Update { path, to: None, .. } => {
                vec![path]
            }
            Self::Update { path, to: Some(to), .. } => vec![path, to],
        }
    }
}

pub(super) fn parse(input: &str) -> Result<Vec<Hunk>, ParseError> {
    let mut lines = Lines::of(input);
    lines.unwrap_heredoc();
    match lines.next() {
        Some("*** Begin Patch") => {}
        _ => return Err(lines.error("a patch begins with *** Begin Patch")),
    }
    let mut hunks = Vec::new();
    loop {
        let Some(line) = lines.next() else {
            return Err(lines.error("the patch was cut off: it ends with *** End Patch"));
        };
        let line = line.trim_end();
        if line == "*** End Patch" {
            break;
        } else if let Some(path) = line.strip_prefix("*** Add File: ") {
            hunks.push(Hunk::Add { path: path.to_owned(), content: added(&mut lines)? });
        } else if let Some(path) = line.strip_prefix("*** Delete File: ") {
            hunks.push(Hunk::Delete { path: path.to_owned() });
        } else if let Some(path) = line.strip_prefix("*** Update File: ") {
            let to = lines.next_if(|line| line.starts_with("*** Move to: "));
            let to =
                to.and_then(|line| line.strip_prefix("*** Move to: ")).map(|to| to.trim_end().to_owned());
            let chunks = chunks(&mut lines)?;
            if chunks.is_empty() && to.is_none() {
                return Err(lines.error(&format!("the update of {path} changes nothing")));
            }
            hunks.push(Hunk::Update { path: path.to_owned(), to, chunks });
        } else if !line.is_empty() {
            return Err(
                lines.error("expected *** Add File:, *** Delete File:, *** Update File: or *** End Patch")
            );
        }
    }
    if lines.any(|line| !line.trim().is_empty()) {
        return Err(lines.error("something follows *** End Patch"));
    }
    if hunks.is_empty() {
        return Err(lines.error("the patch is empty"));
    }
    Ok(hunks)
}

fn added(lines: &mut Lines<'_>) -> Result<String, ParseError> {
    let mut content = String::new();
    while let Some(line) = lines.next_if(|line| !line.starts_with("***")) {
        if line.is_empty() && lines.peek().is_none_or(is_header) {
            break;
        }
        let Some(text) = line.strip_prefix('+') else {
            return Err(lines.error("every line of a new file begins with +"));
        };
        content.push_str(text);
        content.push('\n');
    }
    Ok(content)
}

fn chunks(lines: &mut Lines<'_>) -> Result<Vec<Chunk>, ParseError> {
    let mut chunks = Vec::new();
    while let Some(chunk) = chunk(lines, chunks.is_empty())? {
        chunks.push(chunk);
    }
    Ok(chunks)
}

/// The next piece: `@@` lines, then lines of the file. The first piece may do without `@@`.
fn chunk(lines: &mut Lines<'_>, first: bool) -> Result<Option<Chunk>, ParseError> {
    let mut chunk = Chunk::default();
    let mut marked = false;
    while let Some(line) = lines.next_if(|line| line.starts_with("@@")) {
        marked = true;
        let after = line.trim_start_matches('@').trim_end();
        let after = after.strip_prefix(' ').unwrap_or(after);
        if !after.is_empty() {
            chunk.after.push(after.to_owned());
        }
    }
    if !marked && !first {
        return match lines.peek() {
            Some(line) if !is_header(line) && !line.trim().is_empty() => {
                lines.next();
                Err(lines.error("another piece of the file begins with @@"))
            }
            _ => Ok(None),
        };
    }
    while let Some(line) = lines.next_if(|line| !is_header(line) && !line.starts_with("@@")) {
        chunk.lines.push(match line.split_at_checked(1) {
            Some((" ", text)) => Line::Keep(text.to_owned()),
            Some(("-", text)) => Line::Remove(text.to_owned()),
            Some(("+", text)) => Line::Add(text.to_owned()),
            // An empty line of the file whose one space was lost.
            None => Line::Keep(String::new()),
            Some(_) => return Err(lines.error("a line of a piece begins with a space, - or +")),
        });
    }
    chunk.at_end = lines.next_if(|line| line.trim_end() == "*** End of File").is_some();
    if chunk.lines.is_empty() {
        return if marked { Err(lines.error("this @@ has no lines")) } else { Ok(None) };
    }
    Ok(Some(chunk))
}

fn is_header(line: &str) -> bool {
    line.starts_with("*** ")
}

/// The lines of a patch, counted.
struct Lines<'a> {
    lines: Vec<&'a str>,
    next: usize,
}

impl<'a> Lines<'a> {
    fn of(input: &'a str) -> Self {
        Self { lines: input.trim().lines().collect(), next: 0 }
    }

    /// Models send the command that they would type: `apply_patch <<'EOF'` and the word at the end.
    fn unwrap_heredoc(&mut self) {
        let Some(first) = self.lines.first() else { return };
        let Some((command, word)) = first.split_once("<<") else { return };
        let word = word.trim().trim_matches(['\'', '"']);
        let is_wrapper = matches!(command.trim(), "" | "apply_patch" | "applypatch") && !word.is_empty();
        if is_wrapper && self.lines.last().is_some_and(|last| last.trim() == word) {
            self.lines.pop();
            self.next = 1;
        }
    }

    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.next).copied()
    }

    fn next_if(&mut self, wanted: impl Fn(&str) -> bool) -> Option<&'a str> {
        let line = self.peek().filter(|line| wanted(line))?;
        self.next += 1;
        Some(line)
    }

    fn error(&self, problem: &str) -> ParseError {
        ParseError { line: self.next.max(1), problem: problem.to_owned() }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.next_if(|_| true)
    }
}
