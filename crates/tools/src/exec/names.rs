//! Names for processes that people can say and models do not mistype. Pure.

const ADJECTIVES: [&str; 32] = [
    "amber", "brave", "brisk", "calm", "clear", "crisp", "deep", "eager", "fair", "faint", "fresh", "gentle",
    "glad", "grand", "keen", "kind", "lucky", "mellow", "mild", "neat", "nimble", "plain", "proud", "quick",
    "quiet", "rapid", "sharp", "swift", "tidy", "vivid", "warm", "young",
];
const NOUNS: [&str; 32] = [
    "bay", "beach", "boat", "brook", "canal", "cliff", "cloud", "coral", "cove", "crab", "creek", "delta",
    "dune", "ferry", "gull", "harbor", "heron", "inlet", "island", "kelp", "lagoon", "marsh", "otter",
    "pearl", "pier", "reef", "river", "sail", "seal", "shell", "shore", "wave",
];

/// A name nobody has yet: `brave-otter`, or `brave-otter-2`.
pub(crate) fn name(seed: u64, taken: impl Fn(&str) -> bool) -> String {
    // Neighbouring seeds must not give neighbouring names; the constant spreads them (Fibonacci hashing).
    let spread = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let adjective = ADJECTIVES[usize::try_from((spread >> 40) % 32).unwrap_or(0)];
    let noun = NOUNS[usize::try_from((spread >> 50) % 32).unwrap_or(0)];
    let name = format!("{adjective}-{noun}");
    if !taken(&name) {
        return name;
    }
    let mut number = 2;
    loop {
        let numbered = format!("{name}-{number}");
        if !taken(&numbered) {
            return numbered;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_processes_share_a_name() {
        let mut taken = HashSet::new();
        for _ in 0..40 {
            let new = name(7, |name| taken.contains(name));
            assert!(taken.insert(new));
        }
        assert!(taken.iter().any(|name| name.ends_with("-40")));
    }

    #[test]
    fn names_differ_from_one_process_to_the_next() {
        let names: HashSet<_> = (0..100).map(|seed| name(seed, |_| false)).collect();
        assert!(names.len() > 80, "{}", names.len());
    }
}
