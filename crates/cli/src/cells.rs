//! Text as a terminal counts it: clusters of characters that are one sign, and the cells each takes. Pure.
//!
//! The tables name what is common; a sign they do not know takes one cell. Whoever draws must not rely on the sum to the
//! last cell, because terminals differ as well.

use unicode_normalization::char::is_combining_mark;

const JOINER: char = '\u{200d}';
/// Asks for the coloured form of a sign, which is wide.
const COLOURED: char = '\u{fe0f}';

/// The cells a text takes.
pub(crate) fn cells(text: &str) -> usize {
    clusters(text).map(cluster_cells).sum()
}

/// The cells one cluster takes.
pub(crate) fn cluster_cells(cluster: &str) -> usize {
    let Some(first) = cluster.chars().next() else { return 0 };
    if extends(first) {
        0
    } else if is_wide(first) || cluster.ends_with(COLOURED) || is_flag(first) && cluster.len() > 4 {
        2
    } else {
        1
    }
}

/// The signs of a text, each with the marks that belong to it.
pub(crate) fn clusters(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (cluster, after) = rest.split_at(first_cluster(rest));
        rest = after;
        (!cluster.is_empty()).then_some(cluster)
    })
}

/// The bytes of the first cluster.
pub(crate) fn first_cluster(text: &str) -> usize {
    let mut characters = text.char_indices().peekable();
    let Some((_, first)) = characters.next() else { return 0 };
    let mut last = first;
    let mut flags = usize::from(is_flag(first));
    while let Some((at, next)) = characters.peek().copied() {
        let pair = is_flag(next) && flags == 1 && is_flag(last);
        let joined = last == JOINER && next > '\u{2000}';
        if !(extends(next) || pair || joined) {
            return at;
        }
        flags += usize::from(pair);
        last = next;
        characters.next();
    }
    text.len()
}

/// The bytes of the last cluster.
pub(crate) fn last_cluster(text: &str) -> usize {
    // Far enough back for every sign there is, and never the whole of a long text.
    let from = text.char_indices().rev().take(32).last().map_or(0, |(at, _)| at);
    text.get(from..).and_then(|end| clusters(end).last()).map_or(0, str::len)
}

/// Whether a character belongs to the one before it.
fn extends(c: char) -> bool {
    c >= '\u{300}'
        && (is_combining_mark(c)
            || matches!(u32::from(c),
                0x200b..=0x200d | 0x2060 | 0xfe00..=0xfe0f | 0xfeff | 0x1_f3fb..=0x1_f3ff | 0xe_0020..=0xe_007f
                | 0x1160..=0x11ff))
}

fn is_flag(c: char) -> bool {
    ('\u{1f1e6}'..='\u{1f1ff}').contains(&c)
}

/// East Asian characters and coloured signs take two cells.
pub(crate) fn is_wide(c: char) -> bool {
    c >= '\u{1100}'
        && matches!(u32::from(c),
            0x1100..=0x115f | 0x231a..=0x231b | 0x2329..=0x232a | 0x23e9..=0x23ec | 0x23f0 | 0x23f3
            | 0x25fd..=0x25fe | 0x2614..=0x2615 | 0x2648..=0x2653 | 0x267f | 0x2693 | 0x26a1 | 0x26aa..=0x26ab
            | 0x26bd..=0x26be | 0x26c4..=0x26c5 | 0x26ce | 0x26d4 | 0x26ea | 0x26f2..=0x26f3 | 0x26f5 | 0x26fa
            | 0x26fd | 0x2705 | 0x270a..=0x270b | 0x2728 | 0x274c | 0x274e | 0x2753..=0x2755 | 0x2757
            | 0x2795..=0x2797 | 0x27b0 | 0x27bf | 0x2b1b..=0x2b1c | 0x2b50 | 0x2b55
            | 0x2e80..=0x303e | 0x3041..=0xa4cf | 0xa960..=0xa97c | 0xac00..=0xd7a3 | 0xf900..=0xfaff
            | 0xfe30..=0xfe6b | 0xff01..=0xff60 | 0xffe0..=0xffe6
            | 0x1_f004 | 0x1_f0cf | 0x1_f18e | 0x1_f191..=0x1_f19a | 0x1_f200..=0x1_f320 | 0x1_f32d..=0x1_f335
            | 0x1_f337..=0x1_f37c | 0x1_f37e..=0x1_f393 | 0x1_f3a0..=0x1_f3ca | 0x1_f3cf..=0x1_f3d3
            | 0x1_f3e0..=0x1_f3f0 | 0x1_f3f4 | 0x1_f3f8..=0x1_f43e | 0x1_f440 | 0x1_f442..=0x1_f4fc
            | 0x1_f4ff..=0x1_f53d | 0x1_f54b..=0x1_f54e | 0x1_f550..=0x1_f567 | 0x1_f57a | 0x1_f595..=0x1_f596
            | 0x1_f5a4 | 0x1_f5fb..=0x1_f64f | 0x1_f680..=0x1_f6c5 | 0x1_f6cc | 0x1_f6d0..=0x1_f6d2
            | 0x1_f6d5..=0x1_f6df | 0x1_f6eb..=0x1_f6ec | 0x1_f6f4..=0x1_f6fc | 0x1_f7e0..=0x1_f7eb
            | 0x1_f90c..=0x1_f93a | 0x1_f93c..=0x1_f945 | 0x1_f947..=0x1_f9ff | 0x1_fa70..=0x1_faff
            | 0x2_0000..=0x3_fffd)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_sign_of_several_characters_is_one_cluster() {
        let signs = ["e\u{301}", "👩\u{200d}👩\u{200d}👧", "🇩🇪", "👍🏽", "❤\u{fe0f}", "한", "中", "a"];
        let text = signs.concat();
        assert_eq!(clusters(&text).collect::<Vec<_>>(), signs);
        assert_eq!(signs.map(cells), [1, 2, 2, 2, 2, 2, 2, 1]);
        for sign in signs {
            assert_eq!(last_cluster(&["x", sign].concat()), sign.len(), "{sign}");
        }
    }

    #[test]
    fn flags_are_taken_in_pairs() {
        assert_eq!(clusters("🇩🇪🇫🇷").collect::<Vec<_>>(), ["🇩🇪", "🇫🇷"]);
    }

    proptest! {
        #[test]
        fn clusters_are_the_text_in_pieces(text in any::<String>()) {
            prop_assert_eq!(clusters(&text).collect::<String>(), text.clone());
            prop_assert!(clusters(&text).all(|cluster| !cluster.is_empty()));
            prop_assert!(text.is_char_boundary(text.len() - last_cluster(&text)));
        }
    }
}
