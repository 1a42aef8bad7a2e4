#!/bin/bash
# mutate.sh - breaks the builders on purpose, one line at a time, in a copy of
# the sources, and expects the collective suite to notice each time.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

usage() {
    cat <<'TEXT'
usage: tests/mutate.sh [--help] [--list] [WORD]...

Applies each single-line change of the table below to a copy of the sources,
builds the collective tests there and runs their quick form (NXT_FAST).  A
change that no test notices is printed as SURVIVED, and the exit code is 1.

  --list   print the table and stop
  WORD     only the changes whose file or description contains WORD

Environment: JOBS (compile jobs, default: all processors).
Takes about five seconds of CPU for each change.
TEXT
}

# file under src/coll | basic regular expression of the whole change | what it breaks
mutations() {
    cat <<'TABLE'
building_blocks/ring.c|s/nx_ring_block(ring, k + 2)/nx_ring_block(ring, k + 1)/|ring receives the block that it sends
building_blocks/ring.c|s/(k == 0) ? in : out, tx.off/in, tx.off/|ring sends its own input instead of the sum
building_blocks/ring.c|s/(k == 0) ? own : nx_ref_plus(out, tx.off)/nx_ref_plus(out, tx.off)/|allgather ring forgets where its own block is
building_blocks/halving.c|s/now = work;/now = in;/|halving starts from the input in each round
building_blocks/halving.c|s/const nx_span give = part(h, peer, mask)/const nx_span give = part(h, h->place, mask)/|halving gives away what it keeps
building_blocks/fold.h|s/(rank < 2 \* f.rest) ? rank \/ 2 : rank - f.rest/(rank < f.rest) ? rank \/ 2 : rank - f.rest/|places of ranks beyond the hosts
building_blocks/fold.h|s/return (place < f.rest) ? 2 \* place : place + f.rest/return (place <= f.rest) ? 2 * place : place + f.rest + 1/|ranks of places beyond the hosts
building_blocks/binomial.h|s/t->place - t->span/t->place - 1/|the parent in a binomial tree
building_blocks/accumulate.c|s/(additions > i + 1) ||/(additions > i + 2) ||/|too little scratch for partial sums
building_blocks/accumulate.c|s/acc->now = acc->spare\[0\];/acc->now = in;/|in place, one addition, the input overwritten while it is sent
building_blocks/window.h|s/(most < count) ? 2 \* most : most/most/|half the scratch of a window
split.c|s/((b < extra) ? b : extra)/b/|offsets of even blocks after the larger ones
split.c|s/base + (b < extra)/base + (b <= extra)/|one even block too long
hazard.c|s/for (uint32_t r = e->readers; r != NIL;/for (uint32_t r = NIL; r != NIL;/|a writer does not wait for readers
hazard.c|s/if ((e->writer != NX_NO_STEP) \&\& (nx_hazards_add(h, e->writer) != NEXAR_OK))/if (false)/|a reader does not wait for the writer
hazard.c|s/for (uint32_t r = h->extents\[i\].readers; r != NIL;/for (uint32_t r = NIL; r != NIL;/|an extent cut in two forgets its readers
hazard.c|s/!reader_push(h, \&h->extents\[gap\].readers, r->step)/false/|readers of untouched memory are forgotten
hazard.c|s/if (!cut(h, space, lo) || !cut(h, space, hi)) {/if (!cut(h, space, lo)) {/|ranges are not cut at their end
hazard.c|s/ \&\& write_tree(h, right, step);/;/|a wide write does not wait for all it overwrites
sched.c|s/\[NX_STEP_REDUCE\] = {.reads_a = true, .reads_b = true,/[NX_STEP_REDUCE] = {.reads_a = true, .reads_b = false,/|hazards of the second source of a reduction
sched.c|s/!(touches\[step->kind\].writes_dst \&\& same(step->a, step->dst))/step->kind == NX_STEP_SEND/|hazards of what a local step reads
sched.c|s/step.a = nx_ref_plus(whole.a, off);/step.a = whole.a;/|later segments read the first
sched.c|s/step.segment++;/step.segment += 0;/|segments share one tag
sched.c|s/s->gate\[0\] = first;/s->gate[0] = NX_NO_STEP;/|gates are open: a barrier without order
run/binding.c|s/c.off = ref.off - c.region->off;/c.off = 0;/|an element in the middle of a region
run/binding.c|s/nx_cursor_start(binding, nx_ref_plus(step->a, off)/nx_cursor_start(binding, step->a/|later fragments reduce with the first elements
run/binding.c|s/from += n \* binding->elem_size;/from += 0;/|pieces of a fragment reduce with its first bytes
barrier/barrier_dissemination.c|s/far \*= 2, round++/far *= 4, round++/|a barrier that skips ranks
allreduce/allreduce_ring.c|s/nx_call(s, shard, own.len)/nx_call(s, out, own.len)/|the hook on another shard
allreduce/allreduce_recdbl.c|s/if (c->average)/if (c->average \&\& !host)/|hosts do not divide
allreduce/allreduce_rs_ag.c|s/nx_divide(s, result, both.len)/nx_divide(s, result, own.len)/|the shards of guests are not averaged
allreduce/allreduce_rs_ag.c|s/nx_call(s, result, own.len)/nx_call(s, result, both.len)/|the hook sees the shard of the guest
reduce/reduce_binomial.c|s/now = sum;/now = in;/|a tree that forgets all but the last child
reduce/reduce_rs_gather.c|s/.from = kept.off/.from = 0/|a partial vector at the wrong offset
reduce_scatter/reduce_scatter_ring.c|s/(ring->size > 3) ? 2 :/(ring->size > 3) ? 1 :/|too little scratch on the ring
reduce_scatter/reduce_scatter_halving.c|s/nx_ref_plus(result, own)/result/|the guest gets the block of its host
broadcast/broadcast_scatter_allgather.c|s/nx_split_range(blocks, child, nx_binomial_end(tree, child, far))/nx_split_range(blocks, child, child + 1)/|children get one block for their whole subtree
allgather/allgather_bruck.c|s/blocks_from(\&blocks, from, n)/blocks_from(\&blocks, c->rank, n)/|lengths of other ranks' blocks
allgather/allgather_bruck.c|s/upper = (c->size - c->rank) \* each/upper = c->rank * each/|blocks are not turned back
gather/gather_binomial.c|s/nx_ref_plus(all, far \* c->count)/nx_ref_plus(all, c->count)/|subtrees overwrite each other
gather/gather_direct.c|s/const nx_span at = nx_split_at(\&blocks, from)/const nx_span at = nx_split_at(\&blocks, i)/|blocks in order of arrival instead of rank
scatter/scatter_binomial.c|s/(wrap - first) \* c->count/(wrap - first - 1) * c->count/|the seam of the ring at the root
alltoall/alltoall_bruck.c|s/(c->rank + c->size - d) % c->size/(c->rank + d) % c->size/|blocks come from the other side
alltoall/alltoall_pairwise.c|s/nx_copy(s, aside.at, home.at, at.len);//|in place, what goes out is not put aside
alltoall/alltoall_pairwise.c|s/exchange(s, peer, round, aside, home, \&w)/exchange(s, peer, round, home, home, \&w)/|in place, a block is sent from where its successor comes: a deadlock without buffering
hosts.c|s/first\[h + 1\] += first\[h\];/first[h + 1] += 0;/|where the ranks of a host begin
hosts.h|s/return (i == team->chief_host) ? team->chief : nx_hosts_rank(team->hosts, i, team->which)/return nx_hosts_rank(team->hosts, i, team->which)/|the root does not stand for its host
sched.c|s/step.round += frame->round;/step.round += 0;/|the chunks of a two-level allreduce share their rounds
sched.c|s/return nx_ref_plus(frame->recv, ref.off);/return nx_ref_plus(frame->send, ref.off);/|a team receives where it sends from
building_blocks/levels.c|s/        now = sum;/        now = in;/|a leader forgets all but the last of its host
building_blocks/levels.c|s/reorder(s, v, to, from, each, true);/nx_copy(s, to, from, nx_hosts_before(v->hosts, v->n) * each);/|blocks stay in the order of hosts
barrier/barrier_twolevel.c|s/nx_disseminate(s, \&between, 0);//|the hosts do not wait for one another
broadcast/broadcast_twolevel.c|s/if (nx_levels_leads(\&v)) {/if (v.place == 0) {/|the first rank leads the root's host
reduce/reduce_twolevel.c|s/!(l.inside_last \&\& l.across_last)/!l.inside_last/|a leader whose host is one rank has no scratch
allreduce/allreduce_twolevel.c|s/.in_place = j->c->in_place || (j->v.count > 1)/.in_place = j->c->in_place/|the hosts reduce the leaders' own vectors
allreduce/allreduce_twolevel.c|s/if (from < j->leaders) {/if (from == 0) {/|only the first leader's part is spread
allgather/allgather_twolevel_ring.c|s/place % j->leaders/0/|all blocks are expected from the first leader
reduce_scatter/reduce_scatter_twolevel.c|s/nx_ref_plus(sums, to \* c->count)/sums/|all of a host get the first one's block
reduce_scatter/reduce_scatter_twolevel_ring.c|s/pass_on(s, \&j, host, k > 1)/pass_on(s, \&j, host, k > 2)/|the second hop starts anew
alltoall/alltoall_twolevel.c|s/(host \* j->v.count + place) \* count/(place * j->v.n + host) * count/|blocks sorted by rank instead of host
gather/gather_twolevel.c|s/(i < n) \&\& !in_a_row/(i < n) \&\& false/|blocks of a host that do not follow one another
scatter/scatter_twolevel.c|s/nx_copy(s, out, all, c->count);//|a leader forgets its own block
scan/scan_chain.c|s/c->in_place ? nx_window_scratch(\&came) : to/to/|in place, an exscan overwrites its input
scan/scan_hillis_steele.c|s/if (far <= place) {/if (far < place) {/|a rank leaves out its first addition
TABLE
}

words=()
for word in "$@"; do
    case $word in
    --help | -h)
        usage
        exit 0
        ;;
    --list)
        mutations | awk -F'|' '{ printf "%-42s %s\n", $1, $NF }'
        exit 0
        ;;
    -*)
        usage >&2
        exit 2
        ;;
    *) words+=("$word") ;;
    esac
done

wanted() {
    local word
    [ ${#words[@]} = 0 ] && return 0
    for word in "${words[@]}"; do
        case $1 in *"$word"*) return 0 ;; esac
    done
    return 1
}

jobs=${JOBS:-$(nproc)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
programs=(coll_suite hazard_property_test)

git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$work" || exit 1

build() { cmake --build "$work/build" -j "$jobs" --target "${programs[@]}" >"$log" 2>&1; }

# Whether some test fails; one that hangs has noticed, too.
noticed() {
    local program
    for program in "${programs[@]}"; do
        # In a shell of its own, so that the word of an abort goes to the log.
        (NXT_FAST=1 timeout 120 "$work/build/tests/coll/$program" || exit 1) >"$log" 2>&1 ||
            return 0
    done
    return 1
}

# The first thing that was found, on one line.
finding() {
    local text
    text=$(grep -m 1 -A 1 '^ERROR: ' "$log" | tail -n 1 | sed 's/^ *//; s/^.* events [0-9]*: //')
    echo "${text:-the program ended}" | cut -c 1-100
}

if ! cmake -S "$work" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    '-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O2 -g' >"$log" 2>&1 || ! build; then
    cat "$log"
    exit 1
fi
if noticed; then
    echo "the tests fail already without a change:"
    cat "$log"
    exit 1
fi

tried=0 caught=0 broken=0
while IFS= read -r line; do
    file=${line%%|*}
    what=${line##*|}
    change=${line#*|}
    change=${change%|*}
    wanted "$file $what" || continue
    tried=$((tried + 1))
    path=$work/src/coll/$file
    cp "$path" "$work/original"
    sed -i "$change" "$path"
    if cmp -s "$path" "$work/original"; then
        broken=$((broken + 1))
        result="NO SUCH LINE"
    elif ! build; then
        broken=$((broken + 1))
        result="DOES NOT BUILD"
    elif noticed; then
        caught=$((caught + 1))
        result="noticed"
        what="$what -- $(finding)"
    else
        result="SURVIVED"
    fi
    printf '%-14s %-40s %s\n' "$result" "$file" "$what"
    cp "$work/original" "$path"
done < <(mutations)

echo "$caught of $tried changes noticed, $broken could not be tried"
[ "$caught" = "$tried" ]
