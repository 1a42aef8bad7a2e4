/*
 * membership.pml - the membership of a world (cluster/membership/membership.h): detectors report,
 * subscribers are notified in the order of the table, failures travel by reliable broadcast.
 *
 *     N         ranks, 2 to 4
 *     CRASHES   how many end, at any time, also between two subscribers
 *     SUSPECTS  how many living ranks are declared failed for their silence
 *
 * Checked: no operation ends before the record of this rank has the failed rank it names (F1, M3);
 * each rank is notified of each failure once (M4); nothing is recorded after this rank was declared
 * failed (M5); in the end all who are left know the same failures, among them all crashes.
 *
 * BREAK puts in a fault that the search must find:
 *     1  the end of a link ends operations at once, and the record follows
 *     2  a new target of the broadcast is not told what is kept
 *     3  a second report of a failure notifies the subscribers again
 *     4  who ends an operation tells the others first, and they end theirs
 *     5  the messages are notified before the broadcast
 */
#ifndef N
#define N 3
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef SUSPECTS
#define SUSPECTS 0
#endif
#ifndef BREAK
#define BREAK 0
#endif
#define BIT(r) (1 << (r))
#define HAS(set, r) (((set) >> (r)) & 1)
#define AT(i, k) ((i) * N + (k))
#define UP(i) (HAS(alive, i) && !HAS(out, i))
#define NEXT(i, d) (((i) + (d)) % N)

byte alive = (1 << N) - 1; /* processes */
byte out = 0;              /* were declared failed, and know it */
byte failed[N];            /* the record of each rank */
byte due[N];               /* recorded, and nobody was notified */
byte items[N];             /* what the broadcast of each rank keeps */
byte told[N];              /* of which failures the last subscriber was notified */
byte ended[N];             /* operations that have ended because of that rank */
byte targets[N];           /* of the broadcast, as bits */
byte verdict;              /* ranks to which a verdict is in flight, as bits */
byte net[N * N];           /* items in flight, as bits: from, to */
byte aborts[N * N];        /* BREAK 4 */
byte now[N];               /* the slot that subscribers are being notified of, plus 1 */
byte step[N];              /* and the next of them */
byte crashes, suspects, d, k, want;

/* The first at distance 1, 2 ... of which |i| knows no failure, as bits in |want|. */
inline find_targets(i)
{
    want = 0;
    d = 1;
    do
    :: d < N ->
        k = d;
        do
        :: k < N && HAS(failed[i], NEXT(i, k)) -> k++
        :: else -> break
        od;
        if
        :: k < N -> want = want | BIT(NEXT(i, k))
        :: else
        fi;
        d = d * 2
    :: else -> break
    od;
    k = 0;
    d = 0
}

inline report(i, r)
{
    assert(!HAS(out, i));
    if
    :: HAS(failed[i], i) /* M5 */
    :: !HAS(failed[i], i) && (!HAS(failed[i], r) || BREAK == 3) ->
        failed[i] = failed[i] | BIT(r);
        due[i] = due[i] | BIT(r)
    :: else
    fi
}

inline send_all(i, set, to)
{
    k = 0;
    do
    :: k < N ->
        if
        :: HAS(to, k) && k != i -> net[AT(i, k)] = net[AT(i, k)] | (set)
        :: else
        fi;
        k++
    :: else -> break
    od;
    k = 0
}

/* The subscriber "reliable broadcast". */
inline broadcast(i, r)
{
    find_targets(i);
    if
    :: BREAK != 2 -> send_all(i, items[i], want & ~targets[i])
    :: else
    fi;
    targets[i] = want;
    if
    :: !HAS(items[i], r) ->
        items[i] = items[i] | BIT(r);
        send_all(i, BIT(r), targets[i])
    :: else
    fi;
    want = 0
}

/* The subscribers that end operations. */
inline end_operations(i, r)
{
    assert(HAS(failed[i], r));
    assert(HAS(items[i], r)); /* the others hear of it before anything ends */
    ended[i] = ended[i] | BIT(r);
    verdict = verdict | BIT(r);
    if
    :: BREAK == 4 ->
        k = 0;
        do
        :: k < N ->
            if
            :: k != i && k != r -> aborts[AT(i, k)] = aborts[AT(i, k)] | BIT(r)
            :: else
            fi;
            k++
        :: else -> break
        od;
        k = 0
    :: else
    fi
}

inline take_item(i, from, r)
{
    net[AT(from, i)] = net[AT(from, i)] & ~BIT(r);
    if
    :: UP(i) && !HAS(failed[i], from) && !HAS(items[i], r) ->
        items[i] = items[i] | BIT(r);
        send_all(i, BIT(r), targets[i] & ~BIT(from));
        report(i, r)
    :: else
    fi
}

/* Rank |i| can notify the next subscriber. */
#define BUSY(i) (UP(i) && (due[i] != 0 || now[i] != 0))

inline notify(i)
{
    if
    :: now[i] == 0 && HAS(due[i], i) -> /* itself, first and alone */
        due[i] = 0;
        out = out | BIT(i)
    :: now[i] == 0 && !HAS(due[i], i) ->
        k = 0;
        do
        :: !HAS(due[i], k) -> k++
        :: else -> break
        od;
        due[i] = due[i] & ~BIT(k);
        now[i] = k + 1;
        step[i] = 0;
        k = 0
    :: now[i] != 0 && step[i] == 0 ->
        if
        :: BREAK == 5 -> end_operations(i, now[i] - 1)
        :: else -> broadcast(i, now[i] - 1)
        fi;
        step[i] = 1
    :: now[i] != 0 && step[i] == 1 ->
        if
        :: BREAK == 5 -> broadcast(i, now[i] - 1)
        :: else -> end_operations(i, now[i] - 1)
        fi;
        step[i] = 2
    :: now[i] != 0 && step[i] == 2 -> /* the callbacks */
        assert(!HAS(told[i], now[i] - 1)); /* M4 */
        told[i] = told[i] | BIT(now[i] - 1);
        step[i] = 0;
        now[i] = 0
    fi
}

/* |i| watches |r|, the next on the circle that has not failed: fewer than the detector watches, so
 * that the broadcast is needed. */
#define FIRST(i) \
    (!HAS(failed[i], NEXT(i, 1)) -> NEXT(i, 1) : (!HAS(failed[i], NEXT(i, 2)) -> NEXT(i, 2) : NEXT(i, 3)))
#define WATCHES(i, r) (UP(i) && (r) == FIRST(i) && (i) != (r))

#define RANK(i) \
    :: atomic { crashes < CRASHES && UP(i) -> crashes++; alive = alive & ~BIT(i) } \
    :: atomic { BUSY(i) -> notify(i) } \
    :: atomic { UP(i) && HAS(verdict, i) -> verdict = verdict & ~BIT(i); report(i, i) }

#define PAIR(i, r) \
    :: atomic { WATCHES(i, r) && !HAS(alive, r) -> \
        if \
        :: BREAK == 1 -> assert(HAS(failed[i], r)) /* an operation ends, and names it */ \
        :: else \
        fi; \
        report(i, r) } \
    :: atomic { suspects < SUSPECTS && WATCHES(i, r) && UP(r) -> suspects++; report(i, r) } \
    :: atomic { !HAS(alive, r) && net[AT(r, i)] != 0 -> net[AT(r, i)] = 0 } /* lost with it */ \
    :: atomic { HAS(net[AT(r, i)], 0) -> take_item(i, r, 0) } \
    :: atomic { HAS(net[AT(r, i)], 1) -> take_item(i, r, 1) } \
    :: atomic { N > 2 && HAS(net[AT(r, i)], 2) -> take_item(i, r, 2) } \
    :: atomic { N > 3 && HAS(net[AT(r, i)], 3) -> take_item(i, r, 3) } \
    :: atomic { aborts[AT(r, i)] != 0 -> \
        assert(!UP(i) || (aborts[AT(r, i)] & ~failed[i]) == 0); aborts[AT(r, i)] = 0 }

/* All who are left know the same, all crashes among it, and were notified. */
inline check_end()
{
    d = 0;
    do
    :: d < N ->
        if
        :: UP(d) ->
            assert(told[d] == failed[d] && ended[d] == failed[d]);
            assert((failed[d] & ~alive) == (((1 << N) - 1) & ~alive));
            k = 0;
            do
            :: k < N ->
                assert(!UP(k) || failed[k] == failed[d]);
                k++
            :: else -> break
            od
        :: else
        fi;
        d++
    :: else -> break
    od
}

init {
    atomic {
        d = 0;
        byte i = 0;
        do
        :: i < N -> find_targets(i); targets[i] = want; want = 0; i++
        :: else -> break
        od
    };
    do
    RANK(0)
    RANK(1)
    PAIR(0, 1)
    PAIR(1, 0)
#if N > 2
    RANK(2)
    PAIR(0, 2)
    PAIR(2, 0)
    PAIR(1, 2)
    PAIR(2, 1)
#endif
#if N > 3
    RANK(3)
    PAIR(0, 3)
    PAIR(3, 0)
    PAIR(1, 3)
    PAIR(3, 1)
    PAIR(2, 3)
    PAIR(3, 2)
#endif
    :: timeout -> check_end(); break
    od
}
