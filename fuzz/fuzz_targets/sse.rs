//! Server-sent events: wherever a body is cut into pieces, the frames are the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_models::testing::sse_frames;

fuzz_target!(|body: &[u8]| {
    let whole = sse_frames([body]);
    assert_eq!(sse_frames(body.chunks(1)), whole);
    assert_eq!(sse_frames(pieces(body)), whole);
    let (head, tail) = body.split_at(body.len() / 2);
    assert_eq!(sse_frames([head, tail]), whole);
});

/// Pieces of sizes that the body itself decides, empty ones among them. A seed then is a plain body.
fn pieces(body: &[u8]) -> Vec<&[u8]> {
    let mut rest = body;
    let mut pieces = Vec::new();
    for byte in body {
        let (piece, later) = rest.split_at(usize::from(byte % 23).min(rest.len()));
        pieces.push(piece);
        rest = later;
    }
    pieces.push(rest);
    pieces
}
