//! `cargo xtask dist`: a Debian package of the program, its unit, manual, completions and
//! documents.
//!
//! ```text
//! program built ─▶ staged below target/dist/root ─▶ dpkg-deb ─▶ target/dist/*.deb
//!                                 installed, run, removed in a scratch root ◀─┘
//! ```
//!
//! The scratch root is a folder: dpkg's scripts honour `DPKG_ROOT`, so neither a container nor
//! root's rights are needed to find out that the package installs, runs and goes again, and that
//! data stays.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::generate::Binary;
use crate::step::{begin, cargo, end};
use crate::tally::Tally;
use crate::{Usage, place, tools};

/// A file of the repository and where it goes; a folder goes with what is in it.
const FILES: [(&str, &str, u32); 8] = [
    (
        "dist/systemd/everglade.service",
        "usr/lib/systemd/system/everglade.service",
        0o644,
    ),
    (
        "dist/etc/everglade.toml",
        "etc/everglade/everglade.toml",
        0o644,
    ),
    ("README.md", "usr/share/doc/everglade/README.md", 0o644),
    ("LICENSE-MIT", "usr/share/doc/everglade/copyright", 0o644),
    ("docs/operating", "usr/share/doc/everglade/operating", 0o644),
    (
        "docs/reference/codes",
        "usr/share/doc/everglade/codes",
        0o644,
    ),
    (
        "docs/reference/openapi.json",
        "usr/share/doc/everglade/openapi.json",
        0o644,
    ),
    (
        "dist/monitoring",
        "usr/share/doc/everglade/monitoring",
        0o644,
    ),
];

/// A shell and where its completion goes.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/everglade"),
    ("zsh", "usr/share/zsh/vendor-completions/_everglade"),
    ("fish", "usr/share/fish/vendor_completions.d/everglade.fish"),
];

/// The verb.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Usage> {
    Usage::none_expected(words)?;
    let mut tally = Tally::default();
    verify(&mut tally, &Binary::ToBuild);
    Ok(tally.finish())
}

/// Part of `test`.
pub(crate) fn verify(tally: &mut Tally, binary: &Binary) {
    if let Some(missing) = ["dpkg-deb", "dpkg"]
        .iter()
        .find(|tool| tools::find(tool).is_none())
    {
        return tally.skip(format!("not installed: {missing}, so no package is made"));
    }
    let begun = begin("Debian package");
    let outcome = package(binary).and_then(|package| {
        println!("made {}", package.display());
        try_out(&package)
    });
    end("Debian package", begun, outcome.is_ok());
    match outcome {
        Ok(()) => tally.pass(1),
        Err(problem) => tally.fail(problem),
    }
}

/// Makes the package; returns where it is.
fn package(binary: &Binary) -> Result<PathBuf, String> {
    let program = program(binary)?;
    let binary = Binary::Built(program.clone());
    let folder = folder();
    let root = folder.join("root");
    clear(&root)?;
    put(&program, &root.join("usr/bin/everglade"), 0o755)?;
    if tools::find("strip").is_some() {
        let stripped = root.join("usr/bin/everglade");
        succeed(Command::new("strip").arg("--strip-debug").arg(stripped))?;
    }
    for (from, to, mode) in FILES {
        copy(&place::root().join(from), &root.join(to), mode)?;
    }
    for (shell, to) in COMPLETIONS {
        write(
            &root.join(to),
            &binary.print(&["completion", shell])?,
            0o644,
        )?;
    }
    let man = root.join("usr/share/man/man1");
    let man_text = man.to_string_lossy().into_owned();
    binary.print(&["man", "--dir", &man_text])?;
    for page in list(&man)? {
        set_mode(&page, 0o644)?;
        succeed(Command::new("gzip").args(["--best", "--no-name"]).arg(page))?;
    }
    control(&root, &program)?;
    let version = version(&program)?;
    let package = folder.join(format!("everglade_{version}_{}.deb", architecture()?));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--build"]);
    succeed(build.arg(&root).arg(&package))?;
    Ok(package)
}

/// Where the program is, built if need be.
fn program(binary: &Binary) -> Result<PathBuf, String> {
    if let Binary::Built(path) = binary {
        return Ok(path.clone());
    }
    succeed(&mut cargo(&[
        "build",
        "--release",
        "--package",
        "everglade",
    ]))?;
    Ok(place::program("everglade"))
}

/// What dpkg wants to know.
fn control(root: &Path, program: &Path) -> Result<(), String> {
    let debian = place::root().join("dist/debian");
    for script in ["postinst", "prerm", "postrm"] {
        copy(
            &debian.join(script),
            &root.join("DEBIAN").join(script),
            0o755,
        )?;
    }
    write(
        &root.join("DEBIAN/conffiles"),
        "/etc/everglade/everglade.toml\n",
        0o644,
    )?;
    let template = read(&debian.join("control.in"))?;
    let bytes: u64 = walk(root)?
        .iter()
        .filter_map(|path| Some(path.metadata().ok()?.len()))
        .sum();
    let text = template
        .replace("@VERSION@", &version(program)?)
        .replace("@ARCHITECTURE@", &architecture()?)
        .replace("@INSTALLED_SIZE@", &bytes.div_ceil(1024).to_string())
        .replace(
            "@DEPENDS@",
            &format!("libc6 (>= {}), libgcc-s1, passwd", libc_version(program)?),
        );
    write(&root.join("DEBIAN/control"), &text, 0o644)
}

/// The program's version, with the commit it was built from, if that is known.
fn version(program: &Path) -> Result<String, String> {
    let said = output(Command::new(program).arg("version"))?;
    let version = said.split_whitespace().nth(1).unwrap_or("0");
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%cd.%h", "--date=format:%Y%m%d%H%M%S"]);
    let commit = output(git.current_dir(place::root())).unwrap_or_default();
    Ok(match commit.trim() {
        "" => version.to_owned(),
        commit => format!("{version}+git{commit}"),
    })
}

fn architecture() -> Result<String, String> {
    let said = output(Command::new("dpkg").arg("--print-architecture"))?;
    Ok(said.trim().to_owned())
}

/// The newest version of the C library whose symbols the program names.
fn libc_version(program: &Path) -> Result<String, String> {
    let bytes =
        fs::read(program).map_err(|error| format!("read {}: {error}", program.display()))?;
    let marks = bytes.windows(8).enumerate();
    let versions = marks
        .filter(|(_, window)| *window == b"GLIBC_2.")
        .map(|(at, _)| {
            let digits = bytes[at + 8..]
                .iter()
                .take_while(|byte| byte.is_ascii_digit());
            let digits: String = digits.map(|digit| char::from(*digit)).collect();
            digits.parse::<u32>().unwrap_or(0)
        });
    Ok(format!("2.{}", versions.max().unwrap_or(17)))
}

/// Installs the package in a scratch root, runs what it holds, and removes it again.
fn try_out(package: &Path) -> Result<(), String> {
    let scratch = folder().join("scratch");
    clear(&scratch)?;
    for folder in ["info", "updates", "triggers"] {
        make(&scratch.join("var/lib/dpkg").join(folder))?;
    }
    write(&scratch.join("var/lib/dpkg/status"), "", 0o644)?;
    let dpkg = |words: &[&str]| {
        let mut command = Command::new("dpkg");
        command
            .arg(format!("--root={}", scratch.display()))
            .arg(format!("--log={}", scratch.join("dpkg.log").display()))
            // A scratch root has no other packages, and its scripts are run from here.
            .args([
                "--force-not-root",
                "--force-script-chrootless",
                "--force-depends",
            ])
            .args(["--force-bad-path"]);
        command.args(words);
        output(&mut command)
    };
    let path = package.to_string_lossy();
    dpkg(&["--install", &path])?;
    let has = |file: &str| scratch.join(file).exists();
    let expected = [
        "usr/bin/everglade",
        "usr/lib/systemd/system/everglade.service",
        "etc/everglade/everglade.toml",
        "usr/share/man/man1/everglade.1.gz",
        "usr/share/man/man1/everglade-lun-create.1.gz",
        "usr/share/bash-completion/completions/everglade",
        "usr/share/doc/everglade/codes/EVG-4001.md",
        "usr/share/doc/everglade/monitoring/everglade-alerts.yml",
        "var/lib/everglade",
    ];
    if let Some(absent) = expected.iter().find(|file| !has(file)) {
        return Err(format!("the package does not install {absent}"));
    }
    let program = scratch.join("usr/bin/everglade");
    let config = scratch.join("etc/everglade/everglade.toml");
    output(Command::new(&program).arg("version"))?;
    let checked = Command::new(&program)
        .args(["config", "check", "--config"])
        .arg(&config)
        .output();
    if !checked.is_ok_and(|checked| checked.status.success()) {
        return Err("the configuration of the package cannot be served".to_owned());
    }
    verify_unit(&scratch)?;
    write(&scratch.join("var/lib/everglade/state.toml"), "data", 0o644)?;
    dpkg(&["--install", &path]).map_err(|error| format!("an upgrade: {error}"))?;
    dpkg(&["--remove", "everglade"])?;
    if has("usr/bin/everglade") || !has("etc/everglade/everglade.toml") {
        return Err("removal leaves the program, or takes the configuration".to_owned());
    }
    dpkg(&["--purge", "everglade"])?;
    if has("etc/everglade/everglade.toml") || !has("var/lib/everglade/state.toml") {
        return Err("a purge leaves the configuration, or takes data".to_owned());
    }
    clear(&scratch)
}

/// Whether systemd would take the unit, where it can be asked.
fn verify_unit(scratch: &Path) -> Result<(), String> {
    if tools::find("systemd-analyze").is_none() {
        return Ok(());
    }
    let text = read(&scratch.join("usr/lib/systemd/system/everglade.service"))?;
    let program = scratch.join("usr/bin/everglade").display().to_string();
    // The program is where the scratch root is, and the manual is not where systemd looks for it.
    let text = text
        .replace("/usr/bin/everglade", &program)
        .replace("man:everglade(1) ", "");
    let unit = folder().join("everglade.service");
    write(&unit, &text, 0o644)?;
    let checked = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&unit)
        .output();
    let checked = checked.map_err(|error| format!("run systemd-analyze: {error}"))?;
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    // It also looks at units of the host that ours names; those are not ours to judge.
    let ours: Vec<_> = said
        .lines()
        .filter(|line| line.contains("everglade.service"))
        .collect();
    if ours.is_empty() {
        return Ok(());
    }
    Err(format!("systemd-analyze verify: {}", ours.join("; ")))
}

// ---- files and programs ----

fn folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| place::root().join("target"), PathBuf::from);
    target.join("dist")
}

fn clear(folder: &Path) -> Result<(), String> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .map_err(|error| format!("clear {}: {error}", folder.display()))?;
    }
    make(folder)
}

fn make(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("make {}: {error}", folder.display()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("read {}: {error}", path.display()))
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), String> {
    make(path.parent().unwrap_or(Path::new(".")))?;
    fs::write(path, text).map_err(|error| format!("write {}: {error}", path.display()))?;
    set_mode(path, mode)
}

/// A file to a place.
fn put(from: &Path, to: &Path, mode: u32) -> Result<(), String> {
    make(to.parent().unwrap_or(Path::new(".")))?;
    fs::copy(from, to).map_err(|error| format!("copy {}: {error}", from.display()))?;
    set_mode(to, mode)
}

/// A file, or a folder with what is in it.
fn copy(from: &Path, to: &Path, mode: u32) -> Result<(), String> {
    if from.is_file() {
        return put(from, to, mode);
    }
    for path in list(from)? {
        let name = path.file_name().unwrap_or_default();
        copy(&path, &to.join(name), mode)?;
    }
    Ok(())
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries =
        fs::read_dir(folder).map_err(|error| format!("list {}: {error}", folder.display()))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// All files below a folder.
fn walk(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for path in list(folder)? {
        if path.is_dir() {
            found.extend(walk(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

fn set_mode(path: &Path, mode: u32) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let permissions = fs::Permissions::from_mode(mode);
    fs::set_permissions(path, permissions)
        .map_err(|error| format!("chmod {}: {error}", path.display()))
}

/// Runs a program that must succeed.
fn succeed(command: &mut Command) -> Result<(), String> {
    output(command).map(drop)
}

/// The same, and what it printed.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("run {name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name} failed: {}", said.trim()))
}
