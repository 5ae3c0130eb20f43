//! Paths that a command must not destroy.

use super::{Scene, Word};
use crate::exec::paths::{absolute, is_inside};

const SYSTEM: &str = "/ /Applications /Library /System /Users /Volumes /bin /boot /boot/efi /data /dev /etc /home \
    /lib /lib32 /lib64 /libx32 /media /mnt /nix /nix/store /opt /private /private/etc /private/var /proc /root /run \
    /sbin /snap /srv /sys /usr /usr/bin /usr/include /usr/lib /usr/lib32 /usr/lib64 /usr/libexec /usr/local \
    /usr/local/bin /usr/local/lib /usr/local/sbin /usr/sbin /usr/share /usr/src /var /var/cache /var/lib /var/log \
    /var/mail /var/spool";

/// Files without which nobody gets in, or everybody does.
const ACCOUNTS: &str = "/etc/fstab /etc/group /etc/gshadow /etc/ld.so.preload /etc/master.passwd /etc/nsswitch.conf \
    /etc/passwd /etc/shadow /etc/sudoers";

const ACCOUNT_FOLDERS: &str = "/etc/pam.d /etc/sudoers.d";

const DEVICES: &str =
    "dasd disk dm- hd loop mapper md mem kmem mmcblk mtd nbd nvme port ram rdisk rbd sd vd xvd zram";

/// The system folder or home that a word means, if it means one.
pub(super) fn protected(word: &Word, scene: &Scene<'_>) -> Option<String> {
    let path = resolve(word, scene)?;
    let home = absolute(scene.home, "/");
    let is_home = home != "/" && is_inside(&home, &path);
    let is_some_home = ["/home/", "/Users/"]
        .iter()
        .any(|homes| path.strip_prefix(homes).is_some_and(|user| !user.contains('/')));
    (is_home || is_some_home || SYSTEM.split_ascii_whitespace().any(|folder| folder == path)).then_some(path)
}

/// The disk or memory that a word names.
pub(super) fn device(word: &Word, scene: &Scene<'_>) -> Option<String> {
    let path = resolve(word, scene)?;
    let name = path.strip_prefix("/dev/")?;
    let is_device = DEVICES.split_ascii_whitespace().any(|device| name.starts_with(device));
    is_device.then(|| path.clone())
}

/// A file that decides who may log in and how the machine starts.
pub(super) fn account_file(word: &Word, scene: &Scene<'_>) -> Option<String> {
    let path = resolve(word, scene)?;
    let path = path.strip_prefix("/private").map_or(path.clone(), str::to_owned);
    let is_one = ACCOUNTS.split_ascii_whitespace().any(|file| file == path)
        || ACCOUNT_FOLDERS.split_ascii_whitespace().any(|folder| is_inside(&path, folder))
        || path == "/proc/sysrq-trigger";
    is_one.then_some(path)
}

/// Where a word leads. What is replaced later counts as if it were nothing: `/$x` may be `/`, `/*` is all of it.
fn resolve(word: &Word, scene: &Scene<'_>) -> Option<String> {
    if word.text.is_empty() {
        return None;
    }
    if word.is_literal {
        return Some(absolute(&word.text, scene.cwd));
    }
    let text = with_home(&word.text, scene.home);
    if text.starts_with(['$', '`']) {
        return None;
    }
    let unknown = text.find(['*', '?', '[', '{', '$', '`']);
    let known = match unknown {
        Some(at) => text[..at].rfind('/').map_or(".", |slash| &text[..=slash]),
        None => &text,
    };
    Some(absolute(known, scene.cwd))
}

fn with_home(text: &str, home: &str) -> String {
    let home = if home.is_empty() { "/root" } else { home };
    if let Some(rest) = text.strip_prefix('~') {
        let (user, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        return if user.is_empty() { format!("{home}{path}") } else { format!("/home/{user}{path}") };
    }
    text.replace("${HOME}", home).replace("$HOME", home)
}
