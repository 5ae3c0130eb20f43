//! Finding a kernel to boot, and those of its modules that a machine needs.

use std::fs;
use std::path::{Path, PathBuf};

/// What a machine cannot do without: its devices, and the file system that shows it folders of this one.
const NEEDED: [&str; 4] = ["virtio_pci", "virtio_console", "9pnet_virtio", "9p"];

/// A kernel, and its modules in the order in which they are loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kernel {
    pub(super) image: PathBuf,
    pub(super) version: String,
    pub(super) modules: Vec<PathBuf>,
}

/// The configured one, or the newest in `/boot` that can do it.
pub(super) fn find(configured: Option<&Path>) -> Result<Kernel, String> {
    if let Some(image) = configured {
        return kernel(image);
    }
    let mut images: Vec<(std::time::SystemTime, PathBuf)> = fs::read_dir("/boot")
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("vmlinuz"))
        .filter_map(|entry| Some((fs::metadata(entry.path()).ok()?.modified().ok()?, entry.path())))
        .collect();
    images.sort();
    let mut why = None;
    for (_, image) in images.into_iter().rev() {
        match kernel(&image) {
            Ok(kernel) => return Ok(kernel),
            Err(reason) => why.get_or_insert(reason),
        };
    }
    Err(why.unwrap_or_else(|| {
        "there is no kernel in /boot (on Debian: apt-get install linux-image-amd64), and none is named in \
         agents.defaults.sandbox.microvm.kernel"
            .to_owned()
    }))
}

fn kernel(image: &Path) -> Result<Kernel, String> {
    let bytes = fs::read(image).map_err(|error| format!("{}: {error}", image.display()))?;
    let version =
        version(&bytes).ok_or_else(|| format!("{} is no kernel that says its version", image.display()))?;
    let folder = Path::new("/lib/modules").join(&version);
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let (dependencies, builtin) = (read("modules.dep"), read("modules.builtin"));
    let modules = modules(&dependencies, &builtin).map_err(|name| {
        format!("the kernel {version} has no {name} (its modules belong in {})", folder.display())
    })?;
    let modules = modules.into_iter().map(|module| folder.join(module)).collect();
    Ok(Kernel { image: image.to_owned(), version, modules })
}

/// The first word of what a kernel calls itself; the header of its image says where that is.
fn version(image: &[u8]) -> Option<String> {
    if image.get(0x202..0x206)? != b"HdrS" && image.get(0x1FE..0x200)? != [0x55, 0xAA] {
        return None;
    }
    let at = usize::from(u16::from_le_bytes(image.get(0x20E..0x210)?.try_into().ok()?)) + 0x200;
    let text: Vec<u8> = image.get(at..)?.iter().copied().take_while(u8::is_ascii_graphic).take(128).collect();
    String::from_utf8(text).ok().filter(|text| !text.is_empty() && !text.contains('/'))
}

/// What has to be loaded, each after what it depends on, or what is missing.
fn modules<'m>(dependencies: &'m str, builtin: &str) -> Result<Vec<&'m str>, &'static str> {
    let mut order: Vec<&str> = Vec::new();
    for needed in NEEDED {
        let found = dependencies.lines().find_map(|line| {
            let (module, others) = line.split_once(':')?;
            (name(module) == needed).then_some((module, others))
        });
        let Some((module, others)) = found else {
            if builtin.lines().any(|line| name(line) == needed) {
                continue;
            }
            return Err(needed);
        };
        for module in others.split_whitespace().rev().chain([module]) {
            if !order.contains(&module) {
                order.push(module);
            }
        }
    }
    Ok(order)
}

fn name(module: &str) -> &str {
    let file = module.trim().rsplit('/').next().unwrap_or_default();
    file.split_once(".ko").map_or(file, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_after_what_they_depend_on() {
        let dependencies = "fs/9p/9p.ko: net/9pnet.ko fs/fscache.ko fs/netfs.ko\n\
                            net/9pnet_virtio.ko.xz: net/9pnet.ko v/virtio.ko v/virtio_ring.ko\n\
                            v/virtio_pci.ko: v/virtio.ko v/virtio_ring.ko\n";
        let builtin = "kernel/drivers/char/virtio_console.ko\n";
        let expected = [
            "v/virtio_ring.ko",
            "v/virtio.ko",
            "v/virtio_pci.ko",
            "net/9pnet.ko",
            "net/9pnet_virtio.ko.xz",
            "fs/netfs.ko",
            "fs/fscache.ko",
            "fs/9p/9p.ko",
        ];
        assert_eq!(modules(dependencies, builtin).unwrap(), expected);
        assert_eq!(modules(dependencies, ""), Err("virtio_console"));
    }
}
