//! Ten million bytes of text pass through without being kept on the way.

use futures_util::StreamExt as _;
use tidegate_models::ModelEvent;
use tidegate_protocol::Block;
use tidegate_testkit::model_server::{Step, Turn};

use crate::faces::{Face, for_every_face};
use crate::house::{House, question};

const PIECE: usize = 4000;
const TIMES: usize = 2500;
/// The text itself is kept until its block ends, and the vendors that repeat all of it at the end make several copies of
/// it for a moment, at both ends of this process. Keeping every event besides would be far beyond this.
const ROOM: u64 = 200 << 20;

for_every_face![ten_megabytes_of_text_pass_through];

async fn ten_megabytes_of_text_pass_through(face: Face) {
    let house = House::new().await;
    house.server.push_for(face.model, Turn::new([Step::Repeat { text: "x".repeat(PIECE), times: TIMES }]));
    let before = resident();
    let mut stream = house.open(&House::spec(&[&face.reference()])).stream(question("All of it."));
    let (mut pieces, mut whole, mut most) = (0, 0, 0);
    let mut last = None;
    while let Some(event) = stream.next().await {
        match &event {
            ModelEvent::TextDelta { text, .. } => {
                pieces += text.len();
                if pieces % (PIECE * 100) == 0 {
                    most = most.max(resident());
                }
            }
            ModelEvent::BlockEnd { block: Block::Text { text, .. }, .. } => whole += text.len(),
            _ => {}
        }
        last = Some(event);
    }
    assert_eq!((pieces, whole), (PIECE * TIMES, PIECE * TIMES));
    assert!(matches!(last, Some(ModelEvent::Done(_))), "{last:?}");
    most = most.max(resident());
    let grown = most.saturating_sub(before);
    assert!(grown < ROOM, "grew by {} MB", grown >> 20);
}

/// Bytes of memory in use, of this whole process.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}
