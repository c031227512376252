//! `cargo xtask picture [PROGRAM]`: runs a short session of everglade and draws it as
//! `docs/pictures/session.svg`, the terminal in the README. Without PROGRAM it builds one.
//!
//! The text in the picture is what the programs printed. Times and free space differ from run to
//! run, so CI does not compare it; run the verb again when the output of a command has changed.
//! The session needs `nbdcopy` and the port 10809, because the picture shows the defaults.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use crate::step::{begin, cargo, end};
use crate::tally::Tally;
use crate::{Usage, place};

const PICTURE: &str = "docs/pictures/session.svg";
/// The commands, in order; each is typed as it stands.
const SESSION: [&str; 10] = [
    "everglade volume create home",
    "everglade lun create home/photos --size 64MiB",
    "nbdcopy --flush photos.img nbd://127.0.0.1:10809/home/photos",
    "everglade snapshot create home@monday",
    "nbdcopy --flush mistake.img nbd://127.0.0.1:10809/home/photos",
    "everglade snapshot restore home@monday",
    "nbdcopy nbd://127.0.0.1:10809/home/photos - | cmp - photos.img && echo the same bytes",
    "everglade snapshot show home",
    "everglade clone create --from home@monday copy",
    "everglade status",
];
const IMAGE_BYTES: usize = 64 << 20;

const CHARACTER: f64 = 8.4;
const LINE: f64 = 19.0;
const MARGIN: f64 = 18.0;
/// Above the first line, for the bar of the window.
const BAR: f64 = 34.0;

/// The verb.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Usage> {
    let program = match words {
        [] => None,
        [program] => Some(Path::new(program)),
        [_, word, ..] => return Err(Usage(format!("unexpected '{word}'"))),
    };
    let mut tally = Tally::default();
    let begun = begin(PICTURE);
    let folder = program.map_or_else(built, folder_of);
    let drawn = folder.and_then(|folder| session(&folder)).and_then(|text| {
        let path = place::root().join(PICTURE);
        fs::write(&path, draw(&text)).map_err(|error| format!("write {PICTURE}: {error}"))
    });
    end(PICTURE, begun, drawn.is_ok());
    match drawn {
        Ok(()) => tally.pass(1),
        Err(problem) => tally.fail(problem),
    }
    Ok(tally.finish())
}

/// The daemon, with everything it made. Dropping it stops the daemon and removes the folder.
struct Daemon {
    child: Child,
    folder: PathBuf,
}

impl Daemon {
    fn start(programs: &Path) -> Result<Daemon, String> {
        let folder = std::env::temp_dir().join(format!("everglade-picture-{}", std::process::id()));
        fs::create_dir_all(folder.join("data"))
            .map_err(|error| format!("make {}: {error}", folder.display()))?;
        let child = Command::new(programs.join("everglade"))
            .args(["serve", "--aggregate-size", "8GiB", "--metrics-tcp", "off"])
            .args(["--data-dir", "data"])
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut daemon = match child {
            Ok(child) => Daemon { child, folder },
            Err(error) => return Err(format!("start everglade: {error}")),
        };
        let stdout = daemon.child.stdout.take().map(BufReader::new);
        let mut lines = stdout.into_iter().flat_map(BufRead::lines).flatten();
        if lines.any(|line| line.starts_with("ready ")) {
            Ok(daemon)
        } else {
            Err("everglade did not start; is the port 10809 in use?".to_owned())
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The folder is scratch, so the daemon need not save anything. Neither step can be mended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The folder of a program that exists.
fn folder_of(program: &Path) -> Result<PathBuf, String> {
    let path = program
        .canonicalize()
        .map_err(|error| format!("find {}: {error}", program.display()))?;
    if !path.ends_with("everglade") {
        return Err(format!("{} is not called everglade", path.display()));
    }
    Ok(path.parent().unwrap_or(Path::new("/")).to_owned())
}

/// Builds the program; the folder it is in.
fn built() -> Result<PathBuf, String> {
    let status = cargo(&["build", "--release", "--package", "everglade"]).status();
    if !status.is_ok_and(|status| status.success()) {
        return Err("cargo build --release failed".to_owned());
    }
    folder_of(&place::program("everglade"))
}

/// Runs the session with the program in this folder; the commands with what they printed.
fn session(programs: &Path) -> Result<String, String> {
    let daemon = Daemon::start(programs)?;
    for (name, factor) in [("photos.img", 31), ("mistake.img", 77)] {
        fs::write(daemon.folder.join(name), image(factor))
            .map_err(|error| format!("write {name}: {error}"))?;
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let mut text = String::new();
    for line in SESSION {
        let output = Command::new("sh")
            .args(["-c", line])
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("EVERGLADE_DATA_DIR", "data")
            .current_dir(&daemon.folder)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("run sh: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("'{line}' failed: {said}"));
        }
        text.push_str(&format!("$ {line}\n"));
        text.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    Ok(text)
}

/// Bytes of which no two blocks are alike.
fn image(factor: u64) -> Vec<u8> {
    let mut state = factor;
    let mut bytes = Vec::with_capacity(IMAGE_BYTES);
    while bytes.len() < IMAGE_BYTES {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        bytes.extend(state.to_le_bytes());
    }
    bytes
}

/// The text as a terminal window. It has its own dark ground, so it reads alike on light and dark
/// pages. `textLength` keeps the columns whatever font the reader has.
fn draw(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let columns = lines.iter().map(|line| line.chars().count()).max();
    let width = wide(columns.unwrap_or(0)) + 2.0 * MARGIN;
    let rows = u32::try_from(lines.len()).unwrap_or(0);
    let height = BAR + LINE * f64::from(rows) + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">\n\
         <title>A session: make a disk, fill it, take a snapshot, overwrite the disk, restore \
         it</title>\n\
         <!-- Drawn by `cargo xtask picture`; the text is what the programs printed. -->\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#12211d\"/>\n\
         <g fill=\"#48655c\"><circle cx=\"20\" cy=\"17\" r=\"5\"/><circle cx=\"37\" cy=\"17\" \
         r=\"5\"/><circle cx=\"54\" cy=\"17\" r=\"5\"/></g>\n\
         <g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', \
         monospace\" font-size=\"14\">\n"
    );
    let mut y = BAR + LINE * 0.75;
    for line in lines {
        let fill = if line.starts_with("$ ") {
            "#8be0b4"
        } else {
            "#dbe7e2"
        };
        let length = wide(line.chars().count());
        svg.push_str(&format!(
            "<text x=\"{MARGIN}\" y=\"{y:.1}\" fill=\"{fill}\" textLength=\"{length:.1}\" \
             lengthAdjust=\"spacingAndGlyphs\">{}</text>\n",
            escaped(line)
        ));
        y += LINE;
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// Width of so many characters.
fn wide(characters: usize) -> f64 {
    f64::from(u32::try_from(characters).unwrap_or(0)) * CHARACTER
}

/// Spaces become no-break spaces, because browsers shrink runs of the others.
fn escaped(line: &str) -> String {
    line.replace('&', "&amp;")
        .replace(' ', "\u{a0}")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawn_line_is_escaped_and_commands_differ_from_output() {
        let svg = draw("$ a && b <c>\nprinted\n");
        assert!(
            svg.contains("fill=\"#8be0b4\" textLength=\"100.8\""),
            "{svg}"
        );
        assert!(
            svg.contains(">$\u{a0}a\u{a0}&amp;&amp;\u{a0}b\u{a0}&lt;c&gt;</text>"),
            "{svg}"
        );
        assert!(
            svg.contains("fill=\"#dbe7e2\" textLength=\"58.8\""),
            "{svg}"
        );
    }

    #[test]
    fn no_two_blocks_of_an_image_are_alike() {
        let bytes = image(31);
        assert_eq!(bytes.len(), IMAGE_BYTES);
        assert_ne!(bytes[..4096], bytes[4096..8192]);
        assert_ne!(bytes[..4096], image(77)[..4096]);
    }
}
