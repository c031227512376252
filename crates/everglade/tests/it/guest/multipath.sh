#!/bin/busybox sh
# First process of a guest with two networks: it reaches the same LUNs on two ways, over NVMe/TCP
# with the kernel's native multipath and over iSCSI with dm-multipath. One way after the other is
# cut off while files are written. Lines that begin with "@@" are for the test.
/bin/busybox mkdir -p /proc /sys /dev /mnt /tmp /run /run/lock/iscsi /etc/iscsi /var/lib/iscsi \
    /etc/nvme
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin:/sbin:/usr/sbin
. /common.sh
must ip link set eth1 up
must ip addr add 10.0.3.15/24 dev eth1
echo "root:x:0:0::/:/bin/sh" >/etc/passwd
echo nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555 >/etc/nvme/hostnqn
echo 11111111-2222-3333-4444-555555555555 >/etc/nvme/hostid
echo "InitiatorName=iqn.2026-11.dev.example:guest" >/etc/iscsi/initiatorname.iscsi
# A way that does not answer is given up after seconds.
cat >/etc/iscsi/iscsid.conf <<CONF
node.startup = manual
node.session.timeo.replacement_timeout = 2
node.conn[0].timeo.noop_out_interval = 1
node.conn[0].timeo.noop_out_timeout = 2
node.conn[0].timeo.login_timeout = 3
CONF
iscsid -f >/tmp/iscsid 2>&1 &
echo "@@ booted"
read -r nvme_port iscsi_port

# wait_for COMMAND: until it succeeds, for a minute at most.
wait_for() {
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || { cat /tmp/said; fail "waited for: $*"; }
        sleep 0.1
    done
}

# write_through_cuts DISK NAME BACK: makes a file system on the disk, and writes while first one
# way and then the other is cut off. BACK is called when a way is there again.
write_through_cuts() {
    must mkfs.ext4 -q -E nodiscard "$1"
    must mount -t ext4 -o errors=panic "$1" /mnt
    for network in eth1 eth0; do
        (
            dd if=/dev/urandom of=/mnt/$network bs=64k count=800 oflag=direct conv=fsync \
                >/tmp/dd 2>&1
            echo "$?" >/tmp/dd-ended
        ) &
        writer=$!
        sleep 1
        must ip link set $network down
        wait $writer
        [ "$(cat /tmp/dd-ended)" = 0 ] || { cat /tmp/dd; fail "$2: a write without $network"; }
        must ip link set $network up
        "$3"
    done
    note_sums /mnt "$2" eth0 eth1
    must umount /mnt
    must e2fsck -f -n "$1"
    must mount -t ext4 "$1" /mnt
    same /mnt "$2"
    must umount /mnt
}

# Two controllers of one subsystem, and one disk.
must nvme discover -t tcp -a 10.0.2.2 -s "$nvme_port"
subsystem=$(sed -n "s/^subnqn: *\\(nqn[^ ]*vol0\\.lun0:[0-9a-f]*\\)\$/\\1/p" /tmp/said)
for address in 10.0.2.2 10.0.3.2; do
    must nvme connect -t tcp -a $address -s "$nvme_port" -n "$subsystem" --keep-alive-tmo=2 \
        --reconnect-delay=1
done
live() { [ "$(cat /sys/class/nvme/nvme*/state | grep -c live)" = "$1" ]; }
both_live() { wait_for live 2; }
both_live
[ "$(ls -d /sys/block/nvme0c*n1 | wc -l)" = 2 ] || { ls /sys/block; fail "two ways to one disk"; }
[ -b /dev/nvme1n1 ] && fail "a second disk"
write_through_cuts /dev/nvme0n1 nvme both_live
must nvme disconnect -n "$subsystem"
echo "@@ nvme"

# Two sessions with one target, whose disks have one name.
target=iqn.2026-11.dev.everglade:vol0.other
for address in 10.0.2.2 10.0.3.2; do
    wait_for iscsiadm -m node -o new -T $target -p "$address:$iscsi_port"
    must iscsiadm -m node -T $target -p "$address:$iscsi_port" --login
done
wait_for test -b /dev/sda
wait_for test -b /dev/sdb
[ "$(cat /sys/block/sda/device/wwid)" = "$(cat /sys/block/sdb/device/wwid)" ] || fail "two names"
must dmsetup create --noudevsync many --table "0 $(blockdev --getsz /dev/sda) multipath \
1 queue_if_no_path 0 1 1 round-robin 0 2 1 8:0 1 8:16 1"
must dmsetup mknodes
# What multipathd does: a way that answers again is used again.
logged_in() { [ "$(cat /sys/class/iscsi_session/*/state | grep -c LOGGED_IN)" = 2 ]; }
running() { [ "$(cat /sys/block/sd?/device/state | grep -c running)" = 2 ]; }
again() {
    wait_for logged_in
    wait_for running
    for path in 8:0 8:16; do
        must dmsetup message many 0 reinstate_path $path
    done
}
write_through_cuts /dev/mapper/many iscsi again
must dmsetup remove many
must iscsiadm -m node -T $target --logout
echo "@@ done"
poweroff -f
sleep 60
