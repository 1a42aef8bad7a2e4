# help.sh - sourced by the scripts beside it: with --help one prints what stands at its head.
# shellcheck shell=bash
case ${1:-} in
-h | --help)
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac
