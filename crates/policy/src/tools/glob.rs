//! Patterns with `*`, for names and for paths. No expressions: what a pattern means can be said in one sentence.

/// Whether a text fits a pattern in which `*` stands for any number of any characters.
pub fn fits(pattern: &str, text: &str) -> bool {
    wild(pattern.as_bytes(), text.as_bytes(), |item| *item == b'*', |item, byte| item == byte)
}

/// A path pattern, taken apart once: `*` stays within one name, `**` stands for any number of folders, none included.
/// So `docs/**` covers `docs` itself and everything below it, and `**/.env` covers every `.env`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathGlob(Vec<String>);

impl PathGlob {
    pub(super) fn new(pattern: &str) -> Self {
        Self(names(pattern).map(str::to_owned).collect())
    }

    pub(super) fn fits(&self, path: &str) -> bool {
        let path: Vec<&str> = names(path).collect();
        wild(&self.0, &path, |name| name == "**", |name, text| fits(name, text))
    }
}

impl PathGlob {
    /// Whether something at this path or below it could fit.
    pub(super) fn reaches_into(&self, tree: &str) -> bool {
        // Where in the pattern one can be after the names so far.
        let mut places: Vec<usize> = self.past_stars(0);
        for name in names(tree) {
            let mut next = Vec::new();
            for place in places {
                match self.0.get(place) {
                    Some(pattern) if pattern == "**" => next.extend(self.past_stars(place)),
                    Some(pattern) if fits(pattern, name) => next.extend(self.past_stars(place + 1)),
                    _ => {}
                }
            }
            next.sort_unstable();
            next.dedup();
            places = next;
        }
        !places.is_empty()
    }

    /// Whether everything at this path and below it fits.
    pub(super) fn covers(&self, tree: &str) -> bool {
        self.0.last().is_some_and(|last| last == "**") && self.fits(tree)
    }

    /// A place in the pattern, and those one can go on from there without a name: a `**` may stand for none.
    fn past_stars(&self, place: usize) -> Vec<usize> {
        let stars = self.0.iter().skip(place).take_while(|name| *name == "**").count();
        (place..=place + stars).collect()
    }
}

/// The names of a path. `.` is the root itself and has none.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty() && *name != ".")
}

/// Matches item by item. A star takes as little as it can and is given more when the rest does not fit; only the last
/// star ever has to be given more, so the time is bounded by the product of the lengths.
fn wild<P, T>(
    pattern: &[P],
    text: &[T],
    is_star: impl Fn(&P) -> bool,
    fits: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut at_pattern, mut at_text) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while let Some(item) = text.get(at_text) {
        match pattern.get(at_pattern) {
            Some(star) if is_star(star) => {
                at_pattern += 1;
                retry = Some((at_pattern, at_text));
            }
            Some(wanted) if fits(wanted, item) => {
                at_pattern += 1;
                at_text += 1;
            }
            _ => {
                let Some((behind_star, taken)) = &mut retry else { return false };
                *taken += 1;
                (at_pattern, at_text) = (*behind_star, *taken);
            }
        }
    }
    pattern.iter().skip(at_pattern).all(is_star)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, expected) in [
            ("exec", "exec", true),
            ("exec", "exe", false),
            ("exec", "execs", false),
            ("*", "", true),
            ("*", "anything", true),
            ("", "", true),
            ("", "a", false),
            ("sessions_*", "sessions_list", true),
            ("sessions_*", "session_status", false),
            ("*_search", "web_search", true),
            ("*_search", "web_search2", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("*ab", "aab", true),
            ("a**", "a", true),
            ("*.example.org", "a.example.org", true),
            ("*.example.org", "example.org", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn one_star_stays_within_a_name_and_two_cross_folders() {
        for (pattern, path, expected) in [
            ("docs/*", "docs/a.md", true),
            ("docs/*", "docs/a/b.md", false),
            ("docs/*", "docs", false),
            ("docs/**", "docs", true),
            ("docs/**", "docs/a/b.md", true),
            ("docs/**", "docs2/a.md", false),
            ("docs/**", "a/docs/b.md", false),
            ("**/.env", ".env", true),
            ("**/.env", "a/b/.env", true),
            ("**/.env", "a/.env/b", false),
            ("**/.env*", "a/.env.local", true),
            ("a/**/z", "a/z", true),
            ("a/**/z", "a/b/c/z", true),
            ("a/**/z", "a/b/c/y", false),
            ("**", ".", true),
            ("**", "a/b", true),
            (".", ".", true),
            (".", "a", false),
            ("./docs/", "docs", true),
            ("*", "a/b", false),
        ] {
            assert_eq!(PathGlob::new(pattern).fits(path), expected, "{pattern} on {path}");
        }
    }

    #[test]
    fn a_folder_is_reached_by_a_pattern_for_anything_in_it() {
        for (pattern, tree, reached, covered) in [
            ("secrets/**", ".", true, false),
            ("secrets/**", "secrets", true, true),
            ("secrets/**", "secrets/deep", true, true),
            ("secrets/**", "docs", false, false),
            ("a/*.key", "a", true, false),
            ("a/*.key", "a/b", false, false),
            ("a/*", "a/b", true, false),
            ("**/.env", "docs/x", true, false),
            ("a/**/z", "a/b/c", true, false),
            ("a/**/z", "b", false, false),
            ("**", ".", true, true),
            ("docs", "docs", true, false),
            ("docs", "docs/a", false, false),
        ] {
            let glob = PathGlob::new(pattern);
            assert_eq!(glob.reaches_into(tree), reached, "{pattern} into {tree}");
            assert_eq!(glob.covers(tree), covered, "{pattern} over {tree}");
        }
    }

    proptest! {
        #[test]
        fn what_fits_below_a_folder_is_reached_from_it(
            pattern in "(a|b|\\*|\\*\\*)(/(a|b|\\*|\\*\\*)){0,3}",
            tree in "(a|b)(/(a|b)){0,2}",
            rest in "(/(a|b)){0,3}",
        ) {
            let glob = PathGlob::new(&pattern);
            let below = format!("{tree}{rest}");
            prop_assert!(!glob.fits(&below) || glob.reaches_into(&tree));
            prop_assert!(!glob.covers(&tree) || glob.fits(&below));
        }

        #[test]
        fn a_text_without_stars_fits_itself_and_nothing_else(text in "[a-c.]{0,6}", other in "[a-c.]{0,6}") {
            prop_assert_eq!(fits(&text, &other), text == other);
        }

        #[test]
        fn replacing_a_part_by_a_star_still_fits(head in "[a-c]{0,4}", part in "[a-c]{0,4}", tail in "[a-c]{0,4}") {
            let (pattern, text) = (format!("{head}*{tail}"), format!("{head}{part}{tail}"));
            prop_assert!(fits(&pattern, &text));
        }

        #[test]
        fn any_pattern_ends_in_time(pattern in "[a*/]{0,60}", text in "[a/]{0,200}") {
            let _ = fits(&pattern, &text);
            let _ = PathGlob::new(&pattern).fits(&text);
        }
    }
}
