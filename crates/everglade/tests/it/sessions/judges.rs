//! Clients of others on the daemon: libnbd's tools and its Python shell, nbdkit, qemu. They know
//! the protocol better than we do.

use super::{LUN, serve};
use crate::running::TestDir;
use crate::tools::{have, must, run, skip};

/// What libnbd's API can ask, with its own checks of what a server may answer (strict mode)
/// switched off where the server is to be asked what a client should not.
const SCRIPT: &str = r#"
import errno, nbd

h = nbd.NBD()
h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
h.connect_uri(uri)
assert h.get_structured_replies_negotiated()
assert h.can_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
for able in [h.can_cache, h.can_df, h.can_fast_zero, h.can_flush, h.can_fua,
             h.can_multi_conn, h.can_trim, h.can_zero]:
    assert able(), able
assert not h.is_read_only()
MIB = 1 << 20

# Data, holes between, chunks one by one.
h.pwrite(b"a" * 8192, 1 * MIB)
h.pwrite(b"b" * 4096, 3 * MIB)
chunks = []
def chunk(data, offset, status, error):
    assert error.value == 0
    chunks.append((offset, len(data), status))
data = h.pread_structured(4 * MIB, 0, chunk)
assert data[MIB:MIB + 8192] == b"a" * 8192
assert data[3 * MIB:3 * MIB + 4096] == b"b" * 4096
assert data.count(0) == 4 * MIB - 12288
assert sum(length for _, length, _ in chunks) == 4 * MIB
assert (MIB, 8192, nbd.READ_DATA) in chunks, chunks
holes = sum(length for _, length, status in chunks if status == nbd.READ_HOLE)
assert holes == 4 * MIB - 12288
chunks = []
h.pread_structured(4 * MIB, 0, chunk, nbd.CMD_FLAG_DF)
assert chunks == [(0, 4 * MIB, nbd.READ_DATA)], chunks

# Extents, asked for until all is told.
def extents(offset, length, flags=0):
    found = []
    while length > 0:
        entries = []
        def extent(context, at, list, error):
            assert context == nbd.CONTEXT_BASE_ALLOCATION and at == offset
            entries.extend(list)
        h.block_status(length, offset, extent, flags)
        if flags & nbd.CMD_FLAG_REQ_ONE:
            assert len(entries) == 2 and entries[0] <= length
        for size, state in zip(entries[0::2], entries[1::2]):
            if found and found[-1][1] == state:
                found[-1] = (found[-1][0] + size, state)
            else:
                found.append((size, state))
            offset += size
            length -= size
    return found
expected = [(MIB, 3), (8192, 0), (2 * MIB - 8192, 3), (4096, 0), (252 * MIB + MIB - 4096, 3)]
for flags in [0, nbd.CMD_FLAG_REQ_ONE]:
    assert extents(0, 256 * MIB, flags) == expected, extents(0, 256 * MIB, flags)
h.flush()
assert extents(0, 256 * MIB) == expected
h.trim(4096, MIB)
h.zero(4096, 3 * MIB, nbd.CMD_FLAG_FAST_ZERO)
assert extents(0, 4 * MIB) == [(MIB + 4096, 3), (4096, 0), (3 * MIB - MIB - 8192 + MIB, 3)]
h.zero(MIB, 8 * MIB, nbd.CMD_FLAG_NO_HOLE)
assert extents(8 * MIB, MIB) == [(MIB, 0)]
assert h.pread(MIB, 8 * MIB) == bytearray(MIB)
h.cache(32 * MIB, 0)

# What is refused, with its number; the connection goes on.
h.set_strict_mode(0)
def refused(number, call, *arguments):
    try:
        call(*arguments)
    except nbd.Error as error:
        assert error.errnum == number, (error.errnum, number)
        return
    raise AssertionError("not refused")
refused(errno.ENOTSUP, h.zero, 4096, 0, nbd.CMD_FLAG_FAST_ZERO | nbd.CMD_FLAG_NO_HOLE)
refused(errno.EINVAL, h.pread, 4096, 256 * MIB)
refused(errno.ENOSPC, h.pwrite, b"x", 256 * MIB)
refused(errno.EINVAL, h.trim, 4096, 256 * MIB)
refused(errno.EINVAL, h.trim, 4096, 0, nbd.CMD_FLAG_REQ_ONE)
h.pwrite(b"again", 0)
assert h.pread(5, 0) == b"again"

# A flush of one connection covers writes of the other.
g = nbd.NBD()
g.connect_uri(uri)
g.pwrite(b"g" * 4096, 20 * MIB)
h.flush()
g.shutdown()

# Haggling in steps: contexts are listed and chosen, and belong to one export.
o = nbd.NBD()
o.set_opt_mode(True)
o.set_uri_allow_local_file(True)
o.connect_uri(uri)
for query, expected in [("base:", ["base:allocation"]), ("qemu:dirty-bitmap:x", [])]:
    names = []
    o.clear_meta_contexts()
    o.add_meta_context(query)
    o.opt_list_meta_context(lambda name: names.append(name))
    assert names == expected, names
exports = []
o.opt_list(lambda name, text: exports.append(name))
assert exports == ["vol0/lun0"], exports
o.opt_info()
assert o.get_size() == 256 * MIB
o.opt_go()
assert o.pread(5, 0) == b"again"
o.shutdown()
h.shutdown()
print("done")
"#;

#[test]
fn libnbd_finds_nothing_wrong() {
    // Debian's, which knows Debian's packages; another Python may be in front of it.
    let python = "/usr/bin/python3";
    if !have(&["nbdsh"]) || !run(python, &["-c", "import nbd"]).status.success() {
        return skip("not installed: python3-libnbd");
    }
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let script = dir.file("judge.py");
    let text = format!("uri = {:?}\n{SCRIPT}", server.uri(LUN));
    std::fs::write(&script, text).expect("write");
    let said = must(python, &[script.to_str().expect("UTF-8")]);
    assert!(said.contains("done"), "{said}");
    server.stop();
}

#[test]
fn nbdinfo_maps_what_nbdcopy_copied() {
    if !have(&["nbdcopy", "nbdinfo", "nbdkit", "qemu-img"]) {
        return;
    }
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let image = dir.file("image");
    let mut bytes = vec![0; 256 << 20];
    bytes[8 << 20..9 << 20].fill(7);
    bytes[100 << 20..108 << 20].fill(8);
    std::fs::write(&image, &bytes).expect("write");
    let (image, uri) = (image.to_str().expect("UTF-8"), server.uri(LUN));
    must("nbdcopy", &["--destination-is-zero", image, &uri]);
    let data = |map: &str| -> u64 {
        let words = map
            .lines()
            .map(|l| l.split_whitespace().collect::<Vec<_>>());
        let lengths = words
            .filter(|words| words[2] == "0")
            .map(|words| words[1].parse::<u64>());
        lengths.map(|length| length.expect("a number")).sum()
    };
    assert_eq!(data(&must("nbdinfo", &["--map", &uri])), 9 << 20);
    // What is overwritten with zeroes takes no space afterwards.
    let zeroes = ["--", "[", "nbdkit", "null", "256M", "]", &uri];
    must("nbdcopy", &zeroes);
    assert_eq!(data(&must("nbdinfo", &["--map", &uri])), 0);
    must("nbdcopy", &[image, &uri]);
    let copy = dir.file("copy");
    let copy = copy.to_str().expect("UTF-8");
    must("nbdcopy", &["--sparse=4096", &uri, copy]);
    must(
        "qemu-img",
        &["compare", "-f", "raw", "-F", "raw", image, copy],
    );
    let map = must("qemu-img", &["map", "--output=json", "-f", "raw", &uri]);
    assert!(
        map.contains("\"start\": 8388608, \"length\": 1048576"),
        "{map}"
    );
    server.stop();
}

/// nbdkit's own client side: it asks, checks and serves on what we answer.
#[test]
fn nbdkit_passes_everything_on() {
    if !have(&["nbdkit", "nbdinfo", "nbdcopy"]) {
        return;
    }
    let dir = TestDir::new();
    let server = serve(&dir, &[]);
    let uri = format!("uri={}", server.uri(LUN));
    let run = "nbdinfo --map \"$uri\" && nbdinfo --can fast-zero \"$uri\" && nbdinfo --can \
        cache \"$uri\"";
    let said = must("nbdkit", &["-U", "-", "nbd", &uri, "--run", run]);
    assert!(said.contains("hole,zero"), "{said}");
    server.stop();
}
