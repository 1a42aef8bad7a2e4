/*
 * agree.pml - one instance of the agreement of src/cluster/agree.c, for spin.
 *
 * Faithful: ballots as sets of the dead, the tree over the living (fan-out 2), UP,
 * PROPOSE, ACK, DECIDE and NEWS, what is accepted and brought along, crashes between
 * any two sends.  Left out: what a value is made of (here it is the ballot in which
 * it was first proposed, which decides whose contributions it holds), several
 * instances, DONE, ASK and FORGET; frames of one pair do not overtake each other (in
 * the simulation they do).
 *
 * Checked: no two ranks decide differently, dead ones included; when nothing can
 * happen any more, all who live have decided.
 *
 *   N         ranks, 3 or 4
 *   CRASHES   how many may crash, at most
 *   SUSPECTS  how often a rank may take a living one for dead (with MAJORITY)
 *   MAJORITY  a quorum is needed
 *   EARLY     decide at PROPOSE: the survivors must agree
 *   BREAK     to see that it would be found: 1: what was accepted is not brought along;
 *             2: ACK without waiting for the children; 3: a minority goes on; 4: decide
 *             at PROPOSE, and yet all must agree
 */
#ifndef N
#define N 3
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef SUSPECTS
#define SUSPECTS 0
#endif
#ifndef BREAK
#define BREAK 0
#endif

#define NOBODY 15
#define NONE   31 /* no value */
#define BIT(r) (1 << (r))
#define ALL    (BIT(N) - 1)
#define LIVES(r) ((alive >> (r)) & 1)
#define HOLDS(set, r) (((set) >> (r)) & 1)

mtype = { UP, PROPOSE, ACK, DECIDE, NEWS };

/* kind, whom the sender holds for dead, the ballot of the value, the value */
chan q[N * N] = [8] of { mtype, byte, byte, byte };

byte alive = ALL;
byte crashes = 0;
byte suspects = 0;

byte dead[N];    /* the ballot of each rank, as bits */
byte parent[N];  /* functions of it */
byte kids[N];
bool started[N];
bool up_sent[N], accepted[N], ack_sent[N];
byte got[N], acks[N];
byte gballot[N], gvalue[N]; /* gathered in this ballot */
byte aballot[N], avalue[N]; /* accepted last */
byte decision[N];
byte agreed = NONE; /* what anybody has decided */

byte ti, tj, tn, tk; /* scratch, always 0 between steps */

/* n = the size of the set; tk is used. */
inline count(set, n)
{
    n = 0;
    tk = 0;
    do
    :: tk < N -> n = n + HOLDS(set, tk); tk++
    :: else -> break
    od;
    tk = 0
}

/* The parent and the children of r among those who are not in dead[r]. */
inline find_place(r)
{
    d_step {
        ti = 0; tj = 0; /* tj: how many living are below ti; tn: below r */
        tn = 0;
        do
        :: ti < r -> tn = tn + (1 - HOLDS(dead[r], ti)); ti++
        :: else -> break
        od;
        parent[r] = NOBODY;
        kids[r] = 0;
        ti = 0;
        do
        :: ti < N ->
            if
            :: HOLDS(dead[r], ti) -> skip
            :: else ->
                if
                :: (tn > 0) && (tj == (tn - 1) / 2) -> parent[r] = ti
                :: (tj == 2 * tn + 1) || (tj == 2 * tn + 2) -> kids[r] = kids[r] | BIT(ti)
                :: else -> skip
                fi;
                tj++
            fi;
            ti++
        :: else -> break
        od;
        ti = 0; tj = 0; tn = 0
    }
}

inline crash(r)
{
    alive = alive & (ALL - BIT(r));
    ti = 0;
    do /* nobody reads what was sent to it */
    :: ti < N ->
        do
        :: nempty(q[ti * N + r]) -> q[ti * N + r]?_,_,_,_
        :: empty(q[ti * N + r]) -> break
        od;
        ti++
    :: else -> break
    od;
    ti = 0
}

/* One send; the sender may die instead of it. */
inline send(r, to, kind, ballot, value)
{
    if
    :: LIVES(r) && LIVES(to) ->
        assert(nfull(q[r * N + to]));
        q[r * N + to]!kind,dead[r],ballot,value
    :: LIVES(r) && (crashes < CRASHES) -> crashes++; crash(r)
    :: !LIVES(r) -> skip
    :: LIVES(r) && !LIVES(to) -> skip
    fi
}

inline send_kids(r, kind, but, ballot, value)
{
    tj = 0;
    do
    :: tj < N ->
        if
        :: HOLDS(kids[r], tj) && (tj != but) -> send(r, tj, kind, ballot, value)
        :: else -> skip
        fi;
        tj++
    :: else -> break
    od;
    tj = 0
}

/* A rank that died on the way to this has decided nothing. */
inline decide(r)
{
    if
    :: LIVES(r) ->
        decision[r] = avalue[r];
#ifndef EARLY
        assert((agreed == NONE) || (agreed == avalue[r]));
#endif
        agreed = avalue[r]
    :: else -> skip
    fi
}

inline try_ack(r)
{
    if
    :: LIVES(r) && accepted[r] && !ack_sent[r] && (decision[r] == NONE) &&
       ((acks[r] == kids[r]) || (BREAK == 2)) ->
        ack_sent[r] = true;
        if
        :: parent[r] != NOBODY -> send(r, parent[r], ACK, 0, 0)
        :: else ->
            /* The root decides before it tells: the worst order. */
            decide(r);
            send_kids(r, DECIDE, NOBODY, aballot[r], avalue[r])
        fi
    :: else -> skip
    fi
}

inline adopt(r, value)
{
    count(dead[r], tn);
    aballot[r] = 1 + tn;
    avalue[r] = value;
    tn = 0;
    accepted[r] = true;
#if defined(EARLY) || BREAK == 4
    decide(r);
    send_kids(r, PROPOSE, NOBODY, aballot[r], avalue[r])
#else
    send_kids(r, PROPOSE, NOBODY, aballot[r], avalue[r]);
    try_ack(r)
#endif
}

inline merge(r, ballot, value)
{
    if
    :: ballot > gballot[r] -> gballot[r] = ballot; gvalue[r] = value
    :: else -> skip
    fi
}

inline try_up(r)
{
    if
    :: LIVES(r) && started[r] && !up_sent[r] && (decision[r] == NONE) && (got[r] == kids[r]) ->
        up_sent[r] = true;
#if BREAK != 1
        merge(r, aballot[r], avalue[r]);
#endif
        if
        :: parent[r] != NOBODY -> send(r, parent[r], UP, gballot[r], gvalue[r])
        :: (parent[r] == NOBODY) && (gballot[r] == 0) -> adopt(r, dead[r])
        :: (parent[r] == NOBODY) && (gballot[r] > 0) -> adopt(r, gvalue[r])
        fi
    :: else -> skip
    fi
}

inline begin_ballot(r)
{
    find_place(r);
    up_sent[r] = false; accepted[r] = false; ack_sent[r] = false;
    got[r] = 0; acks[r] = 0; gballot[r] = 0; gvalue[r] = 0;
#ifdef MAJORITY
    count(dead[r], tn);
    if
    :: (BREAK != 3) && ((2 * (N - tn) < N) || ((2 * (N - tn) == N) && HOLDS(dead[r], 0))) ->
        tn = 0;
        crash(r) /* it ends */
    :: else -> tn = 0
    fi;
#endif
    if
    :: LIVES(r) && (decision[r] == NONE) -> try_up(r)
    :: LIVES(r) && (decision[r] != NONE) && (parent[r] != NOBODY) ->
        send(r, parent[r], DECIDE, aballot[r], avalue[r])
    :: else -> skip
    fi
}

inline handle_open(r, from, kind, ballot, value)
{
    if
    :: (kind == UP) && HOLDS(kids[r], from) && !HOLDS(got[r], from) ->
        got[r] = got[r] | BIT(from);
        merge(r, ballot, value);
        try_up(r)
    :: (kind == PROPOSE) && (parent[r] == from) && up_sent[r] && !accepted[r] -> adopt(r, value)
    :: (kind == ACK) && HOLDS(kids[r], from) ->
        acks[r] = acks[r] | BIT(from);
        try_ack(r)
    :: else -> skip
    fi
}

inline handle(r, from, kind, ballot_dead, ballot, value)
{
    if
    :: HOLDS(dead[r], from) ->
        if
        :: kind != NEWS -> send(r, from, NEWS, 0, 0)
        :: else -> skip
        fi
    :: !HOLDS(dead[r], from) && HOLDS(ballot_dead, r) -> crash(r) /* excluded: it ends */
    :: else ->
        if
        :: (ballot_dead & (ALL - dead[r])) != 0 ->
            dead[r] = dead[r] | ballot_dead;
            begin_ballot(r)
        :: else -> skip
        fi;
        if
        :: !LIVES(r) || (kind == NEWS) -> skip
        :: LIVES(r) && (kind != NEWS) && (decision[r] != NONE) ->
            if
            :: kind != DECIDE -> send(r, from, DECIDE, aballot[r], avalue[r])
            :: else -> skip
            fi
        :: LIVES(r) && (kind == DECIDE) && (decision[r] == NONE) ->
            aballot[r] = ballot;
            avalue[r] = value;
            decide(r);
            send_kids(r, DECIDE, from, aballot[r], avalue[r]);
            if
            :: (parent[r] != NOBODY) && (parent[r] != from) ->
                send(r, parent[r], DECIDE, aballot[r], avalue[r])
            :: else -> skip
            fi
        :: LIVES(r) && (kind != NEWS) && (kind != DECIDE) && (decision[r] == NONE) ->
            if
            :: ballot_dead != dead[r] -> send(r, from, NEWS, 0, 0)
            :: else -> handle_open(r, from, kind, ballot, value)
            fi
        fi
    fi
}

inline receive(r, from)
{
    q[(from) * N + r]?kind,d,b,v;
    handle(r, (from), kind, d, b, v);
    d = 0; b = 0; v = 0; kind = NEWS
}

/* r finds out that x is dead, or takes it for dead. */
inline hold_for_dead(r, x)
{
    dead[r] = dead[r] | BIT(x);
    begin_ballot(r)
}

#define MAY_RECEIVE(x) LIVES(r) && nempty(q[(x) * N + r])
#define MAY_DETECT(x)  LIVES(r) && !LIVES(x) && !HOLDS(dead[r], x)
#define MAY_SUSPECT(x) \
    LIVES(r) && (suspects < SUSPECTS) && (r != (x)) && LIVES(x) && !HOLDS(dead[r], x)

/* Somebody who lives, and to whom r listens, holds x for dead: what is flooded. */
#define SAYS(s, x) (LIVES(s) && HOLDS(dead[s], x) && !HOLDS(dead[r], s))
#if N > 3
#define SAID(x) (SAYS(0, x) || SAYS(1, x) || SAYS(2, x) || SAYS(3, x))
#else
#define SAID(x) (SAYS(0, x) || SAYS(1, x) || SAYS(2, x))
#endif
#define MAY_LEARN(x) LIVES(r) && (r != (x)) && !HOLDS(dead[r], x) && SAID(x)

proctype rank(byte r)
{
    mtype kind = NEWS;
    byte d, b, v;

end:
    do
    :: atomic { LIVES(r) && !started[r] -> started[r] = true; try_up(r) }
    :: atomic { LIVES(r) && (crashes < CRASHES) -> crashes++; crash(r) }
    :: atomic { MAY_RECEIVE(0) -> receive(r, 0) }
    :: atomic { MAY_RECEIVE(1) -> receive(r, 1) }
    :: atomic { MAY_DETECT(0) -> hold_for_dead(r, 0) }
    :: atomic { MAY_DETECT(1) -> hold_for_dead(r, 1) }
    :: atomic { MAY_RECEIVE(2) -> receive(r, 2) }
    :: atomic { MAY_DETECT(2) -> hold_for_dead(r, 2) }
#if N > 3
    :: atomic { MAY_RECEIVE(3) -> receive(r, 3) }
    :: atomic { MAY_DETECT(3) -> hold_for_dead(r, 3) }
#endif
#if SUSPECTS > 0
    :: atomic { LIVES(r) && SAID(r) -> crash(r) /* excluded: it ends */ }
    :: atomic { MAY_SUSPECT(0) -> suspects++; hold_for_dead(r, 0) }
    :: atomic { MAY_SUSPECT(1) -> suspects++; hold_for_dead(r, 1) }
    :: atomic { MAY_SUSPECT(2) -> suspects++; hold_for_dead(r, 2) }
    :: atomic { MAY_LEARN(0) -> hold_for_dead(r, 0) }
    :: atomic { MAY_LEARN(1) -> hold_for_dead(r, 1) }
    :: atomic { MAY_LEARN(2) -> hold_for_dead(r, 2) }
#if N > 3
    :: atomic { MAY_SUSPECT(3) -> suspects++; hold_for_dead(r, 3) }
    :: atomic { MAY_LEARN(3) -> hold_for_dead(r, 3) }
#endif
#endif
    od
}

/* Nothing can happen any more: all who live have decided, and the same. */
proctype judge()
{
    byte i, what = NONE;

end:
    timeout;
    d_step {
        i = 0;
        do
        :: (i < N) && LIVES(i) ->
            assert(decision[i] != NONE);
            assert((what == NONE) || (what == decision[i]));
            what = decision[i];
            i++
        :: (i < N) && !LIVES(i) -> i++
        :: else -> break
        od
    }
}

init
{
    byte i;

    atomic {
        do
        :: i < N ->
            decision[i] = NONE;
            find_place(i);
            i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < N -> run rank(i); i++
        :: else -> break
        od;
        run judge();
        i = 0
    }
}
