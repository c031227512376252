#!/bin/busybox sh
# First process of a guest with the kernel's iSCSI initiator: uses our LUN as a SCSI disk while the
# daemon is killed and started again. Lines that begin with "@@" are for the test.
/bin/busybox mkdir -p /proc /sys /dev /mnt /tmp /run /run/lock/iscsi /etc/iscsi /var/lib/iscsi
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin:/sbin:/usr/sbin
. /common.sh
echo "root:x:0:0::/:/bin/sh" >/etc/passwd
echo "InitiatorName=iqn.2026-11.dev.example:guest" >/etc/iscsi/initiatorname.iscsi
cat >/etc/iscsi/iscsid.conf <<CONF
node.startup = manual
node.session.timeo.replacement_timeout = 120
node.conn[0].timeo.noop_out_interval = 2
node.conn[0].timeo.noop_out_timeout = 5
node.conn[0].iscsi.HeaderDigest = CRC32C
node.conn[0].iscsi.DataDigest = CRC32C
node.session.iscsi.InitialR2T = No
node.session.iscsi.ImmediateData = Yes
node.session.iscsi.FirstBurstLength = 65536
node.session.iscsi.MaxBurstLength = 262144
CONF
iscsid -f >/tmp/iscsid 2>&1 &
echo "@@ booted"
read -r port

target=iqn.2026-11.dev.everglade:vol0.lun0
attempt=0
until iscsiadm -m node -o new -T $target -p "10.0.2.2:$port" >/tmp/said 2>&1; do
    attempt=$((attempt + 1))
    [ $attempt -lt 20 ] || { cat /tmp/said; fail "a record of the target"; }
    sleep 1
done
must iscsiadm -m node -T $target -p "10.0.2.2:$port" --login
attempt=0
until [ -b /dev/sda ]; do
    attempt=$((attempt + 1))
    [ $attempt -lt 30 ] || { cat /tmp/iscsid; fail "no disk"; }
    sleep 1
done
[ "$(blockdev --getsize64 /dev/sda)" = 536870912 ] || fail "size"
[ "$(cat /sys/block/sda/queue/physical_block_size)" = 4096 ] || fail "physical blocks"
[ "$(cat /sys/block/sda/queue/discard_granularity)" = 4096 ] || fail "discards"
[ "$(cat /sys/block/sda/queue/write_cache)" = "write back" ] || fail "write cache"
[ "$(cat /sys/block/sda/queue/rotational)" = 0 ] || fail "it does not rotate"

must mkfs.ext4 -q -E discard /dev/sda
must mount -t ext4 -o errors=panic /dev/sda /mnt
must dd if=/dev/urandom of=/mnt/doomed bs=1M count=32
must sync
echo "@@ full"
read -r port
make_many /mnt 100
must sync
note_sums /mnt many many
must rm /mnt/doomed
must sync
must fstrim /mnt

# The daemon is killed while this writes. Everything that was synchronised must be there
# afterwards, and the writes go on.
(
    dd if=/dev/urandom of=/mnt/under-way bs=64k count=600 conv=fsync 2>/tmp/dd
    echo "$?" >/tmp/dd-ended
) &
sleep 1
echo "@@ restart"
read -r port
wait $!
[ "$(cat /tmp/dd-ended)" = 0 ] || { cat /tmp/dd; fail "a write did not survive the restart"; }
[ "$(stat -c %s /mnt/under-way)" = 39321600 ] || fail "the length of the file"
echo 3 >/proc/sys/vm/drop_caches
same /mnt many
must umount /mnt
must e2fsck -f -n /dev/sda
must iscsiadm -m node -T $target --logout
echo "@@ done"
poweroff -f
sleep 60
