//! Bad input: the exact exit code, one line that names what is wrong, and nothing changed.

use std::fs;
use std::path::Path;

use super::{GIB, TestDir, ask, everything, refused, serve, text};
use crate::running::{code, everglade, stderr};

/// Arguments, exit code, parts of the message.
type Row<'a> = (&'a [&'a str], i32, &'a [&'a str]);

#[test]
fn bad_input_has_its_exit_code_and_changes_nothing() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let long = "a".repeat(65);
    let long_lun = format!("vol0/{long}");
    let filled = dir.file("filled");
    fs::create_dir(&filled).expect("create");
    fs::write(filled.join("thesis.tex"), "years of work").expect("write");
    let (empty, file, small) = (dir.file("empty"), dir.file("file"), dir.file("small"));
    fs::create_dir(&empty).expect("create");
    for (path, bytes) in [(&file, GIB), (&small, 1 << 20)] {
        let device = fs::File::create(path).expect("create");
        device.set_len(bytes).expect("a sparse file");
    }
    let (filled, empty) = (text(&filled), text(&empty));
    let (file, small) = (text(&file), text(&small));
    let twice = format!("{file},{file}");
    let ours = dir.data_dir().join("state.toml");
    let ours = text(&ours);
    let rows: &[Row] = &[
        // Names.
        (&["volume", "create", ""], 2, &["is not a name"]),
        (&["volume", "create", "../x"], 2, &["is not a name"]),
        (&["volume", "create", "a/b"], 2, &["is not a name"]),
        (&["volume", "create", "é"], 2, &["is not a name"]),
        (&["volume", "create", &long], 2, &["1 to 64"]),
        (&["volume", "create"], 2, &["VOLUME"]),
        (
            &["lun", "create", "vol0", "--size", "1G"],
            2,
            &["VOLUME/LUN"],
        ),
        (
            &["lun", "create", "vol0/a/b", "--size", "1G"],
            2,
            &["is not a name"],
        ),
        (
            &["lun", "create", &long_lun, "--size", "1G"],
            2,
            &["1 to 64"],
        ),
        (&["lun", "show", "vol0/"], 2, &["is not a name"]),
        (&["aggregate", "create", "-x"], 2, &[]),
        // Sizes.
        (&["lun", "create", "vol0/x"], 2, &["--size"]),
        (&["lun", "create", "vol0/x", "--size", "1GB"], 2, &["KiB"]),
        (&["lun", "create", "vol0/x", "--size", "-1"], 2, &[]),
        (
            &["lun", "create", "vol0/x", "--size", "0"],
            2,
            &["--size", "EVG-1004"],
        ),
        (
            &["lun", "create", "vol0/x", "--size", "4097"],
            2,
            &["multiple of 4096"],
        ),
        (
            &["lun", "create", "vol0/x", "--size", "16000P"],
            2,
            &["EVG-1004"],
        ),
        (
            &["lun", "resize", "vol0/lun0", "--size", "4097"],
            6,
            &["would be lost"],
        ),
        (
            &["lun", "resize", "vol0/lun0", "--size", "64000001K"],
            2,
            &["multiple of 4096"],
        ),
        (
            &["lun", "resize", "vol0/lun0", "--size", "4K"],
            6,
            &["EVG-2004", "--yes"],
        ),
        // What does not exist.
        (
            &["volume", "show", "nix"],
            4,
            &["no volume nix", "EVG-2001"],
        ),
        (&["volume", "delete", "nix"], 4, &["no volume nix"]),
        (&["volume", "delete", "nix", "--yes"], 4, &["no volume nix"]),
        (
            &["volume", "create", "x", "--aggregate", "nix"],
            4,
            &["no aggregate nix"],
        ),
        (&["aggregate", "show", "nix"], 4, &["no aggregate nix"]),
        (&["lun", "show", "nix"], 4, &["no volume nix"]),
        (&["lun", "show", "vol0/nix"], 4, &["no LUN vol0/nix"]),
        (
            &["lun", "create", "nix/x", "--size", "1G"],
            4,
            &["no volume nix"],
        ),
        (
            &["lun", "resize", "vol0/nix", "--size", "1G"],
            4,
            &["no LUN vol0/nix"],
        ),
        (&["lun", "delete", "vol0/nix"], 4, &["no LUN vol0/nix"]),
        (
            &["lun", "delete", "vol0/nix", "--yes"],
            4,
            &["no LUN vol0/nix"],
        ),
        // What exists.
        (
            &["volume", "create", "vol0"],
            5,
            &["vol0 exists", "EVG-2002"],
        ),
        (
            &["lun", "create", "vol0/lun0", "--size", "1G"],
            5,
            &["vol0/lun0 exists"],
        ),
        (&["aggregate", "create", "aggr0"], 5, &["aggr0 exists"]),
        // What is not confirmed.
        (
            &["volume", "delete", "vol0"],
            6,
            &["vol0 with its LUN", "--yes"],
        ),
        (&["lun", "delete", "vol0/lun0"], 6, &["64.0 MiB", "--yes"]),
        // Devices.
        (
            &["aggregate", "create", "b", "--raid", "mirror"],
            2,
            &["mirror"],
        ),
        (
            &["aggregate", "create", "b", "--size", "1M"],
            2,
            &["1.0 GiB to"],
        ),
        (
            &["aggregate", "create", "b", "--size", "16000P"],
            2,
            &["EVG-1004"],
        ),
        (
            &["aggregate", "create", "b", "--devices", empty],
            2,
            &["--size", "directory"],
        ),
        (&["aggregate", "create", "b", "--devices", ""], 2, &[]),
        (
            &[
                "aggregate",
                "create",
                "b",
                "--devices",
                file,
                "--size",
                "1G",
            ],
            2,
            &["only directories"],
        ),
        (
            &["aggregate", "create", "b", "--devices", &twice],
            2,
            &["twice"],
        ),
        (
            &["aggregate", "create", "b", "--devices", "/dev/null"],
            1,
            &["EVG-2005"],
        ),
        (
            &["aggregate", "create", "b", "--devices", "/nix"],
            1,
            &["No such file"],
        ),
        (
            &["aggregate", "create", "b", "--devices", small],
            1,
            &["is too small"],
        ),
        (
            &[
                "aggregate",
                "create",
                "b",
                "--devices",
                filled,
                "--size",
                "1G",
                "--yes",
            ],
            6,
            &["thesis.tex"],
        ),
        (
            &["aggregate", "create", "b", "--devices", ours, "--yes"],
            5,
            &["data directory"],
        ),
        (
            &[
                "aggregate",
                "create",
                "b",
                "--devices",
                "/",
                "--size",
                "1G",
                "--yes",
            ],
            5,
            &["data directory"],
        ),
        // Grammar.
        (&["volume"], 2, &[]),
        (&["volume", "frobnicate"], 2, &[]),
        (
            &["volume", "create", "x", "--sync", "never"],
            2,
            &["standard"],
        ),
        (&["df", "extra"], 2, &[]),
    ];
    let before = (everything(&dir), picture(&dir.data_dir()));
    for (args, exit, parts) in rows {
        refused(&dir, args, *exit, parts);
    }
    let after = (everything(&dir), picture(&dir.data_dir()));
    assert_eq!(before, after, "a refusal changed something");
    assert_eq!(fs::read_dir(empty).expect("list").count(), 0);
    assert!(fs::read(file).expect("read").iter().all(|byte| *byte == 0));
    server.stop();
}

/// The small files of the data directory, and the names of its aggregates.
fn picture(data_dir: &Path) -> (String, Vec<String>) {
    let state = fs::read_to_string(data_dir.join("state.toml")).expect("read");
    let names = fs::read_dir(data_dir.join("aggregates")).expect("list");
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry
            .expect("an entry")
            .file_name()
            .to_string_lossy()
            .into_owned()
    };
    (state, names.map(name).collect())
}

#[test]
fn a_device_another_process_has_is_refused() {
    let dir = TestDir::new();
    let server = serve(&dir);
    let file = dir.file("device");
    let device = fs::File::create(&file).expect("create");
    device.set_len(GIB).expect("a sparse file");
    device.try_lock().expect("nobody else has it");
    let create = ["aggregate", "create", "b", "--devices", text(&file)];
    refused(&dir, &create, 5, &["in use"]);
    drop(device);
    ask(&dir, &create);
    server.stop();
}

#[test]
fn a_daemon_that_does_not_run_is_3_and_has_a_hint() {
    let dir = TestDir::new();
    for args in [
        &["status"][..],
        &["df"],
        &["lun", "list"],
        &["volume", "create", "v"],
    ] {
        refused(
            &dir,
            args,
            3,
            &["cannot reach the daemon", "everglade serve"],
        );
    }
    assert!(!dir.data_dir().exists(), "asking touches nothing");
    // A socket that a killed daemon left.
    serve(&dir).kill();
    refused(&dir, &["status"], 3, &["refused", "everglade serve"]);
    let elsewhere = dir.file("elsewhere.sock");
    refused(
        &dir,
        &["status", "--socket", text(&elsewhere)],
        3,
        &["elsewhere.sock"],
    );
}

#[test]
fn the_socket_can_be_elsewhere_or_off() {
    let dir = TestDir::new();
    let socket = dir.file("api.sock");
    let server = dir.serve(&["--aggregate-size", "2GiB", "--api-unix", text(&socket)]);
    refused(&dir, &["status"], 3, &[]);
    ask(&dir, &["status", "--socket", text(&socket)]);
    let mut command = everglade(&dir.data_dir());
    command.env("EVERGLADE_SOCKET", &socket).arg("status");
    assert_eq!(code(&command.output().expect("runs")), 0);
    server.stop();
    assert!(!socket.exists());

    let config = dir.file("e.toml");
    fs::write(&config, "[nbd]\ntcp = 'off'\n[api]\nunix = 'off'\n").expect("write");
    // The flag for NBD over TCP is given too; what the file says of it must not matter to others.
    let server = dir.serve(&["--config", text(&config)]);
    let output = dir.run(&["status", "--config", text(&config)]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("api.unix off"),
        "{}",
        stderr(&output)
    );
    server.stop();
}

#[test]
fn a_full_pool_is_7_and_deleting_still_works() {
    let dir = TestDir::new();
    let server = dir.serve(&["--lun-size", "2GiB", "--aggregate-size", "1GiB"]);
    let client = crate::wire::Client::open(&server.tcp, "vol0/lun0");
    let (mut client, _) = client.expect("a client");
    let block = vec![7; 1 << 20];
    let mut offset = 0;
    while client.write(offset, &block).is_ok() {
        offset += 1 << 20;
        assert!(offset < 2 * GIB, "more than there is");
    }
    let status = dir.run(&["status"]);
    assert_eq!(code(&status), 0);
    assert!(crate::running::stdout(&status).contains("EVG-4002"));
    // What is left is less than the client's block and may be more than none: volumes take the
    // rest.
    let name = |number: u32| format!("more{number}");
    let full = (0..100).find(|number| {
        let output = dir.run(&["volume", "create", &name(*number)]);
        code(&output) != 0
    });
    let full = name(full.expect("full at last"));
    refused(
        &dir,
        &["volume", "create", &full],
        7,
        &["no space", "EVG-3001"],
    );
    ask(
        &dir,
        &["lun", "delete", "vol0/lun0", "--yes", "--disconnect"],
    );
    ask(&dir, &["volume", "create", &full]);
    server.stop();
    super::assert_clean(&dir, 1);
}
