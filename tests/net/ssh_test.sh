#!/bin/bash
# ssh_test.sh - `nexar run --hosts`: the launcher on host 1, sshd on host 2 and 3, which have
# namespaces and mounts of their own.
# Variables of the ranks stay as they are; functions are called by name.
# shellcheck disable=SC2016,SC2317
# shellcheck source=tests/net/lib.sh disable=SC1091
source "$(dirname "$0")/lib.sh"

PATH=$PATH:/usr/sbin:/sbin
for program in sshd ssh ssh-keygen unshare; do
    command -v "$program" >/dev/null || skip "$program is not installed (scripts/setup.sh test)"
done
unset NEXAR_HEARTBEAT_TIMEOUT "${!SLURM_@}"

# A time to sleep that tells the sleepers of this test from all others.
long=100000.$$
sleepers() { pgrep -cf "^sleep $long\$" || true; }
sleepers_are() { [ "$(sleepers)" = "$1" ]; }

# ---- hosts --------------------------------------------------------------------------

# sshd on host $1, whose mounts the commands $2 change before it starts.
start_sshd() {
    local i=$1
    cat >"$work/sshd_config.$i" <<CONF
Port 22
HostKey $work/host_key
AuthorizedKeysFile $work/key.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PidFile none
MaxStartups 100
CONF
    on "$i" unshare --mount sh -c "mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd && ${2:-:} &&
        exec $(command -v sshd) -D -e -f $work/sshd_config.$i" </dev/null >"$work/sshd.$i.log" 2>&1 8>&- 9>&- &
    await "$work/sshd.$i.log" 'Server listening on 0[.]0[.]0[.]0'
}

prepare() {
    local i
    bridge_hosts 3 1500
    chmod 755 "$work"
    ssh-keygen -q -t ed25519 -N '' -f "$work/host_key"
    ssh-keygen -q -t ed25519 -N '' -f "$work/key"
    for i in 2 3 8 9; do
        echo "10.90.0.$i $(cut -d ' ' -f 1-2 "$work/host_key.pub")" >>"$work/known_hosts"
        printf 'Host node%s\n  HostName 10.90.0.%s\n' "$i" "$i" >>"$work/ssh_config"
    done
    cat >>"$work/ssh_config" <<CONF
Host *
  User $(id -un)
  IdentityFile $work/key
  IdentitiesOnly yes
  UserKnownHostsFile $work/known_hosts
  GlobalKnownHostsFile /dev/null
CONF
    mkdir "$work/own" # a folder of which host 3 has its own
    start_sshd 2
    start_sshd 3 "mount -t tmpfs tmpfs $work/own ${1:+&& $1}"
}

# ---- runs ---------------------------------------------------------------------------

# begin ARGUMENT...: `nexar run` on host 1 in the background, $pid.
begin() {
    what="nexar run $*"
    : >"$work/out"
    ip netns exec "$(host 1)" env --default-signal=INT,QUIT "$nexar" run \
        --ssh "ssh -F $work/ssh_config" "$@" >"$work/out" 2>"$work/err" <"${input:-/dev/null}" 8>&- 9>&- &
    pid=$!
}
# ends CODE: it does, with that code, and no rank is left on any host.
ends() {
    local code=0
    wait "$pid" || code=$?
    [ $code = "$1" ] || broken "exit code $code, not $1"
    until_true sleepers_are 0
}
run() {
    local want=$1
    shift
    begin "$@"
    ends "$want"
}
broken() {
    tail -n 30 "$work/out" "$work/err" >&2
    fail "$what: $*"
}
says() { grep -qE -- "$1" "$work/err" || broken "stderr lacks: $1"; }
prints() { grep -qE -- "$1" "$work/out" || broken "stdout lacks: $1"; }
lines() { [ "$(wc -l <"$work/$1")" = "$2" ] || broken "not $2 lines in $1"; }
# The output, sorted, is these lines.
printed() { printf '%s\n' "$@" | sort | cmp -s - <(sort "$work/out") || broken "stdout is not: $*"; }
ready() { [ "$(grep -c ready "$work/out")" = "$1" ]; }

stay=(sh -c "echo ready; sleep $long & wait")

# ---- cases --------------------------------------------------------------------------

hello() {
    run 0 --hosts node2:2,node3:2 "$bin/examples/hello"
    lines out 4
    prints '^\[node2:0\] hello from rank 0 of 4 '
    prints '^\[node2:0\] hello from rank 3 of 4 '
    lines err 0
    # The first host is this one, which needs no ssh.
    run 0 --hosts 10.90.0.1:2,node2:2 "$bin/examples/hello"
    lines out 4
    prints '^\[10.90.0.1:0\] hello from rank 3 of 4 '
    # Fewer ranks than slots; a file; what ranks are told.
    printf '# hosts\nnode2 slots=2\nnode3:2 # more\n' >"$work/hosts"
    run 0 -n 3 --hostfile "$work/hosts" sh -c 'echo $NEXAR_RANK/$NEXAR_WORLD_SIZE $NEXAR_LOCAL_RANK/$NEXAR_LOCAL_SIZE'
    printed '[node2:0] 0/3 0/2' '[node2:1] 1/3 1/2' '[node3:2] 2/3 0/1'
    run 2 -n 5 --hosts node2:2,node3:2 true
    says '5 ranks on 2 hosts with 4 slots'
    cd "$work"
    NEXAR_LOG=debug run 0 --hosts node2,node3 sh -c 'pwd; echo $NEXAR_LOG; echo err >&2'
    printed "[node2:0] $work" "[node3:1] $work" '[node2:0] debug' '[node3:1] debug'
    [ "$(sort "$work/err" | tr '\n' ' ')" = '[node2:0] err [node3:1] err ' ] || broken "stderr"
    mkdir "$work/sub"
    run 0 --cwd sub --env "A=b c" --bind core --hosts node2:2 sh -c 'pwd; echo "$A"; taskset -p $$ >/dev/null'
    printed "[node2:0] $work/sub" "[node2:1] $work/sub" '[node2:0] b c' '[node2:1] b c'
    # The join file is for hosts as well; processes that join by NEXAR_JOIN have no number.
    run 0 --join-file "$work/join" --hosts node2:2 "$bin/examples/hello"
    grep -q '@10[.]90[.]0[.]1:' "$work/join" || broken "the join file: $(cat "$work/join")"
    NEXAR_JOIN=nexar://x run 0 --hosts node2:2 sh -c 'echo $NEXAR_JOIN $NEXAR_RANK $NEXAR_LOCAL_RANK'
    printed '[node2:0] nexar://x auto 0' '[node2:1] nexar://x auto 1'
    run 0 --no-prefix --hosts node2,node3 sh -c '[ $NEXAR_RANK = 0 ] || printf same'
    [ "$(cat "$work/out")" = same ] || broken "--no-prefix"
    seq 100000 >"$work/numbers"
    input=$work/numbers run 0 --hosts node2,node3 cksum
    prints "^\\[node2:0\\] $(cksum <"$work/numbers")"
    input=/dev/zero run 0 --hosts node2,node3 head -c 5
    # Much output of all, none lost.
    run 0 --hosts node2:2,node3:2 seq 100000
    lines out 400000
    [ "$(grep -c '^.node3:3. ' "$work/out")" = 100000 ] || broken "lines are lost"
}

codes() {
    run 3 --hosts node2:2,node3:2 sh -c "echo before \$NEXAR_RANK; [ \$NEXAR_RANK != 3 ] || exit 3; exec sleep $long"
    prints '^\[node3:3\] before 3$'
    says '^nexar run: rank 3 \(node3 pid [0-9]+\) exited with code 3; ending the others$'
    lines err 1
    run 139 --hosts node2:2,node3:2 sh -c "[ \$NEXAR_RANK != 1 ] || kill -SEGV \$\$; exec sleep $long"
    says '^nexar run: rank 1 \(node2 pid [0-9]+\) was killed by signal 11 \(Segmentation fault\); ending the others$'
    # The failure, not its consequence on the other host.
    run 9 --hosts node2,node3 sh -c '[ $NEXAR_RANK = 1 ] || exit 76; exit 9'
    says 'rank 1 \(node3 pid [0-9]+\) exited with code 9'
    run 7 --grace 300ms --hosts node2,node3 bash -c "trap '' TERM; [ \$NEXAR_RANK = 1 ] && exit 7; while :; do sleep $long; done"
    # What a rank leaves behind goes with it.
    run 0 --hosts node2,node3 bash -c "sleep $long & (setsid setsid sleep $long &) ; disown -a; exit 0"
    run 255 --hosts node2,node3 sh -c "[ \$NEXAR_RANK = 0 ] || exit 255; exec sleep $long"
    says 'rank 1 \(node3 pid [0-9]+\) exited with code 255'
}

checks() {
    printf '#!/bin/sh\necho ran\n' >"$work/own/prog"
    chmod +x "$work/own/prog"
    run 2 --hosts node2,node3 "$work/own/prog"
    says "^nexar run: node3: cannot run $work/own/prog: No such file or directory\$"
    lines err 1
    lines out 0
    # Each host that fails, and nothing of a host that does not.
    ip -n "$(host 1)" addr add 10.90.0.8/24 dev eth0
    run 1 --hosts node2,node3,me@node8,node9 --host-timeout 10s "$work/own/prog"
    says '^nexar run: node3: cannot run .*/prog: No such file or directory$'
    says '^nexar run: node8: ssh ended with code 255: .*Connection refused'
    says '^nexar run: node9: (ssh ended with code 255: .*No route to host|nothing was heard from there for 10s; ended ssh)'
    lines err 3
    lines out 0
    mkdir "$work/own/folder"
    cd "$work/own/folder"
    run 2 --hosts node2,node3 true
    says "^nexar run: node3: cannot enter $work/own/folder: No such file or directory"
    lines err 1
    cd /
    # A library is broken on node3, whose mounts are its own.
    run 2 --hosts node2,node3 "$bin/examples/hello"
    says "^nexar run: node3: cannot run .*/hello: libraries not found: .*libnexar[.]so"
    lines err 1
    # The command itself: another version, none, something else.
    printf '#!/bin/sh\necho "Welcome"; echo "nexar-agent 9.8.7"; cat >/dev/null\n' >"$work/fake"
    chmod +x "$work/fake"
    run 1 --hosts node2,node3 --remote-nexar "$work/fake" true
    says "^nexar run: node2: nexar there is version 9.8.7, here $("$nexar" --version | sed 's/.* //')"
    says '^nexar run: node3: nexar there is version 9.8.7'
    run 1 --hosts node2 --remote-nexar "$work/none" true
    says "^nexar run: node2: ssh ended with code 127: nexar is not installed there: tried $work/none; give --remote-nexar PATH\$"
    run 1 --hosts node2 --remote-nexar "$(command -v true)" true
    says '^nexar run: node2: ssh ended with code 0$'
    # Nobody is asked for a password; no answer is not waited for.
    run 1 --ssh "ssh -F /dev/null -o HostName=10.90.0.2 -o UserKnownHostsFile=$work/known_hosts -o GlobalKnownHostsFile=/dev/null" --hosts node2 true
    says '^nexar run: node2: ssh ended with code 255: .*Permission denied'
    run 1 --ssh "$work/silent" --hosts node2 true
    says '^nexar run: node2: cannot run .*/silent: No such file'
    printf '#!/bin/sh\nexec sleep %s\n' "$long" >"$work/silent"
    chmod +x "$work/silent"
    run 1 --ssh "$work/silent" --host-timeout 300ms --hosts node2 true
    says '^nexar run: node2: nothing was heard from there for 300ms; ended silent$'
    run 2 --hosts node2,-oProxyCommand=x true
    says 'is no host'
}

# The processes named $2 on host $1.
named() {
    local p
    for p in $(ip netns pids "$(host "$1")"); do
        [ "$(cat "/proc/$p/comm" 2>/dev/null)" != "$2" ] || echo "$p"
    done
}

lose_node3() {
    local how=$1
    shift
    begin "$@" --hosts node2:2,node3:2 "${stay[@]}"
    until_true ready 4
    until_true sleepers_are 4
    $how
}

kill_ssh() {
    local p
    for p in $(named 1 ssh); do
        if tr '\0' ' ' <"/proc/$p/cmdline" | grep -q ' node3 '; then kill -KILL "$p"; fi
    done
}
kill_sshd() { named 3 sshd | xargs kill -KILL; }
# One of the two processes of the agent.
kill_agent_front() { kill -KILL "$(named 3 nexar | head -n 1)"; }
kill_agent_keeper() { kill -KILL "$(named 3 nexar | tail -n 1)"; }
cut_off() { ip -n "$(host switch)" link set eth0-3 down; }

signals() {
    local signal join
    # The join string is in no command line.
    begin --hosts node2:2,node3:2 sh -c "echo \$NEXAR_JOIN ready; sleep $long & wait"
    until_true ready 4
    join=$(sed -n 's/^[^ ]* \(nexar[^ ]*\) ready$/\1/p' "$work/out" | sort -u)
    [ "$(echo "$join" | wc -l)" = 1 ] || broken "join strings: $join"
    token=${join#nexar://}
    token=${token%%@*}
    [ ${#token} -gt 20 ] || broken "no token: $join"
    # What grep itself is told is in a file.
    echo "$token" >"$work/token"
    if cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | grep -qFf "$work/token"; then
        broken "a command line has the token"
    fi
    kill -INT "$pid"
    ends 130
    says 'ending the ranks; press Ctrl-C again to kill them'
    for signal in TERM:143 USR1:0; do
        begin --hosts node2,node3 bash -c "trap 'echo heard; exit 0' ${signal%:*}; echo ready; sleep $long & wait"
        until_true ready 2
        kill -"${signal%:*}" "$pid"
        ends "${signal#*:}"
        [ "$(grep -c heard "$work/out")" = 2 ] || broken "not heard by all"
    done
    # While the world forms: who is missing; nobody dies of it.
    begin --hosts node2,node3 sh -c "[ \$NEXAR_RANK = 1 ] || exec $nexar info --links; echo ready; sleep $long & wait"
    until_true ready 1
    until_true eval 'kill -USR1 "$pid"; grep -q "1 of 2 ranks have joined" "$work/err"'
    kill -TERM "$pid"
    ends 143
    # A second one kills.
    begin --grace 10m --hosts node2,node3 bash -c "trap 'echo heard' INT; echo ready; while :; do sleep $long & wait \$!; done"
    until_true ready 2
    until_true eval 'kill -INT "$pid" 2>/dev/null; sleep 0.3; ! kill -0 "$pid" 2>/dev/null'
    ends 130
    # Stopped by the user, and resumed.
    begin --hosts node2,node3 "${stay[@]}"
    until_true ready 2
    kill -TSTP "$pid"
    until_true eval '[ "$(ps -o stat= -p "$(pgrep -d, -f "^sleep $long\$")" | grep -c T)" = 2 ]'
    kill -CONT "$pid"
    until_true eval '[ "$(ps -o stat= -p "$(pgrep -d, -f "^sleep $long\$")" | grep -c T)" = 0 ]'
    kill -TERM "$pid"
    ends 143
    # The launcher is killed; so are its ranks.
    begin --hosts node2,node3 "${stay[@]}"
    until_true ready 2
    kill -KILL "$pid"
    ends 137 2>/dev/null
    # Before the hosts have answered.
    printf '#!/bin/sh\nexec sleep %s\n' "$long" >"$work/silent"
    chmod +x "$work/silent"
    begin --ssh "$work/silent" --hosts node2 true
    until_true sleepers_are 1
    kill -INT "$pid"
    ends 130
}

case $case in
hello)
    prepare
    hello
    ;;
codes)
    prepare
    codes
    ;;
checks)
    library=$(ldd "$bin/examples/hello" | sed -n 's/.*libnexar[^ ]* => \([^ ]*\) .*/\1/p')
    prepare "mount --bind /dev/null $library"
    checks
    ;;
signals)
    prepare
    signals
    ;;
ssh_killed)
    prepare
    lose_node3 kill_ssh
    ends 1
    says '^nexar run: node3: ssh was killed by signal 9; ending the others$'
    ;;
sshd_killed)
    prepare
    lose_node3 kill_sshd
    ends 1
    says '^nexar run: node3: ssh ended with code 255.*; ending the others$'
    ;;
agent_killed)
    prepare
    lose_node3 kill_agent_front
    ends 1
    says '^nexar run: node3: ssh (ended with code|was killed by signal) [0-9]+.*; ending the others$'
    lose_node3 kill_agent_keeper
    ends 1
    says '^nexar run: node3: ssh ended with code 1: .*was killed; ended the ranks; ending the others$'
    ;;
cut)
    prepare
    lose_node3 cut_off --host-timeout 2s
    ends 1
    says '^nexar run: node3: nothing was heard from there for 2s; ended ssh; ending the others$'
    ;;
elastic)
    prepare
    begin --elastic --hosts node2:2,node3:2 sh -c "echo ready; [ \$NEXAR_RANK -ge 2 ] && exec sleep $long; until [ -e $work/stop ]; do sleep 0.1; done"
    until_true ready 4
    kill_ssh
    await "$work/err" '^nexar run: node3: ssh was killed by signal 9$'
    until_true sleepers_are 0
    touch "$work/stop"
    ends 0
    ;;
*) fail "no such case: $case" ;;
esac
echo "ok: $case"
