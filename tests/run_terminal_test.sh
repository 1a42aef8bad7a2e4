#!/bin/bash
# run_terminal_test.sh NEXAR - `nexar run` on a terminal, which tmux plays and looks at.
# Variables of the ranks stay as they are; functions are called by name; run_lib.sh has
# what is not assigned here.
# shellcheck disable=SC2016,SC2317,SC2154
set -uo pipefail
nexar=$1
# shellcheck source=tests/run_lib.sh disable=SC1091
. "$(dirname "$0")/run_lib.sh"

if ! command -v tmux >/dev/null; then
    echo "skipped: tmux is not installed"
    exit 0
fi
export TERM=xterm-256color
server=0
terminal() { tmux -S "$work/socket.$server" -f /dev/null "$@"; }
trap 'terminal kill-server 2>/dev/null; end_all; rm -rf "$work"' EXIT

# on SCRIPT [NAME=VALUE]...: SCRIPT runs in a terminal of 80 columns; its code comes to the file code.
on() {
    what=$1
    rm -f "$work/code"
    printf '%s\n' "$1" >"$work/script"
    shift
    terminal kill-server 2>/dev/null
    server=$((server + 1)) # the last one may still be ending
    terminal new-session -d -x 80 -y 24 \
        "env $* bash '$work/script'; echo \$? >'$work/code.new'; mv '$work/code.new' '$work/code'; exec sleep $long"
}
shown() { terminal capture-pane -p -e >"$work/out" 2>/dev/null && has "$work/out" "$1"; }
shows() { until_true shown "$1" || fail "$what: the terminal lacks: $1"; }
never_shown() { ! shown "$1" || fail "$what: the terminal has: $1"; }
ended() {
    until_true test -s "$work/code"
    [ "$(cat "$work/code")" = "$1" ] || fail "$what: exit code $(cat "$work/code"), not $1"
}
colour=$'\033\\[36m'

echo "-- at once, in colour, as wide as the terminal"
cat >"$work/lines" <<'LINES'
#!/bin/bash
trap 'stty size <&1' WINCH
echo one
until [ -e "$1.2" ]; do sleep 0.05; done
echo two
stty size <&1
until [ -e "$1.3" ]; do sleep 0.05; done
LINES
chmod +x "$work/lines"
on "'$nexar' run -n 1 '$work/lines' '$work/go'"
shows 'one$'
shown "$colour" || fail "$what: no colour"
never_shown two
: >"$work/go.2"
shows 'two$'
shows '24 76$'
terminal resize-window -x 100 -y 30
shows '30 96$'
: >"$work/go.3"
ended 0
on "'$nexar' run -n 1 echo plain" NO_COLOR=1
shows '^\[0\] plain'
ended 0
! grep -q $'\033\\[3' "$work/out" || fail "$what: colour in spite of NO_COLOR"
on "'$nexar' run -n 1 echo dull" TERM=dumb
shows '^\[0\] dull'
ended 0

echo "-- Ctrl-C"
on "'$nexar' run -n 2 --grace 10m '$work/listen' INT $long"
shows '\[1\].* ready'
shows '\[0\].* ready'
terminal send-keys C-c
shows 'nexar run: ending the ranks; press Ctrl-C again to kill them'
ended 130
shows '\[1\].* heard INT'
shows '\[0\].* heard INT'
none() { ! pgrep -f "^/bin/bash $work/[a-z]" >/dev/null; }
cat >"$work/deaf" <<'DEAF'
#!/bin/bash
trap 'echo deaf' INT
echo ready
while :; do sleep 0.1; done
DEAF
chmod +x "$work/deaf"
on "'$nexar' run -n 2 --grace 10m '$work/deaf'"
shows '\[1\].* ready'
shows '\[0\].* ready'
terminal send-keys C-c
shows 'ending the ranks; press Ctrl-C again to kill them'
shows '\[0\].* deaf'
shows '\[1\].* deaf'
[ ! -e "$work/code" ] || fail "$what: the first Ctrl-C kills"
sleep 0.3 # no sooner than a person presses it again: a copy of the first does not count
terminal send-keys C-c
shows 'nexar run: killing the ranks'
ended 130
until_true none
finish
