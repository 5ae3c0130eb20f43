//! `logs.tail`: the gateway's log, from where a client stopped reading.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::methods::Caller;
use crate::ws::frame::WireError;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LogsTail {
    cursor: Option<u64>,
    #[schemars(range(min = 1, max = 5000))]
    limit: Option<usize>,
    #[schemars(range(min = 1, max = 1_000_000))]
    max_bytes: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LogPage {
    file: PathBuf,
    /// Where to read on.
    cursor: u64,
    size: u64,
    lines: Vec<String>,
    /// Whether older lines were left out.
    truncated: bool,
    /// Whether it does not begin where the client stopped.
    reset: bool,
}

pub(crate) async fn tail(caller: Caller, params: LogsTail) -> Result<LogPage, WireError> {
    let file = caller.gate.engine().home().logs().join("gateway.log");
    let read = tidegate_runtime::spawn_blocking("gateway.logs", move || read(&file, &params));
    let read = read.join().await.map_err(|end| WireError::unavailable(end.to_string()))?;
    read.map_err(|error| WireError::unavailable(format!("log read failed: {error}")))
}

fn read(path: &Path, params: &LogsTail) -> std::io::Result<LogPage> {
    let (limit, most) = (params.limit.unwrap_or(500), params.max_bytes.unwrap_or(250_000));
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let file = path.to_owned();
            return Ok(LogPage {
                file,
                cursor: 0,
                size: 0,
                lines: Vec::new(),
                truncated: false,
                reset: false,
            });
        }
        Err(error) => return Err(error),
    };
    let size = file.metadata()?.len();
    let asked = params.cursor;
    // The file is another one, or too much was written since.
    let reset = asked.is_some_and(|cursor| cursor > size || size - cursor > most);
    let from = match asked {
        Some(cursor) if !reset => cursor,
        _ => size.saturating_sub(most),
    };
    let mut partial = false;
    if from > 0 {
        file.seek(SeekFrom::Start(from - 1))?;
        let mut before = [0];
        file.read_exact(&mut before)?;
        partial = before[0] != b'\n';
    }
    let mut bytes = Vec::new();
    file.by_ref().take(most).read_to_end(&mut bytes)?;
    // A line that is being written is read when it is whole.
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let text = String::from_utf8_lossy(&bytes[..whole]);
    let mut lines: Vec<String> = text.lines().skip(usize::from(partial)).map(str::to_owned).collect();
    let truncated = lines.len() > limit || (asked.is_none() && from > 0);
    if lines.len() > limit {
        lines.drain(..lines.len() - limit);
    }
    let cursor = from + whole as u64;
    Ok(LogPage { file: path.to_owned(), cursor, size, lines, truncated, reset })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_goes_on_where_it_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.log");
        let ask = |cursor, limit, max_bytes| read(&path, &LogsTail { cursor, limit, max_bytes }).unwrap();
        assert!(ask(None, None, None).lines.is_empty());
        std::fs::write(&path, "one\ntwo\nthr").unwrap();
        let first = ask(None, None, None);
        assert_eq!((first.lines, first.cursor), (vec!["one".to_owned(), "two".to_owned()], 8));
        std::fs::write(&path, "one\ntwo\nthree\nfour\n").unwrap();
        let next = ask(Some(8), None, None);
        assert_eq!((next.lines, next.reset), (vec!["three".to_owned(), "four".to_owned()], false));
        assert_eq!(ask(Some(0), Some(1), None).lines, ["four"]);
        // Too far behind, or ahead of a file that was begun anew.
        let reset = ask(Some(0), None, Some(8));
        assert_eq!((reset.lines, reset.reset), (vec!["four".to_owned()], true));
        assert!(ask(Some(99), None, None).reset);
    }
}
