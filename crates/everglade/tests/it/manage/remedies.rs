//! Messages and their remedies, as a table: each command is refused with the remedy that its row
//! quotes, and what the row does about it, which is that remedy, works.
//!
//! `--yes` was proposed for a directory that is not empty, and changed nothing; the same for a
//! volume whose snapshot was held. So every remedy is executed.

use std::process::Output;

use super::{TestDir, ask, serve};
use crate::running::{Server, code, stderr, stdout};

/// A refusal: arguments, exit code, the remedy in the message, and the remedy as a command of a
/// shell that has the message in `$SAID`.
type Row<'a> = (&'a str, i32, &'a str, &'a str);

/// A start and an orderly stop, for remedies: `start --memory 1GiB`. Without an address it takes a
/// free port.
const START: &str = "start() { rm -f $D/ready; \
    EVERGLADE_NBD_TCP=:0 everglade serve --quiet --aggregate-size 1GiB \"$@\" > $D/ready & \
    pid=$!; \
    until grep -qs ready $D/ready || ! kill -0 $pid; do sleep 0.1; done; \
    kill $pid; wait $pid; }";

fn run(dir: &TestDir, command: &str, said: &str) -> Output {
    let mut shell = dir.shell(&format!("{START}; {command}"));
    shell.env("SAID", said).output().expect("a shell")
}

#[track_caller]
fn must(dir: &TestDir, command: &str, said: &str) {
    let output = run(dir, command, said);
    assert_eq!(
        code(&output),
        0,
        "{command}\nafter: {said}\n{}{}",
        stdout(&output),
        stderr(&output)
    );
}

/// Each row is refused as it says, and its remedy works.
fn work(dir: &TestDir, rows: &[Row<'_>]) {
    for (arguments, exit, remedy, command) in rows {
        let output = run(dir, &format!("everglade {arguments}"), "");
        let said = stderr(&output);
        assert_eq!(code(&output), *exit, "{arguments}: {said}");
        assert_eq!(said.lines().count(), 1, "{arguments}: {said}");
        assert!(
            said.contains(remedy),
            "{arguments}: {remedy:?} is not in: {said}"
        );
        must(dir, command, &said);
    }
}

/// A daemon whose only aggregate is `spare`: the first row of all.
fn spare(dir: &TestDir) -> Server {
    let server = serve(dir);
    work(
        dir,
        &[(
            "aggregate delete aggr0",
            6,
            "make another first; then add --yes and --discard-volumes",
            "everglade aggregate create spare --size 2GiB && \
            everglade aggregate delete aggr0 --yes --discard-volumes",
        )],
    );
    server
}

#[test]
fn remedies_of_refused_devices_work() {
    let dir = TestDir::new();
    let server = spare(&dir);
    must(
        &dir,
        "mkdir $D/filled $D/empty && touch $D/filled/thesis.tex && \
        truncate -s 1G $D/noisy $D/blank $D/one && truncate -s 1M $D/small && \
        head -c 1M /dev/urandom | dd of=$D/noisy conv=notrunc status=none",
        "",
    );
    work(
        &dir,
        &[
            (
                "aggregate create a --devices $D/filled --size 1GiB --yes",
                6,
                "choose an empty directory (EVG",
                "everglade aggregate create a --devices $D/empty --size 1GiB",
            ),
            (
                "aggregate create b --devices $D/noisy",
                6,
                "add --yes if that is meant",
                "everglade aggregate create b --devices $D/noisy --yes",
            ),
            (
                "aggregate create c --devices $D/small",
                1,
                "use a device of at least ",
                "least=${SAID##*at least } && least=${least%%.0 MiB*} && \
                truncate -s ${least}M $D/small && everglade aggregate create c --devices $D/small",
            ),
            (
                "aggregate create d --devices $D/blank --size 1GiB",
                2,
                "only directories are given a size",
                "everglade aggregate create d --devices $D/blank",
            ),
            // A label of an aggregate that this daemon does not know; the page of EVG-2003.
            (
                "aggregate delete b",
                6,
                "add --yes if that is meant",
                "cp --sparse=always $D/blank $D/foreign && everglade aggregate delete b --yes",
            ),
            (
                "aggregate create b --devices $D/foreign --yes",
                5,
                "carries the label of an aggregate; choose another device",
                "everglade aggregate create b --devices $D/noisy --yes && \
                dd if=/dev/zero of=$D/foreign bs=4M count=1 conv=notrunc status=none && \
                dd if=/dev/zero of=$D/foreign bs=4M seek=255 count=1 conv=notrunc status=none && \
                everglade aggregate create e --devices $D/foreign",
            ),
            (
                "aggregate create f --devices $D/one --journal-device $D/one",
                2,
                "leave it out, or choose another",
                "truncate -s 128M $D/journal && everglade aggregate create f --devices $D/one \
                --journal-device $D/journal --journal-half 16MiB",
            ),
            (
                "aggregate create g --size 1GiB --journal-half 1MiB",
                2,
                "from 16.0 MiB to 4.0 GiB",
                "everglade aggregate create g --size 1GiB --journal-half 16MiB",
            ),
            (
                "aggregate add b",
                2,
                "name devices, or give a size",
                "everglade aggregate add b --size 1GiB",
            ),
            (
                "aggregate resize c",
                1,
                "make one larger on the host first, such as ",
                "least=${SAID##* to } && least=${least%%.0 MiB*} && \
                truncate -s ${least}M $D/small && everglade aggregate resize c",
            ),
            (
                "aggregate resize c --size 2GiB",
                2,
                "make one larger on the host, and leave the size out",
                "truncate -s +256M $D/small && everglade aggregate resize c",
            ),
            (
                "aggregate resize spare --size 2052MiB",
                2,
                "make it at least ",
                "least=${SAID##*at least } && least=${least%%.0 MiB*} && \
                everglade aggregate resize spare --size ${least}MiB",
            ),
            (
                "aggregate rename g b",
                5,
                "choose another name",
                "everglade aggregate rename g h",
            ),
            (
                "volume create v",
                2,
                "choose one of ",
                "everglade volume create v --aggregate a",
            ),
            (
                "aggregate delete a",
                6,
                "add --yes and --discard-volumes",
                "everglade aggregate delete a --yes --discard-volumes",
            ),
        ],
    );
    ask(&dir, &["volume", "create", "v", "--aggregate", "b"]);
    work(
        &dir,
        &[(
            "aggregate delete b --yes",
            6,
            "add --discard-volumes if that is meant",
            "everglade aggregate delete b --yes --discard-volumes",
        )],
    );
    server.stop();
}

#[test]
fn remedies_of_refused_changes_work() {
    let dir = TestDir::new();
    let server = spare(&dir);
    must(
        &dir,
        "set -e; everglade volume create v; everglade lun create v/a --size 16MiB; \
        everglade lun create v/b --size 16MiB; everglade snapshot create v@s; \
        everglade snapshot hold v@s backup; everglade clone create c --from v@s; \
        everglade policy create p --daily 1; everglade policy set v p",
        "",
    );
    work(
        &dir,
        &[
            (
                "volume create v",
                5,
                "choose another name",
                "everglade volume create w",
            ),
            (
                "volume create w --sync always --if-missing",
                5,
                "choose another name, or these settings",
                "everglade volume create w --sync standard --if-missing",
            ),
            (
                "volume create x --snapshot-policy nix",
                4,
                "use none or one of ",
                "everglade volume create x --snapshot-policy none",
            ),
            (
                "lun create v/a --size 32MiB --if-missing",
                5,
                "or this size, or resize it",
                "everglade lun create v/a --size 16MiB --if-missing && \
                everglade lun resize v/a --size 32MiB",
            ),
            (
                "lun resize v/a --size 16MiB",
                6,
                "add --yes if that is meant",
                "everglade lun resize v/a --size 16MiB --yes",
            ),
            (
                "lun create v/x --size 4097",
                2,
                "multiple of 4096",
                "everglade lun create v/x --size 8192",
            ),
            (
                "lun create v/y --size 1GB",
                2,
                "write KiB, MiB, GiB",
                "everglade lun create v/y --size 1GiB",
            ),
            (
                "lun delete v/y",
                6,
                "add --yes if that is meant",
                "everglade lun delete v/y --yes",
            ),
            (
                "lun clone v/a w/x",
                2,
                "'clone create' clones a volume",
                "everglade lun clone v/a v/clone --wait && everglade clone create d --from v@s",
            ),
            (
                "snapshot create v@s",
                5,
                "choose another name",
                "everglade snapshot create v@t",
            ),
            (
                "snapshot diff v@t",
                2,
                "say which with --lun",
                "everglade snapshot diff v@t --lun a",
            ),
            (
                "snapshot diff v@t w",
                2,
                "compare images of one",
                "everglade snapshot diff v@t v --lun a",
            ),
            (
                "clone show v",
                4,
                "'everglade volume show v' shows it",
                "everglade volume show v",
            ),
            (
                "clone split stop c",
                5,
                "'clone split show c' says more",
                "everglade clone split show c",
            ),
            (
                "policy delete p",
                5,
                "with 'policy set'",
                "everglade policy set v none && everglade policy delete p",
            ),
            (
                "policy delete default",
                5,
                "'policy set VOLUME none' does without",
                "everglade policy set v none",
            ),
            (
                "policy set v nix",
                4,
                "use none or one of ",
                "everglade policy set v default",
            ),
            (
                "policy create q",
                2,
                "say how many to keep of hourly, daily or weekly ones",
                "everglade policy create q --daily 2",
            ),
            (
                "policy create r --hourly 1 --at 03:00",
                2,
                "leave the hour 00, or keep daily or weekly ones",
                "everglade policy create r --hourly 1 --at 00:30 && \
                everglade policy create r2 --hourly 1 --daily 1 --at 03:00",
            ),
            (
                "policy create t --daily 1 --weekday monday",
                2,
                "leave this out, or say how many to keep of them",
                "everglade policy create t --daily 1 && \
                everglade policy create t2 --weekly 1 --weekday monday",
            ),
            (
                "policy create u --daily 1 --time-zone Nowhere",
                2,
                "use an IANA name such as Europe/Berlin, or UTC",
                "everglade policy create u --daily 1 --time-zone Europe/Berlin",
            ),
            (
                "policy create none --daily 1",
                2,
                "choose another name",
                "everglade policy create n --daily 1",
            ),
            (
                "volume delete v",
                6,
                "release the holds first",
                "everglade snapshot release v@s backup",
            ),
            (
                "volume delete v --yes",
                5,
                "split or delete what is cloned first",
                "everglade volume delete d --yes",
            ),
            (
                "snapshot delete v@s",
                6,
                "split or delete what is cloned first, and 'trash empty' what is in the trash; \
                then add --yes",
                "everglade clone split start c --wait && everglade trash empty d --yes && \
                everglade snapshot delete v@s --yes",
            ),
            (
                "snapshot restore v@t --discard-newer",
                6,
                "add --yes if that is meant",
                "everglade snapshot restore v@t --discard-newer --yes",
            ),
            (
                "lun show --columns nix",
                2,
                "use some of name, ",
                "everglade lun show --columns name",
            ),
            (
                "lun show v/a --where 'size>1'",
                2,
                "leave out its name",
                "everglade lun show --where 'size>1' && everglade lun show v/a",
            ),
        ],
    );
    // What was renamed, and what was made anew, since the snapshot.
    must(
        &dir,
        "everglade lun rename v/a z && everglade lun delete v/b --yes --wait && \
        everglade lun create v/b --size 16MiB",
        "",
    );
    work(
        &dir,
        &[
            (
                "snapshot restore v@t --lun a",
                5,
                "is v/z now; restore it under that name",
                "everglade snapshot restore v@t --lun z",
            ),
            (
                "snapshot restore v@t --lun b",
                5,
                "rename it or delete it first",
                "everglade lun rename v/b b2 && everglade snapshot restore v@t --lun b",
            ),
        ],
    );
    // All holds that a snapshot can have.
    must(
        &dir,
        "for i in $(seq 16); do everglade snapshot hold v@t h$i || exit 1; done",
        "",
    );
    work(
        &dir,
        &[(
            "snapshot hold v@t x",
            5,
            "release one first",
            "everglade snapshot release v@t h1 && everglade snapshot hold v@t x",
        )],
    );
    server.stop();
}

#[test]
fn remedies_of_a_start_that_is_refused_work() {
    let dir = TestDir::new();
    work(
        &dir,
        &[
            (
                "check",
                2,
                "start 'everglade serve' once",
                "start && everglade check",
            ),
            (
                "serve --quiet --nbd-tcp off --nbd-unix off",
                1,
                "leave one of them on",
                "start --nbd-tcp off",
            ),
            (
                "serve --quiet --nbd-tcp :0 --console-loopback admin --api-tcp off",
                1,
                "set that too, or leave ",
                "head -c 64 /dev/zero | tr '\\0' x | sed 's/^/who admin /' > $D/tokens && \
                chmod 600 $D/tokens && start --api-tcp :0 --api-tokens $D/tokens && \
                start --console-loopback admin --api-tcp :0 && start",
            ),
            (
                "serve --quiet --nbd-tcp :0 --memory 1MiB",
                1,
                "at least 256.0 MiB",
                "start --memory 256MiB",
            ),
            (
                "serve --quiet --data-dir /dev/null",
                1,
                "choose another --data-dir",
                "start --data-dir $D/another",
            ),
        ],
    );
    must(
        &dir,
        "mkdir $D/foreign && touch $D/foreign/thesis.tex $D/socket && chmod go+w $D/another && \
        echo \"memroy = '1GiB'\" > $D/e.toml && chmod 644 $D/tokens",
        "",
    );
    work(
        &dir,
        &[
            (
                "serve --quiet --data-dir $D/foreign",
                1,
                "choose another --data-dir, or move those files away",
                "mv $D/foreign/thesis.tex $D && start --data-dir $D/foreign",
            ),
            (
                "serve --quiet --nbd-tcp :0 --data-dir $D/another",
                1,
                "run 'chmod go-w ",
                "fix=${SAID#*run \\'} && fix=${fix%%\\'*} && eval \"$fix\" && \
                start --data-dir $D/another",
            ),
            (
                "serve --quiet --nbd-tcp :0 --nbd-unix $D/socket",
                1,
                "move it away, or choose another path",
                "mv $D/socket $D/moved && start --nbd-unix $D/socket",
            ),
            (
                "serve --quiet --nbd-tcp :0 --nbd-unix $D/$(head -c 108 /dev/zero | tr '\\0' x)",
                1,
                "--nbd-unix off",
                "start --nbd-unix $D/short && start --nbd-unix off",
            ),
            (
                "serve --quiet --nbd-tcp :0 --api-tcp :0 --api-tokens $D/tokens",
                1,
                "chmod 600",
                "chmod 600 $D/tokens && start --api-tcp :0 --api-tokens $D/tokens",
            ),
            (
                "config check --config $D/e.toml",
                1,
                "did you mean 'memory'?",
                "sed -i s/memroy/memory/ $D/e.toml && everglade config check --config $D/e.toml",
            ),
        ],
    );
    let server = dir.serve(&[]);
    let taken = format!(
        "serve --quiet --data-dir $D/foreign --nbd-tcp {}",
        server.tcp
    );
    work(
        &dir,
        &[
            (
                "check",
                2,
                "or choose another --data-dir",
                "everglade check --data-dir $D/foreign",
            ),
            (
                &taken,
                1,
                "(':0' picks a free port, 'off' does without)",
                "start --data-dir $D/foreign --nbd-tcp :0 && \
                start --data-dir $D/foreign --nbd-tcp off",
            ),
            (
                "status --data-dir $D/foreign",
                3,
                "name its place with --data-dir or --socket",
                "everglade status --data-dir $D/data && \
                everglade status --data-dir $D/foreign --socket $D/data/run/api.sock",
            ),
        ],
    );
    server.stop();
}

#[test]
fn remedies_of_hosts_limits_tokens_and_the_trash_work() {
    let dir = TestDir::new();
    let server = spare(&dir);
    must(
        &dir,
        "set -e; everglade volume create v; everglade lun create v/a --size 16MiB; \
        everglade lun delete v/a --yes; everglade lun create v/a --size 16MiB; \
        everglade host create web 10.0.0.1; everglade host create me local 127.0.0.0/8; \
        everglade host-group create farm web me; everglade mapping create v/a farm; \
        everglade qos-policy set gold --iops 500; everglade token create t --role admin",
        "",
    );
    work(
        &dir,
        &[
            (
                "lun undelete v/a",
                5,
                "--as",
                "everglade lun undelete v/a --as back",
            ),
            (
                "host delete web",
                5,
                "'host-group modify farm --remove web'",
                "everglade host-group modify farm --remove web && everglade host delete web",
            ),
            (
                "host-group delete farm",
                5,
                "'mapping show --where to=farm'",
                "everglade mapping show --where to=farm && \
                everglade mapping delete v/a farm --yes && everglade host-group delete farm",
            ),
            (
                "qos set v/a --policy silver",
                4,
                "use one of gold, or make it with 'qos-policy set'",
                "everglade qos set v/a --policy gold && \
                everglade qos-policy set silver --weight 300 && \
                everglade qos set v --policy silver",
            ),
            (
                "qos-policy delete gold",
                5,
                "'qos show --where policy=gold' lists what has them, and 'qos set' or 'qos clear'",
                "everglade qos show --where policy=gold && everglade qos clear v/a && \
                everglade qos-policy delete gold",
            ),
            (
                "qos set v/a --burst 100 --weight 5",
                2,
                "limit operations or bytes, too",
                "everglade qos set v/a --burst 100 --iops 5000",
            ),
        ],
    );
    server.stop();
}
