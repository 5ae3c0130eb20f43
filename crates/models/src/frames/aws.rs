//! Amazon's binary event stream: messages of a prelude, headers, a payload, and a checksum of each part.
//!
//! A frame is named after its `:event-type`, or after its `:exception-type` when the server reports a failure that way.

use super::{Cutter, Each, Frame, MOST_FRAME, too_large};
use crate::classify::classify;
use crate::failure::{Failure, FailureKind};

/// Two lengths and their checksum.
const PRELUDE: usize = 12;
/// The checksum of the whole message, at its end.
const CHECKSUM: usize = 4;

#[derive(Default)]
pub(crate) struct AwsEvents {
    /// The beginning of a message that is not complete.
    rest: Vec<u8>,
}

impl Cutter for AwsEvents {
    fn push(&mut self, bytes: &[u8], each: &mut Each<'_>) -> Result<(), Failure> {
        if self.rest.is_empty() {
            let used = cut(bytes, each)?;
            self.rest.extend_from_slice(&bytes[used..]);
        } else {
            self.rest.extend_from_slice(bytes);
            let used = cut(&self.rest, each)?;
            self.rest.drain(..used);
        }
        Ok(())
    }

    fn end(&mut self, _each: &mut Each<'_>) -> Result<(), Failure> {
        if self.rest.is_empty() { Ok(()) } else { Err(broken("ends inside a message")) }
    }
}

fn broken(what: &str) -> Failure {
    Failure::new(FailureKind::Broken, format!("the event stream {what}"))
}

/// Cuts whole messages from the front; how many bytes they had.
fn cut(bytes: &[u8], each: &mut Each<'_>) -> Result<usize, Failure> {
    let mut used = 0;
    while let Some(length) = length(&bytes[used..])? {
        let Some(message) = bytes.get(used..used + length) else { break };
        read(message, each)?;
        used += length;
    }
    Ok(used)
}

/// The length of the message that begins here, once its prelude is there and known to be undamaged.
fn length(bytes: &[u8]) -> Result<Option<usize>, Failure> {
    let Some(prelude) = bytes.get(..PRELUDE) else { return Ok(None) };
    if crc32(&prelude[..8]) != number(&prelude[8..]) {
        return Err(broken("is damaged: the checksum of a prelude is wrong"));
    }
    let (total, headers) = (number(prelude) as usize, number(&prelude[4..]) as usize);
    if total > MOST_FRAME {
        return Err(too_large());
    }
    if total < PRELUDE + CHECKSUM || headers > total - PRELUDE - CHECKSUM {
        return Err(broken("is damaged: the lengths of a message do not fit"));
    }
    Ok(Some(total))
}

/// One whole message. [`length`] has looked at its lengths.
fn read(message: &[u8], each: &mut Each<'_>) -> Result<(), Failure> {
    let (content, checksum) = message.split_at(message.len() - CHECKSUM);
    if crc32(content) != number(checksum) {
        return Err(broken("is damaged: the checksum of a message is wrong"));
    }
    let (headers, data) = content[PRELUDE..].split_at(number(&message[4..]) as usize);
    let headers =
        Headers::read(headers).ok_or_else(|| broken("is damaged: a message's headers cannot be read"))?;
    match headers.message_type {
        "error" => Err(classify(None, &format!("{}: {}", headers.error_code, headers.error_message))),
        "exception" => each(Frame { event: headers.exception_type, data }),
        _ => each(Frame { event: headers.event_type, data }),
    }
}

/// The headers that matter here.
#[derive(Default)]
struct Headers<'a> {
    message_type: &'a str,
    event_type: &'a str,
    exception_type: &'a str,
    error_code: &'a str,
    error_message: &'a str,
}

impl<'a> Headers<'a> {
    fn read(mut bytes: &'a [u8]) -> Option<Self> {
        let mut headers = Self::default();
        while let Some((length, rest)) = bytes.split_first() {
            let (name, rest) = rest.split_at_checked(usize::from(*length))?;
            let (kind, rest) = rest.split_first()?;
            let (value, rest) = value(*kind, rest)?;
            bytes = rest;
            // Only texts are asked for; whatever else there is, is passed over.
            let Some(text) = (*kind == 7).then(|| std::str::from_utf8(value).ok()).flatten() else {
                continue;
            };
            match name {
                b":message-type" => headers.message_type = text,
                b":event-type" => headers.event_type = text,
                b":exception-type" => headers.exception_type = text,
                b":error-code" => headers.error_code = text,
                b":error-message" => headers.error_message = text,
                _ => {}
            }
        }
        Some(headers)
    }
}

/// A header's value by its type, and what follows it.
fn value(kind: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let fixed = match kind {
        0 | 1 => 0,
        2 => 1,
        3 => 2,
        4 => 4,
        5 | 8 => 8,
        9 => 16,
        6 | 7 => {
            let (length, rest) = bytes.split_at_checked(2)?;
            return rest.split_at_checked(usize::from(u16::from_be_bytes([length[0], length[1]])));
        }
        _ => return None,
    };
    bytes.split_at_checked(fixed)
}

/// The first four bytes, the highest first.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// The checksum of zip and PNG, a byte at a time.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    !bytes.iter().fold(u32::MAX, |sum, byte| TABLE[usize::from(sum.to_le_bytes()[0] ^ byte)] ^ (sum >> 8))
}

const fn table() -> [u32; 256] {
    let mut table = [0_u32; 256];
    let mut entry = 0_u32;
    while entry < 256 {
        let (mut sum, mut bit) = (entry, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 { 0xEDB8_8320 ^ (sum >> 1) } else { sum >> 1 };
            bit += 1;
        }
        table[entry as usize] = sum;
        entry += 1;
    }
    table
}

/// Writes messages as Amazon does.
#[cfg(test)]
pub(crate) mod encode {
    use super::crc32;

    /// A message with text headers.
    pub(crate) fn message(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
        let mut head = Vec::new();
        for (name, value) in headers {
            head.push(u8::try_from(name.len()).unwrap());
            head.extend(name.as_bytes());
            head.push(7);
            head.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
            head.extend(value.as_bytes());
        }
        raw(&head, payload)
    }

    pub(crate) fn raw(headers: &[u8], payload: &[u8]) -> Vec<u8> {
        let total = u32::try_from(16 + headers.len() + payload.len()).unwrap();
        let mut message = total.to_be_bytes().to_vec();
        message.extend(u32::try_from(headers.len()).unwrap().to_be_bytes());
        message.extend(crc32(&message).to_be_bytes());
        message.extend(headers);
        message.extend(payload);
        message.extend(crc32(&message).to_be_bytes());
        message
    }

    pub(crate) fn event(name: &str, payload: &str) -> Vec<u8> {
        let headers =
            [(":event-type", name), (":content-type", "application/json"), (":message-type", "event")];
        message(&headers, payload.as_bytes())
    }

    pub(crate) fn exception(name: &str, payload: &str) -> Vec<u8> {
        message(&[(":exception-type", name), (":message-type", "exception")], payload.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::encode::{event, exception, message, raw};
    use super::*;

    type Frames = Vec<(String, Vec<u8>)>;

    fn frames<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> (Frames, Result<(), Failure>) {
        let (mut frames, mut cutter) = (Frames::new(), AwsEvents::default());
        let mut each = |frame: Frame<'_>| {
            frames.push((frame.event.to_owned(), frame.data.to_vec()));
            Ok(())
        };
        let pushed = chunks.into_iter().try_for_each(|chunk| cutter.push(chunk, &mut each));
        let read = pushed.and_then(|()| cutter.end(&mut each));
        (frames, read)
    }

    fn kind(bytes: &[u8]) -> FailureKind {
        frames([bytes]).1.unwrap_err().kind
    }

    #[test]
    fn the_checksum_is_the_common_one() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn events_and_exceptions_are_named_after_what_they_say() {
        let body = [event("messageStart", "{}"), exception("throttlingException", "slow")].concat();
        let (frames, read) = frames([body.as_slice()]);
        assert_eq!(read, Ok(()));
        let expected = [("messageStart", "{}"), ("throttlingException", "slow")];
        assert_eq!(frames, expected.map(|(name, data)| (name.to_owned(), data.as_bytes().to_vec())));
    }

    #[test]
    fn an_error_message_is_a_failure_in_the_servers_words() {
        let headers = [
            (":message-type", "error"),
            (":error-code", "ThrottlingException"),
            (":error-message", "too many requests"),
        ];
        let failure = frames([message(&headers, b"").as_slice()]).1.unwrap_err();
        assert_eq!(failure.kind, FailureKind::RateLimit);
        assert!(failure.message.contains("too many requests"));
    }

    #[test]
    fn headers_of_every_type_are_passed_over() {
        let mut headers = Vec::new();
        for (kind, length) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 4), (5, 8), (8, 8), (9, 16)] {
            headers.extend([1, b'x', kind]);
            headers.extend(vec![0xFF; length]);
        }
        headers.extend([1, b'x', 6, 0, 2, 0xFF, 0xFF, 11]);
        headers.extend(b":event-type");
        headers.extend([7, 0, 2]);
        headers.extend(b"go");
        assert_eq!(
            frames([raw(&headers, b"1").as_slice()]),
            (vec![("go".to_owned(), b"1".to_vec())], Ok(()))
        );
        assert_eq!(kind(&raw(&[1, b'x', 10], b"")), FailureKind::Broken);
        assert_eq!(kind(&raw(&[9, b'x'], b"")), FailureKind::Broken);
    }

    #[test]
    fn a_message_that_is_too_large_is_refused_before_it_is_collected() {
        let mut prelude = u32::try_from(MOST_FRAME + 1).unwrap().to_be_bytes().to_vec();
        prelude.extend([0; 4]);
        prelude.extend(crc32(&prelude).to_be_bytes());
        assert_eq!(frames([prelude.as_slice()]).1, Err(too_large()));
    }

    #[test]
    fn lengths_that_do_not_fit_are_a_broken_stream() {
        for (total, headers) in [(15_u32, 0_u32), (16, 1), (20, u32::MAX)] {
            let mut prelude = [total.to_be_bytes(), headers.to_be_bytes()].concat();
            prelude.extend(crc32(&prelude).to_be_bytes());
            assert_eq!(kind(&prelude), FailureKind::Broken);
        }
    }

    fn bodies() -> impl Strategy<Value = (Frames, Vec<u8>)> {
        let frame = ("[a-zA-Z]{0,12}", proptest::collection::vec(any::<u8>(), 0..60));
        proptest::collection::vec(frame, 0..6).prop_map(|frames| {
            let messages = frames.iter().map(|(name, payload)| {
                message(&[(":event-type", name), (":message-type", "event")], payload)
            });
            let body = messages.collect::<Vec<_>>().concat();
            (frames, body)
        })
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_frames((expected, body) in bodies(), size in 1_usize..40) {
            prop_assert_eq!(frames(body.chunks(size)), (expected.clone(), Ok(())));
            prop_assert_eq!(frames([body.as_slice()]), (expected, Ok(())));
        }

        #[test]
        fn a_damaged_byte_is_never_read_as_a_frame(
            name in "[a-z]{1,8}",
            payload in proptest::collection::vec(any::<u8>(), 0..40),
            place in any::<prop::sample::Index>(),
            flip in 1_u8..,
        ) {
            let mut body = message(&[(":event-type", &name)], &payload);
            let at = place.index(body.len());
            body[at] ^= flip;
            let (frames, read) = frames([body.as_slice()]);
            prop_assert!(frames.is_empty());
            prop_assert_eq!(read.map_err(|failure| failure.kind), Err(FailureKind::Broken));
        }

        #[test]
        fn a_body_that_breaks_off_is_a_failure_after_its_whole_frames((expected, body) in bodies(), place in any::<prop::sample::Index>()) {
            prop_assume!(!body.is_empty());
            let at = place.index(body.len());
            let (frames, read) = frames([&body[..at]]);
            prop_assert!(expected.starts_with(&frames));
            prop_assert_eq!(read.is_ok(), frames.len() < expected.len() && ends_between(&expected, frames.len(), at));
        }
    }

    /// Whether the first `count` messages have exactly `at` bytes.
    fn ends_between(all: &Frames, count: usize, at: usize) -> bool {
        let length = |(name, payload): &(String, Vec<u8>)| {
            message(&[(":event-type", name), (":message-type", "event")], payload).len()
        };
        all[..count].iter().map(length).sum::<usize>() == at
    }
}
