//! Transcript files follow the log, whatever happens to them.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use tidegate_engine::Answer;

use crate::{ask, close, start, transcript};

/// What may happen to a file between two turns.
#[derive(Debug, Clone)]
enum Damage {
    None,
    Removed,
    CutAt(usize),
    Appended(Vec<u8>),
    Replaced(Vec<u8>),
}

impl Damage {
    fn inflict(&self, file: &Path) {
        let bytes = fs::read(file).unwrap();
        match self {
            Self::None => {}
            Self::Removed => fs::remove_file(file).unwrap(),
            Self::CutAt(at) => fs::write(file, &bytes[..at % bytes.len()]).unwrap(),
            Self::Appended(more) => fs::write(file, [bytes, more.clone()].concat()).unwrap(),
            Self::Replaced(with) => fs::write(file, with).unwrap(),
        }
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let bytes = || proptest::collection::vec(any::<u8>(), 1..300);
    prop_oneof![
        Just(Damage::None),
        Just(Damage::Removed),
        any::<usize>().prop_map(Damage::CutAt),
        bytes().prop_map(Damage::Appended),
        bytes().prop_map(Damage::Replaced),
    ]
}

/// Asks the questions, with damage before each but the first, and gives the transcript's messages.
fn messages_after(damages: &[Damage]) -> (Vec<String>, usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let mut last: Option<Answer> = None;
        for (at, damage) in [Damage::None].iter().chain(damages).enumerate() {
            if let Some(answer) = &last {
                damage.inflict(&transcript(folder.path(), answer));
            }
            // A new process each time, as with `ask`.
            let engine = start(folder.path()).await;
            last = Some(ask(&engine, "main", &format!("q{at}")).await.unwrap());
            close(engine).await;
        }
        let file = transcript(folder.path(), &last.unwrap());
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["type"], "session");
        let kept = fs::read_dir(file.parent().unwrap()).unwrap().count() - 1;
        let said = lines[1..]
            .iter()
            .filter(|line| line["message"]["role"] == "user")
            .map(|line| line["message"]["content"][0]["text"].as_str().unwrap().to_owned())
            .collect();
        (said, kept)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_file_equals_the_log_after_the_next_turn(damages in proptest::collection::vec(damage(), 1..4)) {
        let (said, _) = messages_after(&damages);
        let expected: Vec<String> = (0..=damages.len()).map(|at| format!("q{at}")).collect();
        prop_assert_eq!(said, expected);
    }
}

#[test]
fn a_damaged_file_is_kept_beside_the_new_one() {
    let (_, kept) = messages_after(&[Damage::Replaced(b"precious notes".to_vec())]);
    assert_eq!(kept, 1);
    let (_, kept) = messages_after(&[Damage::None]);
    assert_eq!(kept, 0);
}
