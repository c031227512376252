//! What a new operator stumbled over once: a script that tries it all in an empty directory.

use std::process::Command;

#[test]
fn a_newcomer_stumbles_over_nothing_any_more() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/newcomer.sh");
    let output = Command::new("bash")
        .args([script, env!("CARGO_BIN_EXE_everglade")])
        .output()
        .expect("bash runs");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{said}");
    assert!(
        !said.contains("LEFT") && said.lines().count() > 20,
        "{said}"
    );
}
