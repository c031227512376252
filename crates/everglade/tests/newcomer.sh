#!/usr/bin/env bash
# What a new operator stumbled over, tried again in an empty directory:
#
#   crates/everglade/tests/newcomer.sh target/release/everglade
#
# Each line of the output is one stumbling block. The last line counts those that are left.
set -u
binary=$(realpath "$1")
place=$(mktemp -d)
cd "$place" || exit 2
export EVERGLADE_SNAPSHOT_POLICY=none
left=0
server=

ever() { "$binary" --data-dir d "$@"; }

# start DIR OPTIONS…: serves, and waits for the ready line in DIR.out.
start() {
    local dir=$1
    shift
    rm -f "$dir.out"
    "$binary" --data-dir "$dir" serve --nbd-tcp :0 --metrics-tcp off "$@" \
        > "$dir.out" 2> "$dir.err" &
    server=$!
    for _ in $(seq 200); do
        grep -qs '^ready' "$dir.out" && return 0
        kill -0 "$server" 2> /dev/null || return 1
        sleep 0.1
    done
    return 1
}

stop() {
    kill "$server" && wait "$server"
}

# check NUMBER WHAT COMMAND…: the command succeeds.
check() {
    local number=$1 what=$2
    shift 2
    if "$@"; then
        echo "ok    $number $what"
    else
        echo "LEFT  $number $what"
        left=$((left + 1))
    fi
}

# says CODE TEXT COMMAND…: the command ends with the code, and says the text.
says() {
    local code=$1 text=$2 said
    shift 2
    said=$("$@" 2>&1)
    local found=$?
    [ "$found" = "$code" ] && grep -qF -- "$text" <<< "$said" && return 0
    echo "      exit $found: $said"
    return 1
}

lacks() { ! grep -qE -- "$1" "$2"; }
has() { grep -qF -- "$1" "$2"; }

start d --aggregate-size 4GiB || exit 2
check 1 "a first start proposes to fill its own empty disk" has 'nbdcopy disk.img' d.out
stop
start d || exit 2
check 1 "a restart proposes nothing that writes" lacks 'randrw|nbdcopy disk|nbd-client -N' d.out
check 1 "its commands name the data directory" has "--data-dir $place/d" d.out

mkdir folder
ever aggregate create b --devices "$place/folder" --size 1GiB > /dev/null
ever aggregate delete b --yes > /dev/null
closed() { ! ls -l "/proc/$server/fd" | grep -q "$place/folder"; }
check 2 "a deleted aggregate lets its directory go" closed

mkdir full && touch full/file
no_yes() {
    local said
    said=$(ever aggregate create b --devices "$place/full" --size 1GiB 2>&1)
    ! grep -qF -- '--yes' <<< "$said" && grep -qF 'choose an empty directory' <<< "$said"
}
check 3 "a folder with files is refused with a remedy that works" no_yes

check 6 "sizes are compared as sizes" says 0 vol0/lun0 ever lun show --where 'size>=1.5GiB'
check 6 "what is no size is refused" says 2 "'bla' is not a size" \
    ever lun show --where 'size>bla'
check 6 "so is what is no column" says 2 'is not a column' ever lun show --where 'created<x'

check 7 "config check refuses what serve refuses" says 1 'does not belong to everglade' \
    "$binary" config check --data-dir /etc
check 10 "help knows nouns" says 0 'Usage' "$binary" help lun
check 10 "errors are problems in JSON" says 4 '"code":"EVG-2001"' ever --json lun show nix/nix
check 10 "snapshots are of volumes" says 2 'a snapshot holds a volume' \
    ever snapshot create vol0/lun0@s

ever snapshot create vol0@s > /dev/null
ever snapshot scan vol0 --pause > /dev/null 2>&1 || ever snapshot scan vol0 --pace 0 > /dev/null
ever snapshot delete vol0@s --purge --yes > /dev/null
check 9 "status says that a paused scan holds deletions" says 0 'EVG-4016' ever status
ever snapshot scan vol0 --pace 100 > /dev/null 2>&1

before=$(ever event show --no-header | wc -l)
stop
segment=$(find d/aggregates -name '*.seg' | sort | tail -1)
cp --sparse=always "$segment" kept
truncate -s 1M "$segment"
start d
told() { ever status | grep -qF 'EVG-4015'; }
check 4 "a cut segment file is told at the start" told
check 11 "events survive a restart" [ "$(ever event show --no-header | wc -l)" -gt "$before" ]
check 11 "and reach the log" has "$(basename "$segment")" d.err
stop
cp --sparse=always kept "$segment"

# Two pools of the same names.
"$binary" --data-dir e serve --nbd-tcp :0 --metrics-tcp off --aggregate-size 1GiB > e.out 2> e.err &
other=$!
for _ in $(seq 100); do grep -q '^ready' e.out && break; sleep 0.1; done
kill "$other" && wait "$other"
start d
import() { ever aggregate import "$place/e/aggregates/aggr0/dev0" --as other; }
check 5 "a volume of the same name is a clear refusal" says 5 'rename the one that is here' import
ever volume rename vol0 mine > /dev/null
check 5 "renamed, both are served" says 0 other import
stop

start d --aggregate-size 8GiB
check 7 "an option without effect is told" has 'aggregate-size' d.err
stop
check 7 "more memory than there is is refused" says 1 'expected at most' \
    "$binary" --data-dir d serve --memory 500TiB

start f --aggregate-size 100TiB
small() {
    "$binary" --data-dir f status | grep -qF 'aggr0 online' || return 1
    [ "$(du -sm "$place/f" | cut -f1)" -lt 2048 ]
}
check 12 "an empty pool of 100 TiB takes little of its host" small
stop

cd / && rm -rf "$place"
echo "$left left"
[ "$left" = 0 ]
