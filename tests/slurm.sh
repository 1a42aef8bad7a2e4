# slurm.sh - a real Slurm for one test script: munged, slurmctld and N slurmd on this machine.
#
#   . "$(dirname "$0")/slurm.sh"
#   slurm_enter "$0" "$@"      # first, before anything is made: see there
#   . "$(dirname "$0")/lib.sh" # $work
#   slurm_start 2              # nodes n1 and n2; srun, sbatch, salloc and squeue work from here on
#
# The daemons need no clean-up: they end with the script, whatever ends the script.
# lib.sh sets $work.
# shellcheck shell=bash disable=SC2154

# Prints why Slurm cannot be started here; nothing if it can.
slurm_missing() {
    local program
    for program in unshare ip munged slurmctld slurmd srun; do
        PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null || {
            echo "$program is not installed (scripts/setup.sh test)"
            return
        }
    done
    slurm_unshare ip link add eth0 type veth peer name eth1 2>/dev/null || echo "namespaces cannot be made (needs root)"
}

slurm_unshare() {
    unshare --net --pid --mount --uts --ipc --fork --mount-proc --kill-child "$@"
}

# slurm_enter SCRIPT ARGUMENT...: runs the script again in namespaces of its own, or ends it with
# code 77 and the reason.  The network namespace frees every port: Slurm's configuration takes no
# port 0.  The PID namespace ends all daemons with the script.
slurm_enter() {
    local why
    if [ -n "${NEXAR_TEST_IN_SLURM:-}" ]; then
        unset NEXAR_TEST_IN_SLURM
        PATH=$PATH:/usr/sbin:/sbin
        trap 'exit 130' INT # the first process of a PID namespace ends by no signal otherwise
        trap 'exit 143' TERM
        # Slurm resolves nothing, not even 127.0.0.1, on a host without another address.
        ip link add eth0 type veth peer name eth1
        ip addr add 10.94.0.1/24 dev eth0
        ip link set lo up
        ip link set eth1 up
        ip link set eth0 up
        echo slurm >/proc/sys/kernel/hostname
        return
    fi
    why=$(slurm_missing)
    if [ -n "$why" ]; then
        echo "skipped: $why"
        exit 77
    fi
    NEXAR_TEST_IN_SLURM=1 slurm_unshare "$@"
    exit $?
}

# slurm_start NODES: starts the daemons in $work/slurm, and waits until srun works.
slurm_start() {
    local nodes=$1 folder=$work/slurm node
    mkdir -p "$folder"/{state,spool}
    chmod 755 "$work" "$folder"
    head -c 1024 /dev/urandom >"$folder/munge.key"
    chmod 600 "$folder/munge.key"
    slurm_config "$nodes" "$folder" >"$folder/slurm.conf"
    export SLURM_CONF=$folder/slurm.conf
    slurm_find_pmix "$folder"
    munged --foreground --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" \
        --pid-file="$folder/munged.pid" --log-file="$folder/munged.log" \
        --seed-file="$folder/munged.seed" >"$folder/munged.out" 2>&1 &
    until_true test -S "$folder/munge.socket" || return 1
    slurmctld -D -i >"$folder/slurmctld.out" 2>&1 &
    for node in $(seq "$nodes"); do
        mkdir -p "$folder/tmp/n$node"
        slurmd -D -N "n$node" >"$folder/n$node.out" 2>&1 &
    done
    until_true slurm_idle "$nodes" || {
        tail -n 20 "$folder"/*.out "$folder"/*.log
        return 1
    }
}

slurm_idle() { [ "$(sinfo -h -t idle -N -o %N 2>/dev/null | wc -l)" = "$1" ]; }

# Slurm loads libpmix.so from the folder of libpmix.so.2.  Debian ships that name for developers
# only, so a copy of the folder that has it is mounted there, seen by this script alone.
slurm_find_pmix() {
    local library folder
    library=$(ldconfig -p | sed -n 's/^\tlibpmix[.]so[.]2 .* => //p' | head -n 1)
    [ -n "$library" ] || return 0
    library=$(readlink -f "$library")
    folder=$(dirname "$library")
    case $folder in */pmix*/*) ;; *) return 0 ;; esac
    [ ! -e "$folder/libpmix.so" ] || return 0
    cp -a "$folder" "$1/pmix"
    ln -s "$(basename "$library")" "$1/pmix/libpmix.so"
    mount --bind "$1/pmix" "$folder"
}

# Nodes claim 8 CPUs each, and no memory is counted: as many ranks as a test wants fit.
slurm_config() {
    local nodes=$1 folder=$2 node
    cat <<CONF
ClusterName=nexar
SlurmctldHost=slurm(10.94.0.1)
SlurmctldPort=6817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
TmpFS=$folder/tmp/%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
MpiDefault=none
CONF
    for node in $(seq "$nodes"); do
        echo "NodeName=n$node NodeHostname=slurm NodeAddr=10.94.0.1 Port=$((17000 + node)) CPUs=8 State=UNKNOWN"
    done
    echo "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP"
}
