//! An image without a registry: busybox, perl and the libraries it needs, as they are on this machine.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

const IMAGE: &str = "localhost/tidegate-test-sandbox:3";

/// Its name, or what is missing to have it.
pub(super) fn image() -> Result<&'static str, String> {
    if !runs("podman", &["version"]) {
        return Err("podman is not installed (as root: apt-get install podman runc)".to_owned());
    }
    // The tests are many processes, and one image is enough.
    let lock = fs::File::create(std::env::temp_dir().join("tidegate-test-image.lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    if runs("podman", &["image", "exists", IMAGE]) {
        return Ok(IMAGE);
    }
    for (program, package) in [("/bin/busybox", "busybox-static"), ("/usr/bin/perl", "perl-base")] {
        if !Path::new(program).exists() {
            return Err(format!("{program} is not installed (apt-get install {package})"));
        }
    }
    let root = TempDir::new().unwrap();
    fill(root.path());
    let mut tar = Command::new("tar")
        .arg("-C")
        .arg(root.path())
        .args(["-c", "."])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let files = tar.stdout.take().unwrap();
    let imported = Command::new("podman").args(["import", "-", IMAGE]).stdin(files).output().unwrap();
    tar.wait().unwrap();
    if imported.status.success() {
        Ok(IMAGE)
    } else {
        Err(format!("podman imports no image: {}", said(&imported)))
    }
}

fn fill(root: &Path) {
    for folder in ["bin", "etc", "root", "tmp", "var/tmp", "run", "proc", "sys", "dev", "mnt", "usr/bin"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    let busybox = root.join("bin/busybox");
    fs::copy("/bin/busybox", &busybox).unwrap();
    let names = Command::new(&busybox).arg("--list").output().unwrap();
    for name in String::from_utf8(names.stdout).unwrap().lines().filter(|name| *name != "busybox") {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(name)).unwrap();
    }
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
    fs::copy("/usr/bin/perl", root.join("usr/bin/perl")).unwrap();
    let libraries = Command::new("ldd").arg("/usr/bin/perl").output().unwrap();
    for word in
        String::from_utf8(libraries.stdout).unwrap().split_whitespace().filter(|word| word.starts_with('/'))
    {
        let to = root.join(word.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(word, to).unwrap();
    }
}

fn runs(program: &str, words: &[&str]) -> bool {
    let called = Command::new(program).args(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
    called.is_ok_and(|status| status.success())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}
