#!/bin/busybox sh
# First process of the guest: makes file systems on our exports, uses them, checks them. Lines that
# begin with "@@" are for the test.
/bin/busybox mkdir -p /proc /sys /dev /mnt /tmp /run /etc
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin:/sbin:/usr/sbin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
stty -echo 2>/dev/null

fail() {
    echo "@@ failed: $*"
    dmesg | tail -n 30
    poweroff -f
    sleep 60
}

# Runs a command that must succeed.
must() {
    "$@" >/tmp/said 2>&1 || { cat /tmp/said; fail "$*"; }
}

for module in $(cat /modules/order); do
    must insmod "/modules/$module"
done
must ip link set lo up
must ip link set eth0 up
must ip addr add 10.0.2.15/24 dev eth0
echo "@@ booted"
read -r port

# The test answers each time it is to be waited for; the answer is the daemon's port.
# connect DEVICE EXPORT
connect() {
    must nbd-client -N "$2" 10.0.2.2 "$port" "$1" -timeout 60
    [ "$(blockdev --getsize64 "$1")" = 536870912 ] || fail "size of $1"
}

# fill FOLDER: files of all sizes, and their sums.
fill() {
    mkdir "$1/many"
    number=0
    while [ $number -lt 200 ]; do
        dd if=/dev/urandom of="$1/many/$number" bs=777 count=$((number % 17 + 1)) 2>/dev/null ||
            fail "write a file"
        number=$((number + 1))
    done
    must dd if=/dev/urandom of="$1/large" bs=1M count=24
    must dd if=/dev/urandom of="$1/sparse" bs=4k count=1 seek=5000
    (cd "$1" && find many large sparse -type f | sort | xargs md5sum) >"/tmp/sums-$2" || fail "sums"
}

# same FOLDER: what fill left is still there.
same() {
    (cd "$1" && md5sum -c -s "/tmp/sums-$2") || fail "contents of $2"
}

# use KIND DEVICE: make, mount, write, delete, trim, unmount, check.
use() {
    echo "@@ $1"
    case $1 in
    ext4) must mkfs.ext4 -q -E discard "$2" ;;
    xfs) must mkfs.xfs -q "$2" ;;
    esac
    must mount -t "$1" "$2" /mnt
    must dd if=/dev/urandom of=/mnt/doomed bs=1M count=32
    must sync
    echo "@@ full $1"
    read -r port
    fill /mnt "$1"
    must rm /mnt/doomed
    must sync
    must fstrim /mnt
    same /mnt "$1"
    must umount /mnt
    check "$1" "$2"
}

# check KIND DEVICE
check() {
    case $1 in
    ext4) must e2fsck -f -n "$2" ;;
    xfs) must xfs_repair -n "$2" ;;
    esac
}

connect /dev/nbd0 vol0/lun0
connect /dev/nbd1 vol0/xfs
use ext4 /dev/nbd0
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
