/*
 * state_sync.c - nexar_state_sync.
 *
 *   part 0   all ranks announce a digest of their names, types and counts, their revision, and
 *            randomness: the key of the content hash is drawn from that of all
 *   part 1   and the digest of each tensor.  Each rank computes the same winners and the same
 *            distribution of their contents (state_vote.h)
 *   part 2   the contents go straight into the tensors of the ranks that lack them, which have
 *            kept what they replace (state_undo.h)
 *
 * Then the ranks agree whether all have completed.  If not, the replaced contents are restored.
 *
 * If the names differ, part 1 sends the table of rank 0 to all ranks.  Part 2 exchanges each
 * rank's difference from that table, so all ranks fail with the same message.
 *
 * Which ranks agree.  A rank that has completed part 0 knows that all ranks are in the call, and
 * takes part in the agreement whatever follows.  A rank whose part 0 has failed cannot know that:
 * after a failure or a revocation another rank may be elsewhere and never come.  It vetoes the
 * agreement and returns without waiting for it.  After a mismatch no rank has completed part 0.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/os/cancellation.h"
#include "base/parallel.h"
#include "base/random.h"
#include "base/text/sentence.h"
#include "core/agreement/agreement.h"
#include "core/comm/comm_device.h"
#include "core/failure/failure.h"
#include "core/recovery/recovery.h"
#include "core/recovery/retry.h"
#include "core/state/state_digests.h"
#include "core/state/state_parts.h"
#include "core/state/state_table.h"
#include "core/state/state_undo.h"
#include "core/state/state_vote.h"
#include "core/world/fork_guard.h"
#include "core/world/transport_choice.h"

static const char NAME[] = "state_sync";

/* What each rank announces first. */
typedef struct hello {
    uint64_t table[2]; /* the digest of its table, ... */
    uint64_t bytes;    /* ... and its length */
    uint64_t revision;
    uint64_t seed[NX_CONTENT_SEED];
} hello;
enum { HELLO_WORDS = sizeof(hello) / sizeof(uint64_t) };

/* A rank's message about tables that differ. */
typedef struct difference {
    uint64_t index; /* of the first tensor that differs; UINT64_MAX: none */
    char text[NX_STATE_TEXT];
} difference;
enum { DIFFERENCE_WORDS = sizeof(difference) / sizeof(uint64_t) };
_Static_assert(sizeof(difference) % sizeof(uint64_t) == 0, "whole words travel");

typedef struct sync_call {
    nexar_comm *comm;
    const nexar_state *tensors;
    size_t n;
    uint64_t revision; /* this rank's */
    nx_devmem mem;     /* held; none: host memory */
    unsigned threads;
    uint8_t *table;
    size_t table_bytes;

    bool met;           /* all ranks are in the call */
    hello *hellos;      /* by rank */
    nx_state_plan plan; /* of the last attempt */
    nx_state_undo undo; /* what it has replaced */
    nexar_sync_report report;
} sync_call;

/* ---- parts ------------------------------------------------------------------------------- */

static nexar_err all_gather(nx_state_parts *p, const void *mine, void *all, size_t words)
{
    nx_coll_call call = {.dtype = NEXAR_U64, .send = mine, .recv = all};

    call.coll = (nx_coll){.kind = NX_ALLGATHER, .count = words};
    return nx_state_parts_run(p, &call);
}

static nexar_err lack(nx_state_parts *p, const char *what)
{
    return nx_state_parts_give_up(p, nx_fail_nomem(what));
}

static nexar_err make_table(sync_call *s)
{
    if (s->table == NULL) {
        s->table_bytes = nx_state_table_size(s->tensors, s->n);
        s->table = nx_zalloc(s->table_bytes);
        if (s->table == NULL) {
            return nx_fail_nomem("the names of a state_sync");
        }
        nx_state_table_write(s->tensors, s->n, s->table);
    }
    return NEXAR_OK;
}

/* Creates s->table. */
static nexar_err say_hello(sync_call *s, nx_state_parts *p)
{
    const nx_digest digest = nx_state_table_digest(s->table, s->table_bytes);
    hello mine = {.table = {digest.word[0], digest.word[1]},
                  .bytes = s->table_bytes,
                  .revision = s->revision};
    nexar_err err;

    nx_random_fill(&nx_random_system, mine.seed, sizeof(mine.seed));
    nx_free(s->hellos);
    s->hellos = nx_calloc(p->inc->size, sizeof(*s->hellos));
    if (s->hellos == NULL) {
        return lack(p, "a state_sync");
    }
    err = all_gather(p, &mine, s->hellos, HELLO_WORDS);
    s->met = (err == NEXAR_OK);
    return err;
}

static bool tables_agree(const sync_call *s, uint32_t ranks)
{
    const hello *first = s->hellos;

    for (uint32_t rank = 1; (first != NULL) && (rank < ranks); rank++) {
        const hello *h = &first[rank];

        if ((h->table[0] != first->table[0]) || (h->table[1] != first->table[1]) ||
            (h->bytes != first->bytes)) {
            return false;
        }
    }
    return true;
}

/* ---- names that differ -------------------------------------------------------------------- */

/* Receives the table of rank 0 into |table|. */
static nexar_err get_table(const sync_call *s, nx_state_parts *p, uint8_t *table)
{
    nx_coll_call call = {.dtype = NEXAR_U8, .recv = table};

    if (p->inc->rank == 0) {
        memcpy(table, s->table, s->table_bytes);
    }
    call.coll = (nx_coll){.kind = NX_BROADCAST, .count = s->hellos[0].bytes};
    return nx_state_parts_run(p, &call);
}

static nexar_err fail_differs(const difference *all, const uint8_t *table, size_t bytes,
                              uint32_t ranks)
{
    char text[NX_STATE_TEXT];
    uint32_t rank = 1;

    while ((rank < ranks) && (all[rank].index == UINT64_MAX)) {
        rank++;
    }
    if (rank == ranks) {
        return nx_fail(NEXAR_EPROTO, "%s: the tables of tensors differ, and no rank says in what",
                       NAME);
    }
    nx_state_table_describe(table, bytes, all[rank].index, text);
    return nx_fail(NEXAR_EMISMATCH,
                   "%s: tensor %llu: rank 0 has %s, rank %u has %.*s; give all ranks the same "
                   "names, types and counts in the same order",
                   NAME, (unsigned long long)all[rank].index, text, rank,
                   (int)sizeof(all[rank].text) - 1, all[rank].text);
}

/* Describes what rank 0 has in |table| and this rank has not. */
static nexar_err find_difference(const sync_call *s, const uint8_t *table, difference *mine)
{
    nexar_err err =
        nx_state_table_compare(s->tensors, s->n, table, s->hellos[0].bytes, &mine->index);

    if (err == NEXAR_OK) {
        nx_state_describe(s->tensors, s->n, mine->index, mine->text);
    }
    return err;
}

static nexar_err explain(sync_call *s, nx_state_parts *p)
{
    const uint32_t ranks = p->inc->size;
    uint8_t *table = nx_zalloc(s->hellos[0].bytes);
    difference *all = nx_calloc(ranks, sizeof(*all)), mine = {0};
    nexar_err err;

    if ((table == NULL) || (all == NULL)) {
        err = lack(p, "a table of tensors");
    } else {
        err = get_table(s, p, table);
        if (err == NEXAR_OK) {
            err = find_difference(s, table, &mine);
            err = (err == NEXAR_OK) ? all_gather(p, &mine, all, DIFFERENCE_WORDS)
                                    : nx_state_parts_give_up(p, err);
        }
        if (err == NEXAR_OK) {
            err = fail_differs(all, table, s->hellos[0].bytes, ranks);
        }
    }
    nx_free(table);
    nx_free(all);
    return err;
}

/* ---- contents -------------------------------------------------------------------------------- */

/* The key to which all ranks have contributed. */
static void make_key(const sync_call *s, uint32_t ranks, nx_content_key *key)
{
    uint64_t seed[NX_CONTENT_SEED] = {0};

    for (uint32_t rank = 0; rank < ranks; rank++) {
        for (size_t i = 0; i < NX_CONTENT_SEED; i++) {
            seed[i] ^= s->hellos[rank].seed[i];
        }
    }
    nx_content_key_init(key, seed);
}

/* Exchanges the digests of all ranks' tensors, into |all|. */
static nexar_err gather_digests(const sync_call *s, nx_state_parts *p, nx_digest *all)
{
    nx_digest *mine = nx_calloc(s->n, sizeof(*mine));
    nx_content_key key;
    nexar_err err;

    if (mine == NULL) {
        return lack(p, "the digests of a state_sync");
    }
    make_key(s, p->inc->size, &key);
    err = nx_state_digests(s->mem, s->tensors, s->n, &key, s->threads, mine);
    if (err == NEXAR_OK) {
        err = all_gather(p, mine, all, s->n * sizeof(*mine) / sizeof(uint64_t));
    } else {
        err = nx_state_parts_give_up(p, err);
    }
    nx_free(mine);
    return err;
}

/* Computes s->plan from the announcements of all ranks.  NEXAR_ENOMEM */
static nexar_err vote(sync_call *s, const nx_incarnation *inc, const nx_digest *digests)
{
    uint64_t *revisions = nx_calloc(inc->size, sizeof(*revisions));
    size_t *bytes = nx_calloc(s->n, sizeof(*bytes));
    const nx_state_ballot ballot = {
        .ranks = inc->size,
        .tensors = s->n,
        .revisions = revisions,
        .digests = digests,
        .bytes = bytes,
        .segment = nx_config_number(inc->world->config, NX_SET_SEGMENT),
    };
    nexar_err err;

    if ((revisions == NULL) || (bytes == NULL)) {
        err = nx_fail_nomem("the plan of a state_sync");
    } else {
        for (uint32_t rank = 0; rank < inc->size; rank++) {
            revisions[rank] = s->hellos[rank].revision;
        }
        for (size_t i = 0; i < s->n; i++) {
            bytes[i] = nx_state_bytes(&s->tensors[i]);
        }
        err = nx_state_vote(&ballot, &s->plan);
    }
    nx_free(revisions);
    nx_free(bytes);
    return err;
}

static nexar_err compare(sync_call *s, nx_state_parts *p)
{
    nx_digest *all = nx_calloc((size_t)p->inc->size * s->n, sizeof(*all));
    nexar_err err;

    if (all == NULL) {
        return lack(p, "the digests of a state_sync");
    }
    err = gather_digests(s, p, all);
    if (err == NEXAR_OK) {
        err = vote(s, p->inc, all);
        err = (err == NEXAR_OK) ? err : nx_state_parts_give_up(p, err);
    }
    nx_free(all);
    return err;
}

/* ---- transfer of contents --------------------------------------------------------------- */

/* Saves the regions of s->undo that this rank receives: consecutive pieces belong to the same
 * tensors.  |regions| has room for all tensors that differ. */
static nexar_err keep_received(sync_call *s, uint32_t rank, nexar_iov *regions)
{
    const nx_state_plan *plan = &s->plan;
    size_t n = 0, off = 0, at = 0;

    for (size_t i = 0; i < plan->differed; i++) {
        const nexar_state *t = &s->tensors[plan->which[i]];

        while (plan->pieces[at].off + plan->pieces[at].len <= off) {
            at++;
        }
        if (nx_distribution_receives(&plan->pieces[at], rank)) {
            regions[n++] = (nexar_iov){.ptr = t->ptr, .bytes = nx_state_bytes(t)};
            s->report.received++;
        }
        off += nx_state_bytes(t);
    }
    return nx_state_undo_init(&s->undo, s->mem, regions, n, s->threads);
}

static nexar_err move(sync_call *s, nx_state_parts *p, const nexar_tensor *tensors)
{
    nx_coll_call call = {
        .dtype = NEXAR_U8, .tensors = tensors, .ntensors = s->plan.differed, .mem = s->mem};

    call.coll =
        (nx_coll){.kind = NX_BROADCAST, .in_place = true, .distribution = &s->plan.distribution};
    for (size_t i = 0; i < s->plan.differed; i++) {
        call.coll.count += tensors[i].count;
        call.detail = nx_mark_mix(call.detail, tensors[i].count);
    }
    return nx_state_parts_run(p, &call);
}

static void fill_report(sync_call *s, const nx_incarnation *inc)
{
    const size_t segment = nx_config_number(inc->world->config, NX_SET_SEGMENT);
    const nx_distribution_load load =
        nx_distribution_load_of(&s->plan.distribution, inc->rank, segment);

    s->report.differed = s->plan.differed;
    s->report.bytes_received = load.received;
    s->report.bytes_sent = load.sent;
    s->report.ranks_updated = (int)s->plan.updated;
}

/* The tensors that differ, as regions of bytes. */
static void list_differing(const sync_call *s, nexar_tensor *tensors)
{
    for (size_t i = 0; i < s->plan.differed; i++) {
        const nexar_state *t = &s->tensors[s->plan.which[i]];

        tensors[i] = (nexar_tensor){.ptr = t->ptr, .count = nx_state_bytes(t)};
    }
}

static nexar_err distribute(sync_call *s, nx_state_parts *p)
{
    nexar_iov *regions = nx_calloc(s->plan.differed, sizeof(*regions));
    nexar_tensor *tensors = nx_calloc(s->plan.differed, sizeof(*tensors));
    nexar_err err;

    if ((regions == NULL) || (tensors == NULL)) {
        err = lack(p, "the tensors of a state_sync");
    } else {
        err = keep_received(s, p->inc->rank, regions);
        if (err == NEXAR_OK) {
            list_differing(s, tensors);
            err = move(s, p, tensors);
        } else {
            err = nx_state_parts_give_up(p, err);
        }
    }
    fill_report(s, p->inc);
    nx_free(regions);
    nx_free(tensors);
    return err;
}

/* ---- one attempt ------------------------------------------------------------------------ */

/* Restores what the last attempt has changed; the memory is ready. NEXAR_EDEVICE, NEXAR_ENOMEM */
static nexar_err start_over(sync_call *s)
{
    nexar_err err = nx_state_undo_restore(&s->undo);

    nx_state_undo_fini(&s->undo);
    nx_state_plan_fini(&s->plan);
    nx_comm_memory_done(&s->mem);
    s->report = (nexar_sync_report){0};
    err = (err == NEXAR_OK) ? nx_comm_memory(s->comm, &s->mem) : err;
    return (err == NEXAR_OK) ? make_table(s) : err;
}

static nexar_err run_parts(sync_call *s, nx_state_parts *p)
{
    nexar_err err = say_hello(s, p);

    if ((err == NEXAR_OK) && !tables_agree(s, p->inc->size)) {
        return explain(s, p);
    }
    if (err == NEXAR_OK) {
        err = compare(s, p);
    }
    return ((err == NEXAR_OK) && (s->plan.differed > 0)) ? distribute(s, p) : err;
}

static nexar_err attempt(sync_call *s, nx_incarnation *inc)
{
    char why[NX_ERROR_ROOM];
    nx_state_parts parts;
    nexar_err err = nx_state_parts_begin(&parts, inc);

    s->met = false;
    if (err != NEXAR_OK) {
        return err;
    }
    err = start_over(s);
    err = (err == NEXAR_OK) ? run_parts(s, &parts) : nx_state_parts_give_up(&parts, err);
    (void)nx_sentence(why, sizeof(why), "%s", nexar_last_error());
    nx_state_parts_end(&parts);
    return nx_state_error(err, why);
}

/* ---- the common result ------------------------------------------------------------------ */

/* In the flags of the agreement: errors, as bits that are 0 (nx_commit_bits), below a mark that
 * distinguishes it from other agreements. */
#define FLAGS_MARK  UINT64_C(0x5354415400000000)
#define ERRORS_MASK UINT64_C(0xffffffff)

/* The common result: all ranks have contributed |flags|; this rank has ended with |err|, because of
 * |why|. */
static nexar_err verdict(const nx_incarnation *inc, uint64_t flags, nexar_err err, const char *why)
{
    const nexar_err agreed = nx_commit_error((uint32_t)~flags);
    char gone[NX_FAILURE_GONE];

    if ((flags & ~ERRORS_MASK) != FLAGS_MARK) { /* some rank was in another agreement */
        return (err != NEXAR_OK) ? nx_fail(err, "%s", why)
                                 : nx_fail(NEXAR_EPEER, "%s: another rank was not in it%s", NAME,
                                           nx_failure_gone(inc, gone));
    }
    if ((agreed == NEXAR_OK) || (agreed == err)) {
        return (agreed == NEXAR_OK) ? NEXAR_OK : nx_fail(err, "%s", why);
    }
    return nx_fail(agreed, "%s: on another rank: %s%s", NAME, nexar_strerror(agreed),
                   (agreed == NEXAR_EPEER) ? nx_failure_gone(inc, gone) : "");
}

/* Whether this rank, which has ended with |err|, takes part in the agreement. */
static bool agrees(const sync_call *s, nexar_err err)
{
    return s->met || ((err != NEXAR_EPEER) && (err != NEXAR_EREVOKED) && (err != NEXAR_EMISMATCH));
}

static nx_agreement_input input_of(nexar_err err)
{
    const uint64_t flags = FLAGS_MARK | (ERRORS_MASK & ~(uint64_t)nx_commit_bits(err));

    return (nx_agreement_input){.flags = flags, .highest = NX_AGREEMENT_ASIDE};
}

/* With recovery=manual: with the lock. */
static nexar_err agree(nx_incarnation *inc, nexar_err err, const char *why)
{
    const nx_agreement_input input = input_of(err);
    nx_outcome out = {0};
    nexar_err agreed;

    agreed = nx_agreement_agree(inc, NAME, &input, &out);
    if (agreed == NEXAR_ENOMEM) { /* the others wait for this rank: it frees memory, and retries */
        agreed = nx_agreement_agree(inc, NAME, &input, &out);
    }
    if (agreed == NEXAR_ENOMEM) {
        nx_failure_quit(inc->world, "this rank has no memory to agree in state_sync");
    }
    if (agreed != NEXAR_OK) {
        return agreed;
    }
    nx_failure_agreed(inc, &out.failed);
    nx_rankset_fini(&out.failed);
    return verdict(inc, out.flags, err, why);
}

/* Without retry=on: all ranks that are in the call end alike.  With the lock. */
static nexar_err conclude(const sync_call *s, nx_incarnation *inc, nexar_err err, const char *why)
{
    const bool automatic = nx_recovery_is_automatic(inc->world);

    if (agrees(s, err)) {
        return automatic ? nx_retry_conclude(inc, NAME, nx_state_error(err, why))
                         : agree(inc, err, why);
    }
    if (!automatic && ((err == NEXAR_EPEER) || (err == NEXAR_EREVOKED))) {
        const nx_agreement_input input = input_of(err);

        nx_agreement_oppose(inc, &input);
    }
    return nx_state_error(err, why);
}

static nexar_err run_for_retry(const nx_coll_args *a, void *arg, bool *begun)
{
    *begun = true;
    return attempt(arg, a->inc);
}

/* Without retry=on. */
static nexar_err run_once(sync_call *s)
{
    nx_loop *loop = s->comm->world->loop;
    char why[NX_ERROR_ROOM];
    nx_incarnation *inc;
    nexar_err err;

    nx_loop_lock(loop);
    inc = nx_incarnation_hold(s->comm->inc);
    nx_loop_unlock(loop);
    err = attempt(s, inc);
    (void)nx_sentence(why, sizeof(why), "%s", nexar_last_error());
    nx_loop_lock(loop);
    err = conclude(s, inc, err, why);
    err = nx_recovery_after(inc, err);
    (void)nx_sentence(why, sizeof(why), "%s", nexar_last_error());
    nx_loop_kick(loop);
    nx_incarnation_release(inc);
    nx_loop_unlock(loop);
    return nx_state_error(err, why);
}

static nexar_err run_until_done(sync_call *s)
{
    const nx_coll_args args = {.name = NAME,
                               .comm = s->comm,
                               .kind = NX_BARRIER,
                               .guise = NX_VARIANT_STATE_SYNC,
                               .host_memory = true};

    return nx_retry_run(&args, nx_retry_known(s->comm),
                        &(nx_retry_how){.once = run_for_retry, .arg = s});
}

/* ---- the call --------------------------------------------------------------------------- */

/* The number of cores that this rank may use for itself. */
static unsigned free_threads(const nx_world *world)
{
    const uint32_t ranks = (world->view == NULL) ? 1 : nx_links_neighbours(world);
    const unsigned cpus = nx_parallel_cpus();

    return (ranks < cpus) ? cpus / ((ranks == 0) ? 1 : ranks) : 1;
}

static nexar_err check(const nexar_comm *comm, const nexar_state *tensors, size_t n,
                       const uint64_t *revision)
{
    nexar_err err;

    if ((comm == NULL) || (revision == NULL)) {
        return nx_fail(NEXAR_EINVAL, "%s: %s is NULL", NAME, (comm == NULL) ? "comm" : "revision");
    }
    err = nx_fork_guard_check(NAME, comm->world);
    return (err == NEXAR_OK) ? nx_state_check(tensors, n) : err;
}

/* Restores the tensors. */
static nexar_err undo(sync_call *s, nexar_err err)
{
    char sentence[NX_ERROR_ROOM], why[NX_ERROR_ROOM];

    (void)nx_sentence(sentence, sizeof(sentence), "%s", nexar_last_error());
    if (nx_state_undo_restore(&s->undo) != NEXAR_OK) {
        (void)nx_sentence(why, sizeof(why), "%s", nexar_last_error());
        return nx_fail(err, "%s; what was received is not undone: %s", sentence, why);
    }
    return nx_fail(err, "%s", sentence);
}

static void sync_fini(sync_call *s)
{
    nx_state_undo_fini(&s->undo);
    nx_state_plan_fini(&s->plan);
    nx_comm_memory_done(&s->mem);
    nx_free(s->hellos);
    nx_free(s->table);
}

nexar_err nexar_state_sync(nexar_comm *comm, const nexar_state *tensors, size_t n,
                           uint64_t *revision, nexar_sync_report *report)
{
    NX_NOT_CANCELLED;
    sync_call s = {.comm = comm, .tensors = tensors, .n = n};
    nexar_err err;

    if (report != NULL) {
        *report = (nexar_sync_report){0};
    }
    err = check(comm, tensors, n, revision);
    if (err != NEXAR_OK) {
        return err;
    }
    s.revision = *revision;
    nx_loop_lock(comm->world->loop);
    s.threads = free_threads(comm->world);
    nx_loop_unlock(comm->world->loop);
    err = comm->retry.on ? run_until_done(&s) : run_once(&s);
    if (err != NEXAR_OK) {
        err = undo(&s, err);
    } else {
        *revision = s.plan.revision;
        s.report.updated = true;
        if (report != NULL) {
            *report = s.report;
        }
    }
    sync_fini(&s);
    return err;
}
