//! Clients that others wrote.

use std::process::Command;

use everglade_iscsi::Settings;
use everglade_target::model::Model;

use crate::host::Host;

#[test]
fn by_hand() {
    let Ok(seconds) = std::env::var("BY_HAND") else {
        return;
    };
    let host = Host::start(Model::with_lun("vol0/lun0", 64 << 20), Settings::default());
    println!("{}", host.url("vol0/lun0"));
    std::thread::sleep(std::time::Duration::from_secs(seconds.parse().unwrap()));
    let _ = Command::new("true");
    host.stop();
}
