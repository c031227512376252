//! The root file system of a guest: a cpio archive in memory, with programs of this machine and the
//! modules of the guest's kernel.
//!
//! Format `newc` of cpio: for each file a header of 110 characters, the name, the contents, both
//! padded to four bytes; a file called `TRAILER!!!` ends it. Documented in the kernel's
//! `buffer-format.rst`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// An archive being written.
#[derive(Default)]
pub(super) struct Initramfs {
    bytes: Vec<u8>,
    /// Directories and files that are in it.
    names: BTreeSet<String>,
}

impl Initramfs {
    /// A program of this machine under its own path, with the libraries it needs.
    pub(super) fn program(&mut self, path: &Path) {
        self.copy(path);
        self.libraries(path);
    }

    /// The libraries a program of this machine needs.
    pub(super) fn libraries(&mut self, path: &Path) {
        let output = Command::new("ldd").arg(path).output().expect("ldd runs");
        // One that is linked statically is "not a dynamic executable".
        for word in String::from_utf8_lossy(&output.stdout).split_whitespace() {
            if word.starts_with('/') {
                self.copy(Path::new(word));
            }
        }
    }

    /// A file under the path it has here.
    fn copy(&mut self, path: &Path) {
        let name = path.to_str().expect("UTF-8").trim_start_matches('/');
        if !self.names.contains(name) {
            let contents = fs::read(path).expect("a file of this machine");
            self.file(name, &contents);
        }
    }

    /// An executable file.
    pub(super) fn file(&mut self, name: &str, contents: &[u8]) {
        self.parents(name);
        self.entry(name, PROGRAM, contents);
    }

    pub(super) fn directory(&mut self, name: &str) {
        self.parents(name);
        if !self.names.contains(name) {
            self.entry(name, DIRECTORY, &[]);
        }
    }

    fn parents(&mut self, name: &str) {
        let slashes = name.match_indices('/').map(|(at, _)| at);
        for end in slashes.collect::<Vec<_>>() {
            if !self.names.contains(&name[..end]) {
                self.entry(&name[..end], DIRECTORY, &[]);
            }
        }
    }

    fn entry(&mut self, name: &str, mode: u32, contents: &[u8]) {
        self.names.insert(name.to_owned());
        let (inode, links) = (self.names.len(), 1);
        let name_bytes = name.len() + 1;
        let size = contents.len();
        let header = format!(
            "070701{inode:08x}{mode:08x}{0:08x}{0:08x}{links:08x}{0:08x}{size:08x}\
             {0:08x}{0:08x}{0:08x}{0:08x}{name_bytes:08x}{0:08x}",
            0
        );
        self.bytes.extend_from_slice(header.as_bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(contents);
        self.pad();
    }

    fn pad(&mut self) {
        let padded = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(padded, 0);
    }

    /// The whole archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

/// A kernel and where its modules are.
pub(super) struct Kernel {
    pub(super) image: PathBuf,
    modules: Vec<PathBuf>,
}

impl Kernel {
    /// A kernel for clouds: what `cargo xtask test` fetched, or what is installed.
    pub(super) fn find() -> Option<Kernel> {
        let fetched = std::env::var_os("EVERGLADE_GUEST_KERNEL").map(PathBuf::from);
        let roots = fetched.into_iter().chain([PathBuf::from("/")]);
        roots.filter_map(|root| Kernel::below(&root)).next()
    }

    fn below(root: &Path) -> Option<Kernel> {
        let names = fs::read_dir(root.join("boot")).ok()?;
        let mut names: Vec<String> = names
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.starts_with("vmlinuz-") && name.ends_with("-cloud-amd64"))
            .collect();
        names.sort();
        let name = names.pop()?;
        let version = name.strip_prefix("vmlinuz-")?;
        let mut modules = Vec::new();
        list_modules(&root.join("lib/modules").join(version), &mut modules);
        let image = root.join("boot").join(&name);
        (!modules.is_empty()).then_some(Kernel { image, modules })
    }

    /// Files of these modules and of those they need, in an order in which they can be loaded. One
    /// that the kernel has built in has no file.
    pub(super) fn modules(&self, wanted: &[&str]) -> Vec<(String, Vec<u8>)> {
        let mut loaded: Vec<(String, Vec<u8>)> = Vec::new();
        for name in wanted {
            self.add_module(name, &mut loaded);
        }
        loaded
    }

    fn add_module(&self, name: &str, loaded: &mut Vec<(String, Vec<u8>)>) {
        let file = format!("{}.ko", name.replace('-', "_"));
        if loaded.iter().any(|(known, _)| *known == file) {
            return;
        }
        let same = |path: &&PathBuf| {
            let found = path.file_name().and_then(|name| name.to_str());
            found.is_some_and(|found| found.replace('-', "_") == file)
        };
        let Some(path) = self.modules.iter().find(same) else {
            return;
        };
        let bytes = fs::read(path).expect("a module");
        for needed in dependencies(&bytes) {
            self.add_module(&needed, loaded);
        }
        loaded.push((file, bytes));
    }
}

fn list_modules(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            list_modules(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "ko") {
            found.push(path);
        }
    }
}

/// What a module says it depends on: a string in its section of information, which begins with
/// `depends=`.
fn dependencies(module: &[u8]) -> Vec<String> {
    const MARK: &[u8] = b"\0depends=";
    let Some(at) = module.windows(MARK.len()).position(|bytes| bytes == MARK) else {
        return Vec::new();
    };
    let rest = &module[at + MARK.len()..];
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&rest[..end]);
    let names = text.split(',').filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}
