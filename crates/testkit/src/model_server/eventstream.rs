//! Amazon's binary event stream: lengths, headers and two checksums around a JSON text.

/// One message: `kind` is `event` or `exception`, `name` the event's or the exception's type.
pub(crate) fn message(kind: &str, name: &str, payload: &[u8]) -> Vec<u8> {
    let type_header = if kind == "exception" { ":exception-type" } else { ":event-type" };
    let mut headers = Vec::new();
    for (key, value) in [(type_header, name), (":content-type", "application/json"), (":message-type", kind)]
    {
        header(&mut headers, key, value);
    }
    // Prelude (two lengths and their checksum), headers, payload, checksum of all.
    let total = 12 + headers.len() + payload.len() + 4;
    let mut message = Vec::with_capacity(total);
    message.extend(length(total));
    message.extend(length(headers.len()));
    message.extend(crc32(&message).to_be_bytes());
    message.extend(headers);
    message.extend(payload);
    message.extend(crc32(&message).to_be_bytes());
    message
}

fn header(into: &mut Vec<u8>, name: &str, value: &str) {
    /// A text with a length of two bytes.
    const STRING: u8 = 7;
    into.push(u8::try_from(name.len()).expect("header names are short"));
    into.extend(name.bytes());
    into.push(STRING);
    into.extend(u16::try_from(value.len()).expect("header values are short").to_be_bytes());
    into.extend(value.bytes());
}

fn length(of: usize) -> [u8; 4] {
    u32::try_from(of).expect("a message is below 4 GB").to_be_bytes()
}

/// The checksum of zip files and Ethernet.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| (sum >> 8) ^ TABLE[usize::from(sum.to_le_bytes()[0] ^ byte)];
    !bytes.iter().fold(!0, step)
}

/// What each byte adds.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut sum = 1u32;
    // Every power of two is the half of the one before, and every sum of powers the sum of their entries.
    let mut bit = 128;
    while bit > 0 {
        sum = if sum & 1 == 1 { (sum >> 1) ^ 0xEDB8_8320 } else { sum >> 1 };
        let mut rest = 0;
        while rest < 256 {
            table[rest + bit] = table[rest] ^ sum;
            rest += 2 * bit;
        }
        bit >>= 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_published_one() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn a_message_says_its_lengths() {
        let message = message("event", "messageStop", b"{}");
        let number = |at: usize| u32::from_be_bytes(message[at..at + 4].try_into().unwrap());
        assert_eq!(number(0) as usize, message.len());
        let payload_at = 12 + number(4) as usize;
        assert_eq!(&message[payload_at..message.len() - 4], b"{}");
        assert_eq!(number(8), crc32(&message[..8]));
        assert_eq!(number(message.len() - 4), crc32(&message[..message.len() - 4]));
    }
}
