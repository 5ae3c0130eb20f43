//! Takes the output of one program as it comes, cleans it and keeps what may be kept of it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_policy::{Sink, Stream};
use tokio::sync::Notify;

use super::buffer::{Ends, Tail, left_out_mark};
use super::clean::Cleaner;

/// How many bytes of a command's output are kept, and shown at most.
pub(crate) const OUTPUT_CAP: usize = 100_000;

pub(crate) struct Collector {
    collected: Mutex<Collected>,
    /// Rung when a program asked where the cursor is.
    asked: Notify,
}

struct Collected {
    stdout: Kept,
    stderr: Kept,
    /// Both in the order in which they came, for people and models who read.
    both: Ends,
    /// The same for those who read on from where they were.
    log: Tail,
    /// Up to where it was polled.
    polled: u64,
    cursor_queries: usize,
    /// Hosts that the gateway did not lead it to.
    turned_away: Vec<String>,
}

struct Kept {
    cleaner: Cleaner,
    ends: Ends,
}

/// What a command wrote, as far as it was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) both: String,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) truncated: bool,
    /// Hosts that the gateway did not lead it to.
    pub(crate) turned_away: Vec<String>,
}

/// Some lines of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) text: String,
    /// The number of the first line, counted from the first that is still kept.
    pub(crate) offset: usize,
    pub(crate) count: usize,
    pub(crate) total: usize,
    /// Bytes before the first kept line that are gone.
    pub(crate) gone: u64,
}

impl Collector {
    pub(crate) fn new(cap: usize) -> Self {
        let kept = || Kept { cleaner: Cleaner::default(), ends: Ends::new(cap) };
        let collected = Collected {
            stdout: kept(),
            stderr: kept(),
            both: Ends::new(cap),
            log: Tail::new(cap),
            polled: 0,
            cursor_queries: 0,
            turned_away: Vec::new(),
        };
        Self { collected: Mutex::new(collected), asked: Notify::new() }
    }

    /// The lists stay whole whatever panics beside them.
    fn lock(&self) -> MutexGuard<'_, Collected> {
        self.collected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it wrote in at most `cap` bytes each for both and for the two streams together.
    pub(crate) fn written(&self, cap: usize) -> Written {
        let collected = self.lock();
        let (out, err) = (collected.stdout.ends.kept(), collected.stderr.ends.kept());
        let for_err = err.min((cap / 2).max(cap.saturating_sub(out)));
        let (stdout, cut_out) = collected.stdout.ends.within(cap - for_err);
        let (stderr, cut_err) = collected.stderr.ends.within(for_err);
        let (both, cut) = collected.both.within(cap);
        let turned_away = collected.turned_away.clone();
        Written { both, stdout, stderr, truncated: cut || cut_out || cut_err, turned_away }
    }

    /// What came since the last poll.
    pub(crate) fn poll(&self) -> String {
        let mut collected = self.lock();
        let (text, gone) = collected.log.since(collected.polled);
        collected.polled = collected.log.end();
        if gone == 0 { text } else { format!("{}\n{text}", left_out_mark(gone)) }
    }

    /// Lines of what is kept: from `offset` on, or the last ones.
    pub(crate) fn lines(&self, offset: Option<usize>, limit: usize) -> Lines {
        let collected = self.lock();
        let text = collected.log.text();
        let all: Vec<&str> = text.lines().collect();
        let offset = offset.unwrap_or(all.len().saturating_sub(limit)).min(all.len());
        let chosen = &all[offset..(offset.saturating_add(limit)).min(all.len())];
        Lines {
            text: chosen.join("\n"),
            offset,
            count: chosen.len(),
            total: all.len(),
            gone: collected.log.begins(),
        }
    }

    /// What came since a place in the whole, and the place where that ends.
    pub(crate) fn since(&self, place: u64) -> (String, u64) {
        let collected = self.lock();
        (collected.log.since(place).0, collected.log.end())
    }

    /// Nothing more comes: half a character at the end is shown as what it is.
    pub(crate) fn finish(&self) {
        let collected = &mut *self.lock();
        for kept in [&mut collected.stdout, &mut collected.stderr] {
            let text = kept.cleaner.finish();
            kept.ends.push(&text);
            collected.both.push(&text);
            collected.log.push(&text);
        }
    }

    /// Waits until a program asks for the cursor's position; answers how often it did.
    pub(crate) async fn cursor_queries(&self) -> usize {
        loop {
            let queries = std::mem::take(&mut self.lock().cursor_queries);
            if queries > 0 {
                return queries;
            }
            self.asked.notified().await;
        }
    }
}

impl Sink for Collector {
    fn write(&self, stream: Stream, bytes: &[u8]) {
        let collected = &mut *self.lock();
        let kept = match stream {
            Stream::Stdout => &mut collected.stdout,
            Stream::Stderr => &mut collected.stderr,
        };
        let cleaned = kept.cleaner.push(bytes);
        kept.ends.push(&cleaned.text);
        collected.both.push(&cleaned.text);
        collected.log.push(&cleaned.text);
        if cleaned.cursor_queries > 0 {
            collected.cursor_queries += cleaned.cursor_queries;
            self.asked.notify_one();
        }
    }

    /// Programs tell at most that something did not answer; whoever reads their output wants to know why.
    fn turned_away(&self, host: &str, why: &str) {
        let line = format!("[refused by the gateway: {why}]\n");
        let collected = &mut *self.lock();
        collected.both.push(&line);
        collected.log.push(&line);
        collected.turned_away.push(host.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(cap: usize, pieces: &[(Stream, &str)]) -> Written {
        let collector = Collector::new(cap);
        for (stream, text) in pieces {
            collector.write(*stream, text.as_bytes());
        }
        collector.finish();
        collector.written(cap)
    }

    #[test]
    fn a_host_that_was_not_reached_is_told_beside_the_output() {
        let collector = Collector::new(1000);
        collector.write(Stream::Stderr, b"curl: 403\n");
        collector.turned_away("evil.test", "evil.test is not in sandbox.allowHosts");
        let written = collector.written(1000);
        assert_eq!(
            written.both,
            "curl: 403\n[refused by the gateway: evil.test is not in sandbox.allowHosts]\n"
        );
        assert_eq!(
            (written.stderr.as_str(), written.turned_away),
            ("curl: 403\n", vec!["evil.test".to_owned()])
        );
    }

    #[test]
    fn streams_are_told_apart_and_kept_in_order_together() {
        let written = written(
            100,
            &[
                (Stream::Stdout, "one\n"),
                (Stream::Stderr, "\x1b[31mtwo\x1b[0m\n"),
                (Stream::Stdout, "three\n"),
            ],
        );
        let expected = Written {
            both: "one\ntwo\nthree\n".into(),
            stdout: "one\nthree\n".into(),
            stderr: "two\n".into(),
            truncated: false,
            turned_away: Vec::new(),
        };
        assert_eq!(written, expected);
    }

    #[test]
    fn one_stream_leaves_the_other_at_least_half_of_the_room() {
        let long = "x".repeat(100);
        let written = written(20, &[(Stream::Stdout, &long), (Stream::Stderr, "short")]);
        assert_eq!(written.stderr, "short");
        assert!(written.stdout.starts_with("xxxxxxx\n… 85 B left out …\n"), "{}", written.stdout);
        assert!(written.truncated);
    }

    #[test]
    fn a_poll_gives_what_is_new_and_says_what_it_missed() {
        let collector = Collector::new(10);
        collector.write(Stream::Stdout, b"abc");
        assert_eq!(collector.poll(), "abc");
        assert_eq!(collector.poll(), "");
        collector.write(Stream::Stdout, b"0123456789ABCDEF");
        assert_eq!(collector.poll(), "… 6 B left out …\n6789ABCDEF");
    }

    #[test]
    fn a_log_is_read_by_lines() {
        let collector = Collector::new(100);
        collector.write(Stream::Stdout, b"0\n1\n2\n3\n4\n");
        assert_eq!(
            collector.lines(Some(1), 2),
            Lines { text: "1\n2".into(), offset: 1, count: 2, total: 5, gone: 0 }
        );
        assert_eq!(collector.lines(None, 2).text, "3\n4");
        assert_eq!(collector.lines(Some(99), 2).count, 0);
        assert_eq!(collector.lines(Some(3), usize::MAX).text, "3\n4");
    }

    #[test]
    fn endless_output_takes_no_endless_memory() {
        let collector = Collector::new(1_000);
        let piece = "0123456789abcdef\n".repeat(1_000);
        for _ in 0..200 {
            collector.write(Stream::Stdout, piece.as_bytes());
        }
        let written = collector.written(1_000);
        assert!(written.truncated && written.stdout.len() < 1_100 && written.both.len() < 1_100);
        assert!(written.stdout.contains("3.3 MB left out"), "{}", written.stdout);
    }
}
