#!/bin/busybox sh
# First process of the guest: makes file systems on our exports, uses them, checks them. Lines that
# begin with "@@" are for the test.
/bin/busybox mkdir -p /proc /sys /dev /mnt /tmp /run /etc
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin:/sbin:/usr/sbin
. /common.sh
echo "@@ booted"
read -r port

# The test answers each time it is to be waited for; the answer is the daemon's port.
# connect DEVICE EXPORT
connect() {
    must nbd-client -N "$2" 10.0.2.2 "$port" "$1" -timeout 60
    [ "$(blockdev --getsize64 "$1")" = 536870912 ] || fail "size of $1"
}

# fill FOLDER NAME: files of all sizes, and their sums.
fill() {
    make_many "$1" 200
    must dd if=/dev/urandom of="$1/large" bs=1M count=24
    must dd if=/dev/urandom of="$1/sparse" bs=4k count=1 seek=5000
    note_sums "$1" "$2" many large sparse
}

connect /dev/nbd0 vol0/lun0
connect /dev/nbd1 vol0/xfs
echo "@@ ext4"
use ext4 /dev/nbd0
echo "@@ xfs"
use xfs /dev/nbd1
must nbd-client -d /dev/nbd0
must nbd-client -d /dev/nbd1

# The daemon is killed and started again; all was flushed by unmounting.
echo "@@ restart"
read -r port
connect /dev/nbd0 vol0/lun0
connect /dev/nbd1 vol0/xfs
for kind in ext4 xfs; do
    [ $kind = ext4 ] && device=/dev/nbd0 || device=/dev/nbd1
    check $kind $device
    must mount -t $kind $device /mnt
    same /mnt $kind
    must rm -r /mnt/many
    must umount /mnt
    check $kind $device
done
must nbd-client -d /dev/nbd0
must nbd-client -d /dev/nbd1
echo "@@ done"
poweroff -f
sleep 60
