//! The file of CHAP secrets: who may log in over iSCSI, and how we prove who we are.
//!
//! ```text
//! # WHO       NAME                       SECRET, the rest of the line
//! initiator   iqn.1994-05.com.redhat:db  7qkXo3mZcP0v
//! target      everglade                  another-secret-9
//! ```
//!
//! Only the owner may read the file; otherwise the daemon refuses to start. Messages never show a
//! secret. The file is read at the start.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use everglade_iscsi::login::chap::{Account, Accounts, SECRET_BYTES_MIN, Secret};

const FILE_BYTES_MAX: u64 = 1 << 20;
/// Most initiators. A login looks through all of them.
const INITIATORS_MAX: usize = 4096;
/// Longest name and longest secret, in bytes.
const NAME_BYTES_MAX: usize = 255;
const SECRET_BYTES_MAX: usize = 255;

/// Reads the file.
///
/// # Errors
/// One line: unreadable, open to others, or the first line that is wrong. Never a secret.
pub(super) fn read(path: &Path) -> Result<Accounts, String> {
    let shown = path.display();
    let unreadable = |error| format!("cannot read the secrets in {shown}: {error}");
    let file = File::open(path).map_err(unreadable)?;
    // The mode is that of the opened file: nobody can swap it in between.
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.mode() & 0o077 != 0 {
        return Err(format!(
            "{shown} can be read by others (mode {:o}), and has secrets: chmod 600",
            metadata.mode() & 0o777
        ));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    let parsed = parse(&text);
    zeroize::Zeroize::zeroize(&mut text);
    parsed.map_err(|(line, problem)| format!("{shown}:{line}: {problem}"))
}

fn parse(text: &str) -> Result<Accounts, (usize, String)> {
    let mut accounts = Accounts::default();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let refuse = |problem: String| Err((number, problem));
        let mut words = line.splitn(2, char::is_whitespace);
        let who = words.next().unwrap_or_default();
        let rest = words.next().unwrap_or_default().trim_start();
        let Some((name, secret)) = rest.split_once(char::is_whitespace) else {
            return refuse("a line is 'initiator NAME SECRET' or 'target NAME SECRET'".to_owned());
        };
        let secret = secret.trim_start();
        if name.len() > NAME_BYTES_MAX || secret.len() > SECRET_BYTES_MAX {
            return refuse(format!(
                "name or secret is too long; expected at most {SECRET_BYTES_MAX} bytes"
            ));
        }
        let Some(secret) = Secret::new(secret.as_bytes()) else {
            return refuse(format!(
                "the secret of {name} has fewer than {SECRET_BYTES_MIN} bytes; make one with \
                'openssl rand -hex 16'"
            ));
        };
        let account = Account {
            name: name.to_owned(),
            secret,
        };
        match who {
            "initiator" => {
                if accounts.initiators.iter().any(|it| it.name == account.name) {
                    return refuse(format!("{name} is there twice"));
                }
                if accounts.initiators.len() == INITIATORS_MAX {
                    return refuse(format!("more than {INITIATORS_MAX} initiators"));
                }
                accounts.initiators.push(account);
            }
            "target" if accounts.target.is_some() => {
                return refuse("there is more than one target".to_owned());
            }
            "target" => accounts.target = Some(account),
            _ => {
                let problem = format!("'{who}' is neither 'initiator' nor 'target'");
                return refuse(problem);
            }
        }
    }
    if accounts.initiators.is_empty() {
        return Err((1, "no initiator in it, so nobody could log in".to_owned()));
    }
    // RFC 7143 §9.2.1: who knows an initiator's secret must not be able to pose as the target.
    if let Some(target) = &accounts.target
        && let Some(same) = accounts
            .initiators
            .iter()
            .find(|it| it.secret == target.secret)
    {
        let problem = format!("the target and {} have the same secret", same.name);
        return Err((1, problem));
    }
    Ok(accounts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const GOOD: &str = "# who\n\ninitiator a 0123456789ab\n target t  a secret with spaces \n\
        initiator b ABCDEFGHIJKL";

    #[test]
    fn lines_are_accounts() {
        let accounts = parse(GOOD).expect("good");
        let names: Vec<_> = accounts.initiators.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["a", "b"]);
        let target = accounts.target.expect("a target");
        assert_eq!(target.name, "t");
        let expected = Secret::new(b"a secret with spaces").expect("long");
        assert!(target.secret == expected);
    }

    #[test]
    fn a_bad_file_is_refused_without_showing_secrets() {
        for (line, text) in [
            (1, ""),
            (1, "initiator a"),
            (2, "# x\ninitiator a short"),
            (1, "owner a 0123456789ab"),
            (2, "initiator a 0123456789ab\ninitiator a 0123456789ab"),
            (2, "target a 0123456789ab\ntarget b 0123456789ac"),
            (1, "target a 0123456789ab\ninitiator b 0123456789ab"),
        ] {
            let (found, problem) = parse(text).expect_err(text);
            assert_eq!(found, line, "{text}: {problem}");
            assert!(!problem.contains("0123456789"), "{problem}");
        }
    }

    #[test]
    fn only_the_owner_may_read_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("secrets");
        std::fs::write(&path, GOOD).expect("written");
        for (mode, is_good) in [(0o600, true), (0o640, false), (0o604, false), (0o400, true)] {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, permissions).expect("changed");
            assert_eq!(read(&path).is_ok(), is_good, "{mode:o}");
        }
    }
}
