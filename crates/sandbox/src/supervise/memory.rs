//! Reading what a program pointed at in a system call.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// Bytes of a path that are read, as many as a path can have.
pub(super) const LONGEST: usize = 4096;

/// Bytes of a program's memory, as many as there are.
pub(super) fn read(pid: u32, from: u64, count: usize) -> Vec<u8> {
    let Ok(memory) = File::open(format!("/proc/{pid}/mem")) else { return Vec::new() };
    let mut bytes = vec![0; count];
    let mut read = 0;
    // What lies behind the last page is not there; a page is read whole or not at all.
    while read < count {
        let page = 4096 - (usize::try_from(from).unwrap_or_default() + read) % 4096;
        let end = (read + page).min(count);
        match memory.read_at(&mut bytes[read..end], from + read as u64) {
            Ok(got @ 1..) => read += got,
            _ => break,
        }
    }
    bytes.truncate(read);
    bytes
}

/// A text that ends with a zero.
pub(super) fn text(pid: u32, from: u64) -> Option<Vec<u8>> {
    let mut text = read(pid, from, LONGEST);
    text.truncate(text.iter().position(|byte| *byte == 0)?);
    Some(text)
}
