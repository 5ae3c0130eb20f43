//! A disk that fails, fills up or may not be written: a clear error, reading goes on, nothing acknowledged is lost.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use tidegate_testkit::skip::skip_loudly;

use crate::home::{Home, PROGRAM};
use crate::log::Log;
use crate::process::{Call, Done};

/// Makes writes and syncs of the database's files fail with EIO, from the n-th on or only the n-th.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/types.h>

static int calls;

static int fails(int fd) {
    const char *at = getenv("FAIL_AT"), *files = getenv("FAIL_FILES");
    if (!at || !files) return 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    const char *name = strrchr(path, '/');
    if (!name || strncmp(name, "/tidegate.db", 12) != 0) return 0;
    int shared = strcmp(name, "/tidegate.db-shm") == 0;
    if (shared != (strcmp(files, "shm") == 0)) return 0;
    int call = __sync_add_and_fetch(&calls, 1);
    int wanted = atoi(at);
    if (getenv("FAIL_ONCE") ? call != wanted : call < wanted) return 0;
    errno = EIO;
    return 1;
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *bytes, size_t count) { REAL(write); return fails(fd) ? -1 : real(fd, bytes, count); }
ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) { REAL(pwrite); return fails(fd) ? -1 : real(fd, bytes, count, at); }
ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) { REAL(pwrite64); return fails(fd) ? -1 : real(fd, bytes, count, at); }
int fsync(int fd) { REAL(fsync); return fails(fd) ? -1 : real(fd); }
int fdatasync(int fd) { REAL(fdatasync); return fails(fd) ? -1 : real(fd); }
"#;

/// The compiled shim, made once.
fn shim() -> Option<&'static Path> {
    static MADE: OnceLock<Option<(TempDir, PathBuf)>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let (source, library) = (folder.path().join("eio.c"), folder.path().join("eio.so"));
        fs::write(&source, SHIM).expect("the source can be written");
        let mut compiler = Command::new("cc");
        match compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).arg("-ldl").output()
        {
            Ok(done) if done.status.success() => Some((folder, library)),
            Ok(done) => panic!("the shim does not compile: {}", String::from_utf8_lossy(&done.stderr)),
            Err(_) => None,
        }
    });
    if made.is_none() {
        skip_loudly("it needs a C compiler called cc");
    }
    made.as_ref().map(|(_, library)| library.as_path())
}

/// More writes and syncs than an ask makes.
const WRITES: usize = 60;

/// How the disk fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failing {
    From(usize),
    Only(usize),
}

fn failing_ask(home: &Home, shim: &Path, failing: Failing, files: &str, text: &str) -> Done {
    let call = home.call(&["ask", text]).env("LD_PRELOAD", shim).env("FAIL_FILES", files);
    match failing {
        Failing::From(at) => call.env("FAIL_AT", at.to_string()),
        Failing::Only(at) => call.env("FAIL_AT", at.to_string()).env("FAIL_ONCE", "1"),
    }
    .run()
}

fn sound(home: &Home) {
    let connection = rusqlite::Connection::open(home.database()).unwrap();
    let verdict: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}

/// Lets the disk fail at each write and sync of an ask in turn, on one home, and at some beyond the last.
fn fails_everywhere(failing: fn(usize) -> Failing, files: &str) {
    let Some(shim) = shim() else { return };
    let home = Home::new();
    home.ask("before");
    let mut owed = vec!["before".to_owned()];
    for at in 1..=WRITES {
        let text = format!("disk fails at {at}");
        let done = failing_ask(&home, shim, failing(at), files, &text);
        let failed = done.code != Some(0);
        if failed {
            done.failed(1, "STORAGE_IO");
        } else {
            assert_eq!(done.json()["success"], true);
            owed.push(text.clone());
        }
        // The home is usable at once, and has what it owes.
        let next = format!("after {at}");
        home.ask(&next);
        owed.push(next);
        let log = Log::of(&home, "main");
        // A failed sync leaves open whether the answer became durable; then it must be there as a whole, once.
        let kept: Vec<_> = log.questions().into_iter().filter(|kept| failed && *kept == text).collect();
        if !kept.is_empty() {
            owed.insert(owed.len() - 1, text.clone());
        }
        assert_eq!(log.questions(), owed, "{:?}", failing(at));
        assert!(home.runs().iter().all(|run| !run["finishedAt"].is_null()), "every run has ended");
        sound(&home);
    }
}

#[test]
fn a_disk_that_fails_from_some_write_on_is_an_io_error_and_loses_nothing() {
    fails_everywhere(Failing::From, "data");
}

#[test]
fn a_disk_that_fails_once_is_an_io_error_and_loses_nothing() {
    fails_everywhere(Failing::Only, "data");
}

#[test]
fn an_io_error_tells_what_to_do() {
    let Some(shim) = shim() else { return };
    let home = Home::new();
    home.ask("before");
    let failed = failing_ask(&home, shim, Failing::From(1), "data", "x").failed(1, "STORAGE_IO");
    assert!(failed.message.contains("tidegate.db"), "which file: {failed:?}");
    assert!(failed.stderr.contains("Check the disk"), "{failed:?}");
    assert!(!failed.stdout.is_empty(), "{failed:?}");
}

#[test]
fn shared_memory_that_fails_is_an_io_error_and_not_a_full_disk() {
    let Some(shim) = shim() else { return };
    let home = Home::new();
    home.ask("before");
    failing_ask(&home, shim, Failing::From(1), "shm", "x").failed(1, "STORAGE_IO");
    home.ask("after");
    assert_eq!(Log::of(&home, "main").questions(), ["before", "after"]);
}

/// A small disk of its own, which only root can make.
pub(crate) struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    fn new() -> Option<Self> {
        Self::sized("4m")
    }

    pub(crate) fn sized(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let mut mount = Command::new("mount");
        let size = format!("size={size}");
        let mounted = mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path()).output();
        if mounted.is_ok_and(|done| done.status.success()) {
            return Some(Self { folder });
        }
        skip_loudly("only root can mount a small disk");
        None
    }

    /// The home on it.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn config(&self, text: &str) {
        fs::create_dir_all(self.root()).expect("the home can be made");
        fs::write(self.root().join("config.json5"), text).expect("the config can be written");
    }

    pub(crate) fn call(&self, words: &[&str]) -> Call {
        Call::new(Path::new(PROGRAM), words).env("TIDEGATE_HOME", self.root()).env("HOME", self.folder.path())
    }

    pub(crate) fn remount(&self, option: &str) {
        let done =
            Command::new("mount").args(["-o", &format!("remount,{option}")]).arg(self.folder.path()).output();
        assert!(done.unwrap().status.success());
    }

    /// Fills the disk but for so many bytes.
    pub(crate) fn fill(&self, leaving: u64) {
        let mut filler = File::create(self.folder.path().join("filler")).unwrap();
        while filler.write_all(&[0; 4096]).is_ok() {}
        let length = filler.metadata().unwrap().len();
        filler.set_len(length.saturating_sub(leaving)).unwrap();
    }

    /// Fills what became free since.
    pub(crate) fn fill_more(&self) {
        let mut filler = File::options().append(true).open(self.folder.path().join("filler")).unwrap();
        while filler.write_all(&[0; 4096]).is_ok() {}
    }

    pub(crate) fn free(&self) {
        fs::remove_file(self.folder.path().join("filler")).unwrap();
    }

    pub(crate) fn questions(&self) -> Vec<String> {
        let done = self.call(&["sessions", "show", "main", "--json", "--limit", "10000"]).run();
        if done.stderr.starts_with("[NOT_FOUND]") {
            return Vec::new();
        }
        let shown = done.json();
        // So much text is summed up on the way; the questions stay.
        let entries = shown["entries"].as_array().unwrap().iter();
        let questions = entries.filter(|entry| entry["body"]["role"] == "user");
        questions.map(|entry| entry["body"]["content"][0]["text"].as_str().unwrap().to_owned()).collect()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.folder.path()).status();
    }
}

#[test]
fn a_full_disk_refuses_to_write_and_works_again_when_there_is_room() {
    let Some(disk) = SmallDisk::new() else { return };
    disk.call(&["ask", "before"]).ok();
    let mut owed = vec!["before".to_owned()];
    let (mut refused, mut taken) = (0, 0);
    for kilobytes in [0, 4, 8, 12, 16, 24, 32, 36, 40, 48, 56, 64, 72, 80, 88, 96, 112, 128, 192, 256] {
        disk.fill(kilobytes << 10);
        let text = format!("with {kilobytes} KB left");
        let done = disk.call(&["ask", &text]).run();
        if done.code == Some(0) {
            taken += 1;
            owed.push(text.clone());
        } else {
            refused += 1;
            let failed = done.failed(1, "STORAGE_FULL");
            assert!(failed.stderr.contains("Free some space"), "{failed:?}");
        }
        for words in
            [["sessions", "list"].as_slice(), &["sessions", "show", "main"], &["runs", "list"], &["status"]]
        {
            let done = disk.call(words).run();
            assert_eq!(done.code, Some(0), "reading with {kilobytes} KB left: {done:?}");
        }
        disk.free();
        let next = format!("room again after {kilobytes}");
        disk.call(&["ask", &next]).ok();
        // Refused after its commit, for want of room for the transcript, it is kept all the same.
        let kept = disk.questions();
        if kept.contains(&text) && !owed.contains(&text) {
            owed.push(text);
        }
        owed.push(next);
        assert_eq!(kept, owed, "with {kilobytes} KB left");
    }
    assert!(refused > 0 && taken > 0, "{refused} refused, {taken} taken");
    let runs = disk.call(&["runs", "list", "--json", "--limit", "1000"]).json();
    assert!(
        runs["runs"].as_array().unwrap().iter().all(|run| !run["finishedAt"].is_null()),
        "every run has ended"
    );
}

#[test]
fn a_disk_that_is_full_from_the_start_is_called_full() {
    let Some(disk) = SmallDisk::new() else { return };
    for kilobytes in [0, 4, 16, 40, 80] {
        disk.fill(kilobytes << 10);
        disk.call(&["ask", "hi"]).run().failed(1, "STORAGE_FULL");
        disk.call(&["status"]).ok();
        disk.free();
    }
    disk.call(&["ask", "works"]).ok();
    assert_eq!(disk.questions(), ["works"]);
}

#[test]
fn a_read_only_disk_is_read_and_not_written() {
    let Some(disk) = SmallDisk::new() else { return };
    disk.call(&["ask", "before"]).ok();
    disk.remount("ro");
    let done = disk.call(&["ask", "refused"]).run();
    assert_eq!(done.code, Some(1), "{done:?}");
    let named =
        done.stderr.starts_with("[STORAGE_READ_ONLY] ") || done.stderr.starts_with("[HOME_UNUSABLE] ");
    assert!(named && done.stderr.contains("Read-only file system"), "{done:?}");
    assert!(done.stderr.contains("--home"), "what to do about it: {done:?}");
    for words in
        [["sessions", "list"].as_slice(), &["sessions", "show", "main"], &["runs", "list"], &["status"]]
    {
        disk.call(words).ok();
    }
    assert_eq!(disk.questions(), ["before"]);
    for words in
        [["config", "set", "gateway.port", "1000"].as_slice(), &["sessions", "delete", "main", "--yes"]]
    {
        let done = disk.call(words).run();
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(
            done.stderr.contains("Read-only file system") && !done.stderr.contains("[INTERNAL]"),
            "{done:?}"
        );
    }
    disk.remount("rw");
    disk.call(&["ask", "after"]).ok();
    assert_eq!(disk.questions(), ["before", "after"]);
}

#[test]
fn a_read_only_disk_is_read_also_after_a_crash() {
    let Some(disk) = SmallDisk::new() else { return };
    disk.call(&["ask", "before"]).ok();
    let killed = disk.call(&["ask", "dies"]).env("TIDEGATE_FAULT", "storage.finish.after_commit=kill").run();
    assert_eq!(killed.signal, Some(9));
    disk.remount("ro");
    assert_eq!(disk.questions(), ["before", "dies"], "what was committed can be read");
    disk.remount("rw");
    disk.call(&["ask", "after"]).ok();
    assert_eq!(disk.questions(), ["before", "dies", "after"]);
}
