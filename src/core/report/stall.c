/* stall.c - a timer that finds operations that wait too long, and rounds of questions. */
#include "core/report/stall.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/sentence.h"
#include "base/text/text.h"

#define ANSWER_NS UINT64_C(1000000000) /* a running loop answers within milliseconds */
enum { ASKED_MAX = 64 };               /* in one round */
enum { DEPTH_MAX = 4 };                /* maximum depth of chains */
enum { LINES = 8 };                    /* ranks named in a report */
enum { GROWTH_MAX = 64 };              /* intervals grow up to this multiple of the first */

static const uint32_t NOBODY = UINT32_MAX;

typedef enum answer { NONE_YET, TOLD, GONE } answer;

typedef struct asked {
    uint32_t rank;
    unsigned depth; /* 0: this rank itself waits for it */
    answer answer;
    char why[96]; /* set when it is gone */
    nx_doing doing;
} asked;

struct nx_stall {
    nx_stall_config config;
    nx_timer tick;

    /* What was reported: operations that began up to |reported_ns|. */
    uint64_t reported_ns;
    uint64_t interval_ns, again_ns; /* until the next report of it, and its time */
    uint64_t served;                /* remote calls served at the last check */
    bool serves;                    /* there were some between the last two checks */

    /* The round of questions, valid while |asking| is set. */
    bool asking;
    bool sending; /* questions are being sent: a peer may turn out to be down */
    nx_timer answers;
    nx_pending op;
    nx_stall_voice voice;
    uint32_t question;
    uint32_t nfor;                  /* for how many ranks |op| waits */
    uint32_t whom[NX_DOING_LISTED]; /* the first of them */
    char here[NX_DOING_HERE];       /* what else it waits for */
    char note[NX_NOTE_TEXT];
    uint32_t nasked, nopen; /* questions sent; questions without an answer */
    asked asked[ASKED_MAX];
};

static void finish(nx_stall *s, uint64_t now_ns);

/* ---- questions ----------------------------------------------------------------------- */

static asked *find(nx_stall *s, uint32_t rank)
{
    for (uint32_t i = 0; i < s->nasked; i++) {
        if (s->asked[i].rank == rank) {
            return &s->asked[i];
        }
    }
    return NULL;
}

static void gone(nx_stall *s, asked *a, const char *why)
{
    a->answer = GONE;
    (void)nx_sentence(a->why, sizeof(a->why), "%s", why);
    s->nopen--;
}

static void ask(nx_stall *s, uint32_t rank, unsigned depth)
{
    const nx_ask question = {
        .question = s->question, .comm = s->op.what.comm, .number = s->op.what.number};
    uint8_t frame[NX_ASK_SIZE];
    nexar_err err;
    asked *a;

    if ((rank >= s->config.size) || (rank == s->config.self) || (s->nasked == ASKED_MAX) ||
        (find(s, rank) != NULL)) {
        return;
    }
    a = &s->asked[s->nasked++];
    *a = (asked){.rank = rank, .depth = depth};
    s->nopen++;
    s->sending = true;
    err = s->config.send(s->config.ctx, rank, frame, nx_ask_encode(&question, frame));
    s->sending = false;
    if ((err != NEXAR_OK) && (a->answer == NONE_YET)) {
        gone(s, a, nexar_last_error());
    }
}

static void wait_for_answers(nx_stall *s)
{
    const uint64_t now = nx_loop_now(s->config.loop);

    if ((s->nopen == 0) ||
        (nx_loop_timer_set(s->config.loop, &s->answers, now + ANSWER_NS) != NEXAR_OK)) {
        finish(s, now);
    }
}

static void begin(nx_stall *s, const nx_pending *op, nx_stall_voice voice)
{
    uint32_t whom[ASKED_MAX];

    s->asking = true;
    s->op = *op;
    s->voice = voice;
    s->question++;
    s->nasked = s->nopen = 0;
    s->nfor = s->config.whom(s->config.ctx, op, whom, ASKED_MAX);
    s->here[0] = '\0';
    if (s->config.here != NULL) {
        s->config.here(s->config.ctx, op, s->here);
    }
    s->note[0] = '\0';
    if (s->config.note != NULL) {
        s->config.note(s->config.ctx, op, s->note);
    }
    for (uint32_t i = 0; (i < s->nfor) && (i < ASKED_MAX); i++) {
        if (i < NX_DOING_LISTED) {
            s->whom[i] = whom[i];
        }
        ask(s, whom[i], 0);
    }
    wait_for_answers(s);
}

/* Whether |a| is in the reported operation. */
static bool in_it(const nx_stall *s, const asked *a)
{
    return (a->answer == TOLD) && (s->op.what.kind == NX_WHAT_COLL) &&
           (a->doing.now.text[0] != '\0') && (a->doing.now.comm == s->op.what.comm) &&
           (a->doing.now.number == s->op.what.number);
}

/* Whether |a| waits like the others, for nothing of its own. */
static bool in_it_too(const nx_stall *s, const asked *a)
{
    return in_it(s, a) && (a->doing.here[0] == '\0');
}

/* Of a collective only rank 0 follows the chain beyond the ranks that it waits for itself. */
static bool follows(const nx_stall *s)
{
    return (s->op.what.kind != NX_WHAT_COLL) || s->op.first || (s->voice == NX_STALL_DEMAND);
}

void nx_stall_on_answer(nx_stall *s, uint32_t peer, const nx_doing *d)
{
    asked *a = find(s, peer);

    if (!s->asking || (d->question != s->question) || (a == NULL) || (a->answer != NONE_YET)) {
        return; /* the answer is too late */
    }
    a->doing = *d;
    a->answer = TOLD;
    s->nopen--;
    if (follows(s) && ((a->depth < DEPTH_MAX) || (d->nfor == 1))) {
        for (uint32_t i = 0; i < d->listed; i++) {
            ask(s, d->who[i], a->depth + 1);
        }
    }
    wait_for_answers(s);
}

void nx_stall_on_down(nx_stall *s, uint32_t peer, const char *why)
{
    asked *a = s->asking ? find(s, peer) : NULL;

    if ((a != NULL) && (a->answer == NONE_YET)) {
        gone(s, a, why);
        if (!s->sending) { /* or this sends more questions */
            wait_for_answers(s);
        }
    }
}

/* ---- text ---------------------------------------------------------------------------- */

enum { LINE = NX_DOING_TEXT + 128 };

static void print_head(const nx_stall *s, uint64_t now_ns)
{
    char line[NX_WHAT_TEXT + NX_WAITS_TEXT + NX_NOTE_TEXT + 128], what[NX_WHAT_TEXT],
        waits[NX_WAITS_TEXT], serves[48] = "";

    if (s->serves) {
        (void)snprintf(serves, sizeof(serves), "; rank %" PRIu32 " serves RPCs", s->config.self);
    }
    (void)snprintf(line, sizeof(line), "rank %" PRIu32 " has waited %.1f s in %s%s%s%s%s",
                   s->config.self, (double)(now_ns - s->op.begun_ns) / 1e9,
                   nx_what_text(&s->op.what, what),
                   nx_waits_text(" for ", s->whom, s->nfor, s->here, waits),
                   (s->note[0] == '\0') ? "" : ": ", s->note, serves);
    s->config.print(s->config.ctx, s->voice, line);
}

static bool waits_for(const nx_doing *d, uint32_t rank)
{
    for (uint32_t i = 0; i < d->listed; i++) {
        if (d->who[i] == rank) {
            return true;
        }
    }
    return false;
}

/* Whether one of the two ranks sends what the other receives: long or slow, but no deadlock. */
static bool one_message(const nx_stall *s, const nx_doing *d)
{
    static const char send[] = "(to rank ", any[] = ", any tag)";
    char own[NX_WHAT_TEXT];
    const char *mine = strchr(nx_what_text(&s->op.what, own), ',');
    const char *theirs = strchr(d->now.text, ',');

    if ((mine == NULL) || (theirs == NULL) ||
        ((strstr(own, send) != NULL) == (strstr(d->now.text, send) != NULL))) {
        return false;
    }
    return (strcmp(mine, theirs) == 0) || (strcmp(mine, any) == 0) || (strcmp(theirs, any) == 0);
}

/* A rank serves calls whatever its own threads wait for. */
static bool is_call(const char *what)
{
    return strstr(what, ", function ") != NULL;
}

/* The meaning of the answer of |a|.  A message that no call receives explains more. */
static const char *meaning(const nx_stall *s, const asked *a)
{
    if (in_it(s, a) || !waits_for(&a->doing, s->config.self) || (s->note[0] != '\0') ||
        (s->op.what.kind == NX_WHAT_RPC) || is_call(a->doing.now.text) ||
        (strstr(a->doing.now.text, NX_UNMATCHED) != NULL)) {
        return "";
    }
    return one_message(s, &a->doing) ? ": that message is in flight" : ": each waits for the other";
}

static const char *fate(const nx_stall *s, uint32_t rank)
{
    return (s->config.fate == NULL) ? "is gone" : s->config.fate(s->config.ctx, rank);
}

static void print_rank(const nx_stall *s, const asked *a)
{
    char line[LINE], doing[NX_DOING_TEXT];

    switch (a->answer) {
    case NONE_YET:
        (void)snprintf(line, sizeof(line), "rank %" PRIu32 " does not answer", a->rank);
        break;
    case GONE:
        (void)snprintf(line, sizeof(line), "rank %" PRIu32 " %s: %s", a->rank, fate(s, a->rank),
                       a->why);
        break;
    case TOLD:
        (void)snprintf(line, sizeof(line), "rank %" PRIu32 " %s%s", a->rank,
                       nx_doing_text(&a->doing, doing), meaning(s, a));
        break;
    }
    s->config.print(s->config.ctx, s->voice, line);
}

/* The ranks that are in the operation too, or those that are not. */
static uint32_t print_ranks(const nx_stall *s, bool inside)
{
    char line[64];
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->nasked; i++) {
        if (in_it_too(s, &s->asked[i]) == inside) {
            if (n < LINES) {
                print_rank(s, &s->asked[i]);
            }
            n++;
        }
    }
    if (n > LINES) {
        (void)snprintf(line, sizeof(line), "and %" PRIu32 " more", n - LINES);
        s->config.print(s->config.ctx, s->voice, line);
    }
    return n;
}

static void print_others(const nx_stall *s)
{
    uint32_t ranks[NX_DOING_LISTED], n = 0;
    char line[NX_RANKS_TEXT + 32], text[NX_RANKS_TEXT];

    for (uint32_t i = 0; i < s->nasked; i++) {
        if (in_it_too(s, &s->asked[i])) {
            if (n < NX_DOING_LISTED) {
                ranks[n] = s->asked[i].rank;
            }
            n++;
        }
    }
    if (n > 0) {
        (void)snprintf(line, sizeof(line), "%s %s in it too",
                       nx_ranks_text(ranks, (n < NX_DOING_LISTED) ? n : NX_DOING_LISTED, n, text),
                       (n == 1) ? "is" : "are");
        s->config.print(s->config.ctx, s->voice, line);
    }
}

/* Whether all ranks that |op| waits for are in it themselves: another rank then reports more. */
static bool others_say_it(const nx_stall *s)
{
    if ((s->op.what.kind != NX_WHAT_COLL) || s->op.first || (s->nfor == 0) ||
        (s->nfor > ASKED_MAX) || (s->here[0] != '\0')) {
        return false;
    }
    for (uint32_t i = 0; i < s->nasked; i++) {
        if ((s->asked[i].depth == 0) && !in_it_too(s, &s->asked[i])) {
            return false;
        }
    }
    return true;
}

/* The only rank that |rank| waits for, if it waits for nothing else; NONE: there is none. */
static uint32_t waits_for_one(nx_stall *s, uint32_t rank)
{
    const asked *a;

    if (rank == s->config.self) {
        return ((s->nfor == 1) && (s->here[0] == '\0') && (s->op.what.kind != NX_WHAT_RPC))
                   ? s->whom[0]
                   : NOBODY;
    }
    a = find(s, rank);
    /* An operation that began recently may end soon. */
    return ((a != NULL) && (a->answer == TOLD) && (a->doing.now.text[0] != '\0') &&
            (a->doing.nfor == 1) && (a->doing.listed == 1) && (a->doing.here[0] == '\0') &&
            !is_call(a->doing.now.text) && (a->doing.now.age_ns >= s->config.after_ns / 2))
               ? a->doing.who[0]
               : NOBODY;
}

/* "deadlock: 0 -> 1 -> 2 -> 0", if the chain of waiting ranks is a cycle of three or more. */
static void print_circle(nx_stall *s)
{
    uint32_t path[ASKED_MAX + 2], n = 0, from = 0, at = s->config.self;
    nx_text text = {0};

    while ((at != NOBODY) && (n < ASKED_MAX + 1)) {
        path[n++] = at;
        at = waits_for_one(s, at);
        for (from = 0; (from < n) && (path[from] != at); from++) {
        }
        if (from < n) {
            break;
        }
    }
    if ((at == NOBODY) || (n - from < 3)) {
        return;
    }
    nx_text_addf(&text, "deadlock: ");
    for (uint32_t i = from; i < n; i++) {
        nx_text_addf(&text, "%" PRIu32 " -> ", path[i]);
    }
    nx_text_addf(&text, "%" PRIu32, path[from]);
    if (nx_text_str(&text) != NULL) {
        s->config.print(s->config.ctx, s->voice, nx_text_str(&text));
    }
    nx_text_fini(&text);
}

static void print_report(nx_stall *s, uint64_t now_ns)
{
    if ((s->voice == NX_STALL_WARN) && (others_say_it(s) || s->serves)) {
        s->voice = NX_STALL_INFO;
        print_head(s, now_ns);
        return;
    }
    print_head(s, now_ns);
    print_circle(s);
    if (print_ranks(s, false) != 0) {
        print_others(s);
    } else {
        (void)print_ranks(s, true);
    }
}

/* ---- timing -------------------------------------------------------------------------- */

static void look_again(nx_stall *s, uint64_t at_ns)
{
    /* Without memory for a timer there is no report, which is the lesser evil. */
    (void)!nx_loop_timer_set(s->config.loop, &s->tick, at_ns);
}

/* Whether |op| still waits. */
static bool still_there(const nx_stall *s)
{
    nx_pending now;

    return (s->op.begun_ns != 0) && s->config.oldest(s->config.ctx, s->op.begun_ns - 1, &now) &&
           (now.begun_ns == s->op.begun_ns);
}

static void finish(nx_stall *s, uint64_t now_ns)
{
    nx_loop_timer_cancel(s->config.loop, &s->answers);
    if (!s->asking) {
        return;
    }
    s->asking = false;
    if (still_there(s)) {
        print_report(s, now_ns);
    }
}

static void on_answers(nx_timer *timer, uint64_t now_ns)
{
    finish(nx_list_entry(timer, nx_stall, answers), now_ns);
}

/* Reports what is due; returns the time of the next check. */
static uint64_t look(nx_stall *s, uint64_t now_ns)
{
    const uint64_t after = s->config.after_ns;
    const uint64_t served = (s->config.served == NULL) ? 0 : s->config.served(s->config.ctx);
    nx_pending p;

    if (s->asking) {
        return now_ns + ANSWER_NS;
    }
    s->serves = (served != s->served);
    s->served = served;
    if (s->config.oldest(s->config.ctx, s->reported_ns, &p) && (p.begun_ns + after <= now_ns)) {
        s->reported_ns = p.begun_ns;
        s->interval_ns = 2 * after;
    } else if (s->config.oldest(s->config.ctx, 0, &p) && (p.begun_ns <= s->reported_ns)) {
        if (now_ns < s->again_ns) {
            return (s->again_ns < now_ns + after) ? s->again_ns : now_ns + after;
        }
        s->interval_ns *= (s->interval_ns < GROWTH_MAX * after) ? 2 : 1;
    } else {
        /* An operation that has not begun yet cannot be due earlier. */
        return s->config.oldest(s->config.ctx, s->reported_ns, &p) ? p.begun_ns + after
                                                                   : now_ns + after;
    }
    s->again_ns = now_ns + s->interval_ns;
    begin(s, &p, NX_STALL_WARN);
    return now_ns + after;
}

static void on_tick(nx_timer *timer, uint64_t now_ns)
{
    nx_stall *s = nx_list_entry(timer, nx_stall, tick);

    look_again(s, look(s, now_ns));
}

bool nx_stall_demand(nx_stall *s)
{
    nx_pending p;

    if (!s->config.oldest(s->config.ctx, 0, &p)) {
        return false;
    }
    if (s->asking) {
        s->voice = NX_STALL_DEMAND;
    } else {
        begin(s, &p, NX_STALL_DEMAND);
    }
    return true;
}

/* ---- life ---------------------------------------------------------------------------- */

nexar_err nx_stall_create(nx_stall **out, const nx_stall_config *config)
{
    nx_stall *s = nx_zalloc(sizeof(*s));

    if (s == NULL) {
        return nx_fail_nomem("the stall report");
    }
    s->config = *config;
    s->tick.on_expire = on_tick;
    s->answers.on_expire = on_answers;
    if (config->after_ns != 0) {
        look_again(s, nx_loop_refresh(config->loop) + config->after_ns);
    }
    *out = s;
    return NEXAR_OK;
}

void nx_stall_resize(nx_stall *s, uint32_t self, uint32_t size)
{
    nx_loop_timer_cancel(s->config.loop, &s->answers);
    s->asking = false;
    s->config.self = self;
    s->config.size = size;
}

void nx_stall_destroy(nx_stall *s)
{
    nx_loop_timer_cancel(s->config.loop, &s->tick);
    nx_loop_timer_cancel(s->config.loop, &s->answers);
    nx_free(s);
}
