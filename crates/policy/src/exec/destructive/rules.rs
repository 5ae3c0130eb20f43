//! The shipped rules, one command at a time.

use super::arguments::Arguments;
use super::targets::{account_file, device, protected};
use super::{Destructive, Scene, Word};
use crate::exec::programs;

/// Texts without any of these break no rule. Quotes and backslashes do not hide them.
const TELLING: &[&str] = &[
    "rm",
    "mkfs",
    "mke2fs",
    "mkswap",
    "dd",
    "/dev",
    "/etc",
    "/proc",
    "wipefs",
    "shred",
    "blkdiscard",
    "chmod",
    "chown",
    "chgrp",
    "mv",
    "shutdown",
    "reboot",
    "halt",
    "poweroff",
    "init",
    "systemctl",
    "kill",
    "delete",
    "crontab",
    "(",
    "rsync",
];

/// Whether a closer look at a text could find anything.
pub(super) fn could_matter(text: &str) -> bool {
    let bare: String = text.chars().filter(|character| !"'\"\\".contains(*character)).collect();
    let bare = bare.to_lowercase();
    TELLING.iter().any(|telling| bare.contains(telling))
}

/// The rule that a command breaks by itself.
pub(super) fn broken(words: &[Word], scene: &Scene<'_>) -> Option<Destructive> {
    let (first, rest) = words.split_first()?;
    let name = programs::base(&first.text);
    let arguments = || Arguments::of(rest);
    match name.as_ref() {
        "rm" => removes(&arguments(), scene),
        "find" => finds(rest, scene),
        "rsync" => mirrors(&arguments(), scene),
        "chmod" | "chown" | "chgrp" => changes_owners(&name, &arguments(), scene),
        "mv" => moves(&arguments(), scene),
        "dd" => copies_raw(rest, scene),
        "cp" | "tee" | "install" | "ln" | "truncate" | "sed" | "patch" => {
            overwrites(&name, &arguments(), scene)
        }
        "shred" | "blkdiscard" | "wipefs" | "mkswap" | "sgdisk" | "sfdisk" | "hdparm" | "badblocks" => {
            erases(&name, &arguments(), scene)
        }
        "kill" => kills_all(rest),
        "crontab" => arguments()
            .has('r', "--remove")
            .then(|| broke("crontab-remove", "it deletes every scheduled job")),
        "mke2fs" => Some(broke("format-disk", "it makes a new file system over an old one")),
        _ if name == "mkfs" || name.starts_with("mkfs.") || name.starts_with("newfs") => {
            Some(broke("format-disk", "it makes a new file system over an old one"))
        }
        "shutdown" | "reboot" | "halt" | "poweroff" | "init" | "telinit" | "systemctl" => {
            stops_machine(&name, &arguments())
        }
        _ => None,
    }
}

/// What writing to a file by redirection breaks.
pub(super) fn written(target: &Word, scene: &Scene<'_>) -> Option<Destructive> {
    if let Some(path) = device(target, scene) {
        return Some(broke("overwrite-device", format!("it writes over {path}")));
    }
    account_file(target, scene).map(|path| broke("overwrite-accounts", format!("it writes to {path}")))
}

fn broke(rule: &'static str, reason: impl Into<String>) -> Destructive {
    Destructive { rule, reason: reason.into() }
}

fn removes(arguments: &Arguments<'_>, scene: &Scene<'_>) -> Option<Destructive> {
    if arguments.has_long("--no-preserve-root") {
        return Some(broke("remove-system", "it asks to remove the whole system"));
    }
    let account = arguments.operands.iter().find_map(|target| account_file(target, scene));
    if let Some(path) = account {
        return Some(broke("overwrite-accounts", format!("it removes {path}")));
    }
    let is_recursive = arguments.has('r', "--recursive") || arguments.has('R', "--recursive");
    let target = arguments.operands.iter().find_map(|target| protected(target, scene));
    let target = target.filter(|_| is_recursive)?;
    Some(broke("remove-system", format!("it removes {target} and everything in it")))
}

/// `find` with something that deletes, from a folder that must stay.
fn finds(rest: &[Word], scene: &Scene<'_>) -> Option<Destructive> {
    let is_expression = |word: &Word| word.text.starts_with(['-', '(', '!']);
    let roots: Vec<_> = rest.iter().take_while(|word| !is_expression(word)).collect();
    let deletes = rest.iter().enumerate().any(|(at, word)| {
        let starts = matches!(word.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
        word.text == "-delete" || (starts && rest[at..].iter().any(|word| programs::base(&word.text) == "rm"))
    });
    let root = roots.iter().find_map(|root| protected(root, scene)).filter(|_| deletes)?;
    Some(broke("remove-system", format!("it deletes what it finds in {root}")))
}

fn mirrors(arguments: &Arguments<'_>, scene: &Scene<'_>) -> Option<Destructive> {
    let deletes = ["--delete", "--delete-before", "--delete-during", "--delete-after", "--delete-excluded"];
    let deletes = deletes.iter().any(|option| arguments.has_long(option));
    let target = arguments.operands.last().and_then(|target| protected(target, scene)).filter(|_| deletes)?;
    Some(broke("remove-system", format!("it deletes what is in {target} and not in its source")))
}

fn changes_owners(name: &str, arguments: &Arguments<'_>, scene: &Scene<'_>) -> Option<Destructive> {
    if !arguments.has('R', "--recursive") {
        return None;
    }
    let target = arguments.operands.iter().find_map(|target| protected(target, scene))?;
    Some(broke("change-system", format!("it lets {name} change everything in {target}")))
}

fn moves(arguments: &Arguments<'_>, scene: &Scene<'_>) -> Option<Destructive> {
    let (_, sources) = arguments.operands.split_last()?;
    if let Some(source) = sources.iter().find_map(|source| protected(source, scene)) {
        return Some(broke("move-system", format!("it moves {source} away")));
    }
    overwrites("mv", arguments, scene)
}

fn copies_raw(rest: &[Word], scene: &Scene<'_>) -> Option<Destructive> {
    rest.iter().find_map(|word| {
        let path = word.text.strip_prefix("of=")?;
        written(&Word { text: path.to_owned(), is_literal: word.is_literal }, scene)
    })
}

fn overwrites(name: &str, arguments: &Arguments<'_>, scene: &Scene<'_>) -> Option<Destructive> {
    let changes_in_place = arguments.has('i', "--in-place");
    let targets = match name {
        "tee" | "truncate" | "patch" => arguments.operands.as_slice(),
        "sed" if changes_in_place => arguments.operands.as_slice(),
        "sed" => &[],
        _ => arguments.operands.last().map_or(&[][..], std::slice::from_ref),
    };
    targets.iter().find_map(|target| written(target, scene))
}

fn erases(name: &str, arguments: &Arguments<'_>, scene: &Scene<'_>) -> Option<Destructive> {
    let path = arguments
        .operands
        .iter()
        .find_map(|target| device(target, scene).or_else(|| account_file(target, scene)))?;
    Some(broke("overwrite-device", format!("it lets {name} erase {path}")))
}

/// `-1` as a target means every process. As the first option it is the signal to hang up.
fn kills_all(rest: &[Word]) -> Option<Destructive> {
    let is_all = |word: &Word| word.text == "-1";
    let all = match rest.split_first() {
        Some((first, targets)) if is_all(first) => targets.is_empty() || targets.iter().any(is_all),
        _ => rest.iter().any(is_all),
    };
    all.then(|| broke("kill-everything", "it ends every process"))
}

fn stops_machine(name: &str, arguments: &Arguments<'_>) -> Option<Destructive> {
    let first = arguments.operands.first().map(|word| word.text.as_str());
    let stops = match name {
        "shutdown" => !arguments.has('c', "--cancel"),
        "reboot" | "halt" | "poweroff" => true,
        "init" | "telinit" => matches!(first, Some("0" | "6")),
        "systemctl" => {
            let verbs = ["poweroff", "reboot", "halt", "kexec", "emergency", "rescue", "soft-reboot"];
            first.is_some_and(|verb| verbs.contains(&verb))
        }
        _ => false,
    };
    stops.then(|| broke("stop-machine", "it stops or restarts the machine"))
}
