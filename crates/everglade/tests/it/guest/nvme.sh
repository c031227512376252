#!/bin/busybox sh
# First process of the guest: finds our subsystems over NVMe/TCP, makes file systems on them, uses
# them, checks them. Lines that begin with "@@" are for the test.
/bin/busybox mkdir -p /proc /sys /dev /mnt /tmp /run /etc/nvme
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin:/sbin:/usr/sbin
. /common.sh

# Runs a command whose output must have a text.
says() {
    text=$1
    shift
    must "$@"
    grep -q "$text" /tmp/said || { cat /tmp/said; fail "no '$text' in: $*"; }
}

echo nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555 >/etc/nvme/hostnqn
echo 11111111-2222-3333-4444-555555555555 >/etc/nvme/hostid
echo "@@ booted"
read -r port

to="-t tcp -a 10.0.2.2 -s $port"
name=nqn.2026-11.dev.everglade:vol0

# wait_for COMMAND: until it succeeds, for a minute at most.
wait_for() {
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || fail "waited for: $*"
        sleep 0.1
    done
}

# found LUN: the name of its subsystem in what discovery said.
found() {
    sed -n "s/^subnqn: *\\($name\\.$1:[0-9a-f]*\\)\$/\\1/p" /tmp/said
}

says "$name.lun0" nvme discover $to
lun0=$(found lun0)
xfs=$(found xfs)
[ -n "$lun0" ] && [ -n "$xfs" ] || { cat /tmp/said; fail "two subsystems"; }
# Digests on one of them.
must nvme connect $to -n "$lun0" --reconnect-delay=1
must nvme connect $to -n "$xfs" --reconnect-delay=1 --hdr-digest --data-digest
wait_for test -b /dev/nvme0n1
wait_for test -b /dev/nvme1n1
for disk in nvme0n1 nvme1n1; do
    [ "$(blockdev --getsize64 /dev/$disk)" = 536870912 ] || fail "size of $disk"
    [ "$(cat /sys/block/$disk/queue/physical_block_size)" = 4096 ] || fail "blocks of $disk"
    [ "$(cat /sys/block/$disk/queue/write_cache)" = "write back" ] || fail "cache of $disk"
done
says "Everglade" nvme list
says "$lun0" nvme id-ctrl /dev/nvme0
says "nsze *: 0x100000" nvme id-ns /dev/nvme0n1
says "0x1" nvme list-ns /dev/nvme0
must nvme ns-descs /dev/nvme0n1
must nvme smart-log /dev/nvme0
must nvme error-log /dev/nvme0
must nvme fw-log /dev/nvme0
must nvme effects-log /dev/nvme0
says "optimized" nvme ana-log /dev/nvme0
must nvme get-feature /dev/nvme0 -f 6
must nvme get-feature /dev/nvme0 -f 7
must nvme flush /dev/nvme0n1
echo "@@ identified"

# Commands that file systems do not use.
dd if=/dev/urandom of=/tmp/block bs=4096 count=1 2>/dev/null
must nvme write /dev/nvme0n1 -s 8 -c 7 -z 4096 -d /tmp/block
must nvme read /dev/nvme0n1 -s 8 -c 7 -z 4096 -d /tmp/again
must cmp /tmp/block /tmp/again
must nvme compare /dev/nvme0n1 -s 8 -c 7 -z 4096 -d /tmp/block
nvme compare /dev/nvme0n1 -s 16 -c 7 -z 4096 -d /tmp/block >/dev/null 2>&1 && fail "compare"
must nvme verify /dev/nvme0n1 -s 0 -c 63
must nvme copy /dev/nvme0n1 --sdlba=64 --slbs=8 --blocks=7
must nvme compare /dev/nvme0n1 -s 64 -c 7 -z 4096 -d /tmp/block
must nvme write-zeroes /dev/nvme0n1 -s 8 -c 7
must nvme read /dev/nvme0n1 -s 8 -c 7 -z 4096 -d /tmp/again
[ "$(tr -d '\000' </tmp/again | wc -c)" = 0 ] || fail "zeroes"
must nvme dsm /dev/nvme0n1 --ad --slbs=64 --blocks=8
# A reservation that outlives the restart below.
must nvme resv-register /dev/nvme0n1 --nrkey=17 --cptpl=3
must nvme resv-acquire /dev/nvme0n1 --crkey=17 --rtype=1
says "rtype *: 1" nvme resv-report /dev/nvme0n1 --eds
echo "@@ commanded"

# fill FOLDER NAME: files of all sizes, and their sums.
fill() {
    make_many "$1" 100
    must dd if=/dev/urandom of="$1/large" bs=1M count=24
    note_sums "$1" "$2" many large
}

use ext4 /dev/nvme0n1
use xfs /dev/nvme1n1

# The LUN grows, and the kernel notices by itself.
echo "@@ grow"
read -r port
grown() { [ "$(blockdev --getsize64 /dev/nvme0n1)" = 671088640 ]; }
wait_for grown

# The daemon is killed and started again while files are written; the kernel goes on.
must mount -t ext4 /dev/nvme0n1 /mnt
dd if=/dev/urandom of=/mnt/under bs=64k count=400 conv=fsync >/tmp/dd 2>&1 &
writer=$!
echo "@@ restart"
read -r port
wait $writer || { cat /tmp/dd; fail "a write during the restart"; }
same /mnt ext4
says "rtype *: 1" nvme resv-report /dev/nvme0n1 --eds
must nvme resv-release /dev/nvme0n1 --crkey=17 --rtype=1
must nvme resv-register /dev/nvme0n1 --crkey=17 --rrega=1
says "rtype *: 0" nvme resv-report /dev/nvme0n1 --eds
md5sum /mnt/under >/tmp/sum || fail "sum"
must umount /mnt
check ext4 /dev/nvme0n1
must mount -t ext4 /dev/nvme0n1 /mnt
must md5sum -c /tmp/sum
must umount /mnt
must mount -t xfs /dev/nvme1n1 /mnt
same /mnt xfs
must umount /mnt
check xfs /dev/nvme1n1
must nvme disconnect -n "$lun0"
must nvme disconnect -n "$xfs"
echo "@@ done"
poweroff -f
sleep 60
