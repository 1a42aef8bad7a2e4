/*
 * agree.pml - one instance of the agreement of src/cluster/consensus, for spin.
 *
 * Faithful: ballots as sets of the dead, the tree over the living (fan-out 2), UP,
 * PROPOSE, ACK, DECIDE and NEWS, what is accepted and brought along, crashes between
 * any two sends.  Left out: what a value is made of (here it is the ballot in which
 * it was first proposed, which decides whose contributions it holds), several
 * instances, DONE, ASK and FORGET; frames of one pair do not overtake each other (in
 * the simulation they do).
 *
 * Checked: no two ranks decide differently, failed ones included; when no step is possible
 * any more, all live ranks have decided.  With LEAVE: a rank that leaves has decided; no rank is
 * notified of its own failure unless some rank has declared it failed; and a leaver that remains
 * has decided as the others.
 *
 *   N         ranks, 3 or 4
 *   CRASHES   how many may crash, at most
 *   SUSPECTS  how often a rank may declare a live one failed (with MAJORITY)
 *   MAJORITY  a quorum is needed
 *   EARLY     decide at PROPOSE: the survivors must agree
 *   LEAVE     which ranks ask to leave, as bits: they go when they have decided
 *   INDIRECT  how often a rank learns by another path that a leaver has gone, when that
 *             leave is decided somewhere, and the rank may not know it
 *   BREAK     to see that it would be found: 1: what was accepted is not brought along;
 *             2: ACK without waiting for the children; 3: a minority continues; 4: decide
 *             at PROPOSE, and yet all must agree; 5: who has decided holds the leavers for
 *             gone; 6: a leaver that is told that it has left takes it for a verdict; 7: who
 *             has left is not told to new neighbours
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

#ifndef LEAVE
#define LEAVE 0
#endif
#ifndef INDIRECT
#define INDIRECT 0
#endif
#if LEAVE
#define ROOM 14
#else
#define ROOM 8
#endif

#define NOBODY 15
#define NONE   31 /* no value */
#define BIT(r) (1 << (r))
#define ALL    (BIT(N) - 1)
#define LIVES(r) ((alive >> (r)) & 1)
#define HOLDS(set, r) (((set) >> (r)) & 1)
/* A value is the ballot in which it was proposed first: the leavers are those outside it. */
#define LEAVERS(value) (LEAVE & (ALL - (value)))

mtype = { UP, PROPOSE, ACK, DECIDE, NEWS };

/* kind, ranks that the sender knows as failed, those that have left, the ballot of the value, the value */
chan q[N * N] = [ROOM] of { mtype, byte, byte, byte, byte };

byte alive = ALL;
byte crashes = 0;
byte suspects = 0;
byte indirect = 0;
byte gone = 0;    /* ranks that have left, among those not alive */
byte accused = 0; /* live ranks that some rank has declared failed */

byte dead[N];    /* the ballot of each rank, as bits */
byte left[N];    /* those among them that have left */
byte parent[N];  /* functions of it */
byte kids[N];
byte rest[N];    /* neighbours in the tree of staying ranks, of a rank that has released the leavers */
bool started[N];
bool up_sent[N], accepted[N], ack_sent[N];
byte got[N], acks[N];
byte gballot[N], gvalue[N]; /* gathered in this ballot */
byte aballot[N], avalue[N]; /* accepted last */
byte decision[N];
byte agreed = NONE; /* what anybody has decided */

byte ti, tj, tn, tk, tm; /* scratch, always 0 between steps */

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

/* up and down: the parent and the children of r among the ranks that are not in out. */
inline find_in(r, out, up, down)
{
    ti = 0; tj = 0; /* tj: how many living are below ti; tn: below r */
    tn = 0;
    do
    :: ti < r -> tn = tn + (1 - HOLDS(out, ti)); ti++
    :: else -> break
    od;
    up = NOBODY;
    down = 0;
    ti = 0;
    do
    :: ti < N ->
        if
        :: HOLDS(out, ti) -> skip
        :: else ->
            if
            :: (tn > 0) && (tj == (tn - 1) / 2) -> up = ti
            :: (tj == 2 * tn + 1) || (tj == 2 * tn + 2) -> down = down | BIT(ti)
            :: else -> skip
            fi;
            tj++
        fi;
        ti++
    :: else -> break
    od;
    ti = 0; tj = 0; tn = 0
}

inline find_place(r)
{
    d_step {
        find_in(r, dead[r], parent[r], kids[r]);
#if LEAVE
        if
        :: (decision[r] != NONE) && !HOLDS(LEAVE, r) ->
            find_in(r, dead[r] | LEAVERS(decision[r]), tm, rest[r]);
            if
            :: tm != NOBODY -> rest[r] = rest[r] | BIT(tm)
            :: else -> skip
            fi;
            tm = 0
        :: else -> skip
        fi
#endif
    }
}

inline crash(r)
{
    alive = alive & (ALL - BIT(r));
    ti = 0;
    do /* nobody reads what was sent to it */
    :: ti < N ->
        do
        :: nempty(q[ti * N + r]) -> q[ti * N + r]?_,_,_,_,_
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
        q[r * N + to]!kind,dead[r],left[r],ballot,value
    :: LIVES(r) && (crashes < CRASHES) -> crashes++; crash(r)
    :: !LIVES(r) -> skip
    :: LIVES(r) && !LIVES(to) -> skip
    fi
}

inline send_all(r, set, kind, but, ballot, value)
{
    tj = 0;
    do
    :: tj < N ->
        if
        :: HOLDS(set, tj) && (tj != but) -> send(r, tj, kind, ballot, value)
        :: else -> skip
        fi;
        tj++
    :: else -> break
    od;
    tj = 0
}

inline send_kids(r, kind, but, ballot, value)
{
    send_all(r, kids[r], kind, but, ballot, value)
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
        agreed = avalue[r];
#if LEAVE
        find_place(r)
#endif
    :: else -> skip
    fi
}

/* What r has accepted, and is told, is decided. */
inline decide_told(r, from)
{
    decide(r);
    send_kids(r, DECIDE, from, aballot[r], avalue[r]);
    if
    :: (parent[r] != NOBODY) && (parent[r] != from) ->
        send(r, parent[r], DECIDE, aballot[r], avalue[r])
    :: else -> skip
    fi
}

/* Whether r sees enough for a quorum; of: of how many. */
#define FEW(of) ((2 * (N - tn) < (of)) || ((2 * (N - tn) == (of)) && HOLDS(dead[r], 0)))

/* r proposes, with a quorum. */
inline propose(r, value)
{
#ifdef MAJORITY
    count(dead[r], tn);
    if
    :: (BREAK != 3) && FEW(N) -> tn = 0; crash(r) /* it ends */
    :: else -> tn = 0
    fi;
#endif
    if
    :: LIVES(r) -> adopt(r, value)
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
        :: (parent[r] == NOBODY) && (gballot[r] == 0) -> propose(r, dead[r])
        :: (parent[r] == NOBODY) && (gballot[r] > 0) -> propose(r, gvalue[r])
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
    count(dead[r] & left[r] & LEAVERS(avalue[r]), tm); /* of whom the decision may come */
    if
    :: (BREAK != 3) && FEW(N) &&
       ((aballot[r] == 0) || (tm == 0) || (2 * (N - tn) < N - tm)) ->
        tn = 0; tm = 0;
        crash(r) /* it ends */
    :: else -> tn = 0; tm = 0
    fi;
#endif
    if
    :: LIVES(r) && (decision[r] == NONE) -> try_up(r)
    :: LIVES(r) && (decision[r] != NONE) ->
        if
        :: parent[r] != NOBODY -> send(r, parent[r], DECIDE, aballot[r], avalue[r])
        :: else -> skip
        fi;
#if LEAVE
        send_all(r, rest[r], DECIDE, parent[r], aballot[r], avalue[r])
#endif
    :: else -> skip
    fi
}

/* dead[r] has grown. */
inline on_grown(r)
{
#if LEAVE
    if
    :: (decision[r] == NONE) && (aballot[r] > 0) -> /* a leaver may wait for r */
        tm = kids[r];
        if
        :: parent[r] != NOBODY -> tm = tm | BIT(parent[r])
        :: else -> skip
        fi;
        tm = tm & dead[r] & left[r] & LEAVERS(avalue[r]);
        send_all(r, tm, NEWS, NOBODY, 0, 0);
        tm = 0
    :: else -> skip
    fi;
#endif
    begin_ballot(r);
#if LEAVE && BREAK != 7
    if
    :: left[r] != 0 ->
        send_kids(r, NEWS, NOBODY, 0, 0);
        if
        :: parent[r] != NOBODY -> send(r, parent[r], NEWS, 0, 0)
        :: else -> skip
        fi
    :: else -> skip
    fi
#endif
}

/* Another rank has declared r failed; said tells whether r has left. */
inline be_excluded(r, from, said)
{
    if
#if LEAVE && BREAK != 5 && BREAK != 6
    :: HOLDS(said, r) && (aballot[r] > 0) && HOLDS(LEAVERS(avalue[r]), r) ->
        if
        :: decision[r] == NONE -> decide_told(r, from)
        :: else -> skip
        fi
#endif
    :: else ->
        assert(HOLDS(accused, r));
        crash(r) /* it ends */
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

inline handle(r, from, kind, ballot_dead, said, ballot, value)
{
    if
    :: HOLDS(dead[r], from) ->
        if
#if LEAVE
        :: (kind == DECIDE) && HOLDS(left[r], from) && (decision[r] == NONE) && started[r] &&
           !HOLDS(ballot_dead, r) ->
            aballot[r] = ballot;
            avalue[r] = value;
            decide_told(r, from)
#endif
        :: else ->
            if
            :: (kind != NEWS) || !HOLDS(ballot_dead, r) -> send(r, from, NEWS, 0, 0)
            :: else -> skip
            fi
        fi
    :: !HOLDS(dead[r], from) && HOLDS(ballot_dead, r) -> be_excluded(r, from, said)
    :: else ->
        left[r] = left[r] | said;
        if
        :: (ballot_dead & (ALL - dead[r])) != 0 ->
            dead[r] = dead[r] | ballot_dead;
            on_grown(r)
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
            decide_told(r, from)
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
    q[(from) * N + r]?kind,d,l,b,v;
    handle(r, from, kind, d, l, b, v);
    d = 0; l = 0; b = 0; v = 0; kind = NEWS
}

/* r detects the failure of x, or suspects it wrongly. */
inline declare_failed(r, x)
{
    dead[r] = dead[r] | BIT(x);
    on_grown(r)
}

#define MAY_RECEIVE(x) LIVES(r) && nempty(q[(x) * N + r])
#define MAY_DETECT(x)  LIVES(r) && !LIVES(x) && !HOLDS(gone, x) && !HOLDS(dead[r], x)
/* What x has said before it said goodbye comes before that. */
#define MAY_FIND(x) \
    LIVES(r) && (decision[r] == NONE) && HOLDS(gone, x) && !HOLDS(dead[r], x) && \
        empty(q[(x) * N + r])
/* What BREAK 5 breaks: ranks that have decided treat the leavers as gone, and notify others. */
#define MAY_DROP(x) \
    LIVES(r) && (decision[r] != NONE) && !HOLDS(LEAVE, r) && \
        HOLDS(LEAVERS(decision[r]), x) && !HOLDS(dead[r], x)
/* r waits for x, which holds it for gone: it reminds it, and is told. */
#define MAY_REMIND(x) \
    LIVES(r) && started[r] && (decision[r] == NONE) && LIVES(x) && HOLDS(dead[x], r) && \
        !HOLDS(dead[r], x) && (HOLDS(kids[r], x) || (parent[r] == (x))) && \
        empty(q[r * N + (x)]) && empty(q[(x) * N + r])
#define MAY_HEAR(x) \
    LIVES(r) && (indirect < INDIRECT) && (decision[r] == NONE) && (agreed != NONE) && \
        (r != (x)) && HOLDS(LEAVERS(agreed), x) && !HOLDS(dead[r], x)
#define MAY_SUSPECT(x) \
    LIVES(r) && (suspects < SUSPECTS) && (r != (x)) && LIVES(x) && !HOLDS(dead[r], x)

/* A live rank that r accepts has declared x failed: the broadcast. */
#define SAYS(s, x) (LIVES(s) && HOLDS(dead[s] & (ALL - left[s]), x) && !HOLDS(dead[r], s))
#if N > 3
#define SAID(x) (SAYS(0, x) || SAYS(1, x) || SAYS(2, x) || SAYS(3, x))
#else
#define SAID(x) (SAYS(0, x) || SAYS(1, x) || SAYS(2, x))
#endif
#define MAY_LEARN(x) LIVES(r) && (r != (x)) && !HOLDS(dead[r], x) && SAID(x)

/* One of each kind, for whichever x: spin writes out an inline wherever it stands. */
proctype rank(byte r)
{
    mtype kind = NEWS;
    byte x, d, l, b, v;

end:
    do
    :: atomic { LIVES(r) && !started[r] -> started[r] = true; try_up(r) }
    :: atomic { LIVES(r) && (crashes < CRASHES) -> crashes++; crash(r) }
    :: atomic {
        if
        :: MAY_RECEIVE(0) -> x = 0
        :: MAY_RECEIVE(1) -> x = 1
        :: MAY_RECEIVE(2) -> x = 2
#if N > 3
        :: MAY_RECEIVE(3) -> x = 3
#endif
        fi;
        receive(r, x);
        x = 0
    }
    :: atomic {
        if
        :: MAY_DETECT(0) -> x = 0
        :: MAY_DETECT(1) -> x = 1
        :: MAY_DETECT(2) -> x = 2
#if N > 3
        :: MAY_DETECT(3) -> x = 3
#endif
#if LEAVE
        :: MAY_FIND(0) -> x = 0; left[r] = left[r] | BIT(0)
        :: MAY_FIND(1) -> x = 1; left[r] = left[r] | BIT(1)
        :: MAY_FIND(2) -> x = 2; left[r] = left[r] | BIT(2)
#if N > 3
        :: MAY_FIND(3) -> x = 3; left[r] = left[r] | BIT(3)
#endif
#endif
#if BREAK == 5
        :: MAY_DROP(0) -> x = 0; left[r] = left[r] | BIT(0)
        :: MAY_DROP(1) -> x = 1; left[r] = left[r] | BIT(1)
        :: MAY_DROP(2) -> x = 2; left[r] = left[r] | BIT(2)
#if N > 3
        :: MAY_DROP(3) -> x = 3; left[r] = left[r] | BIT(3)
#endif
#endif
#if INDIRECT > 0
        :: MAY_HEAR(0) -> x = 0; indirect++; left[r] = left[r] | BIT(0)
        :: MAY_HEAR(1) -> x = 1; indirect++; left[r] = left[r] | BIT(1)
        :: MAY_HEAR(2) -> x = 2; indirect++; left[r] = left[r] | BIT(2)
#if N > 3
        :: MAY_HEAR(3) -> x = 3; indirect++; left[r] = left[r] | BIT(3)
#endif
#endif
#if SUSPECTS > 0
        :: MAY_SUSPECT(0) -> x = 0; suspects++; accused = accused | BIT(0)
        :: MAY_SUSPECT(1) -> x = 1; suspects++; accused = accused | BIT(1)
        :: MAY_SUSPECT(2) -> x = 2; suspects++; accused = accused | BIT(2)
#if N > 3
        :: MAY_SUSPECT(3) -> x = 3; suspects++; accused = accused | BIT(3)
#endif
        :: MAY_LEARN(0) -> x = 0
        :: MAY_LEARN(1) -> x = 1
        :: MAY_LEARN(2) -> x = 2
#if N > 3
        :: MAY_LEARN(3) -> x = 3
#endif
#endif
        fi;
        declare_failed(r, x);
        x = 0
    }
#if INDIRECT > 0
    :: atomic {
        if
        :: MAY_REMIND(0) -> x = 0
        :: MAY_REMIND(1) -> x = 1
        :: MAY_REMIND(2) -> x = 2
#if N > 3
        :: MAY_REMIND(3) -> x = 3
#endif
        fi;
        send(r, x, NEWS, 0, 0);
        x = 0
    }
#endif
#if LEAVE
    :: atomic {
        LIVES(r) && (decision[r] != NONE) && HOLDS(LEAVERS(decision[r]), r) ->
        gone = gone | BIT(r);
        crash(r)
    }
#endif
#if SUSPECTS > 0
    :: atomic { LIVES(r) && SAID(r) -> crash(r) /* excluded: it ends */ }
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
