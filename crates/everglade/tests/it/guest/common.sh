# What the first processes of all guests begin with, and what they do with file systems. Lines that
# begin with "@@" are for the test.
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
stty -echo 2>/dev/null

fail() {
    echo "@@ failed: $*"
    dmesg | tail -n 40
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

# make_many FOLDER COUNT: a folder with so many small files.
make_many() {
    mkdir "$1/many"
    number=0
    while [ $number -lt "$2" ]; do
        dd if=/dev/urandom of="$1/many/$number" bs=777 count=$((number % 17 + 1)) 2>/dev/null ||
            fail "write a file"
        number=$((number + 1))
    done
}

# note_sums FOLDER NAME FILE…: notes the sums of the files.
note_sums() {
    folder=$1
    name=$2
    shift 2
    (cd "$folder" && find "$@" -type f | sort | xargs md5sum) >"/tmp/sums-$name" || fail "sums"
}

# same FOLDER NAME: the files are as they were when their sums were noted.
same() {
    (cd "$1" && md5sum -c -s "/tmp/sums-$2") || fail "contents of $2"
}

# check KIND DEVICE
check() {
    case $1 in
    ext4) must e2fsck -f -n "$2" ;;
    xfs) must xfs_repair -n "$2" ;;
    esac
}

# use KIND DEVICE: make, mount, write, delete, trim, unmount, check. The script has `fill FOLDER
# NAME`, which writes files and notes their sums.
use() {
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
