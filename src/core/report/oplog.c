/* oplog.c - the ring of completed operations, and the threads that wait. */
#include "core/report/oplog.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/comm/comm.h"

_Static_assert((NX_OPLOG_ENTRIES & (NX_OPLOG_ENTRIES - 1)) == 0, "a power of two");

static void collective_text(const nx_what *w, char *buf)
{
    char call[NX_CALL_TEXT];
    size_t len;

    (void)nx_mark_text(&w->mark, call);
    len = strlen(call);
    if ((len > 2) && (strcmp(call + len - 2, "()") == 0)) {
        call[len - 2] = '\0'; /* "#6 barrier" reads better */
    }
    (void)snprintf(buf, NX_WHAT_TEXT, "#%" PRIu32 " %s", w->number, call);
}

static void message_text(const nx_what *w, char *buf)
{
    char peer[24] = "any rank", tag[32] = "any tag";

    if (w->peer != NX_ANY_PEER) {
        (void)snprintf(peer, sizeof(peer), "rank %" PRIu32, w->peer);
    }
    if (w->kind == NX_WHAT_RPC) {
        (void)snprintf(tag, sizeof(tag), "function %" PRIu64, w->tag);
    } else if (w->tag != NX_ANY_TAG) {
        (void)snprintf(tag, sizeof(tag), "tag %" PRIu64, w->tag);
    }
    (void)snprintf(buf, NX_WHAT_TEXT, "%s(%s %s, %s)", w->name,
                   (w->kind == NX_WHAT_RECV) ? "from" : "to", peer, tag);
}

const char *nx_what_text(const nx_what *w, char *buf)
{
    size_t len;

    if (w->kind == NX_WHAT_COLL) {
        collective_text(w, buf);
    } else if (w->kind == NX_WHAT_OTHER) {
        (void)snprintf(buf, NX_WHAT_TEXT, "%s", w->name);
    } else {
        message_text(w, buf);
    }
    if (w->comm != 0) {
        len = strlen(buf);
        (void)snprintf(buf + len, NX_WHAT_TEXT - len, " of communicator %" PRIu32 ".%" PRIu32,
                       nx_comm_id_first(w->comm), nx_comm_id_number(w->comm));
    }
    return buf;
}

void nx_oplog_init(nx_oplog *log)
{
    nx_list_init(&log->blocked);
}

static _Thread_local bool serves;

void nx_oplog_serve(void)
{
    serves = true;
}

void nx_oplog_enter(nx_oplog *log)
{
    log->waiting += serves ? 0 : 1;
}

void nx_oplog_leave(nx_oplog *log)
{
    log->waiting -= serves ? 0 : 1;
}

void nx_oplog_ended(nx_oplog *log, const nx_what *what, uint64_t begun_ns, uint64_t now_ns,
                    nexar_err err)
{
    nx_op_entry *e = &log->ring[log->ended++ & (NX_OPLOG_ENTRIES - 1)];

    e->what = *what;
    e->begun_ns = begun_ns;
    e->ended_ns = now_ns;
    e->err = err;
}

void nx_oplog_block(nx_oplog *log, nx_blocked *b, uint64_t now_ns)
{
    b->begun_ns = now_ns;
    nx_list_push_back(&log->blocked, &b->link);
    nx_oplog_enter(log);
}

void nx_oplog_unblock(nx_oplog *log, nx_blocked *b, uint64_t now_ns, nexar_err err)
{
    nx_list_remove(&b->link);
    nx_oplog_leave(log);
    if (now_ns - b->begun_ns >= NX_OPLOG_WORTH_NS) {
        nx_oplog_ended(log, &b->what, b->begun_ns, now_ns, err);
    }
}

const nx_op_entry *nx_oplog_at(const nx_oplog *log, size_t back)
{
    if ((back >= log->ended) || (back >= NX_OPLOG_ENTRIES)) {
        return NULL;
    }
    return &log->ring[(log->ended - 1 - back) & (NX_OPLOG_ENTRIES - 1)];
}

const nx_op_entry *nx_oplog_last(const nx_oplog *log, uint32_t comm)
{
    const nx_op_entry *e;

    for (size_t back = 0; (e = nx_oplog_at(log, back)) != NULL; back++) {
        if ((e->what.kind == NX_WHAT_COLL) && (e->what.comm == comm)) {
            return e;
        }
    }
    return nx_oplog_at(log, 0);
}
