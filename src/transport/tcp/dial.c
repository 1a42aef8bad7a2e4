/*
 * dial.c - connects to a member by any of its addresses.
 *
 * The link tries all addresses, one every STAGGER_NS or as soon as the previous one has failed; it
 * uses the first connection that comes up (simultaneous_open.c). One unreachable address costs
 * STAGGER_NS, not a time-out.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os/sys.h"
#include "base/text/sentence.h"
#include "tcp_inner.h"
#include "transport/quic/udp/address.h"

static const uint64_t STAGGER_NS = UINT64_C(50000000);

/* Keeps the result of each address; a refusal outranks silence. */
static void note(nx_tcp_link *link, nexar_err err, const char *why)
{
    const size_t len = strlen(link->why);

    if ((link->err == NEXAR_OK) ||
        ((link->err == NEXAR_ECONNECT) && (err != NEXAR_ECONNECT) && (err != NEXAR_ENOMEM))) {
        link->err = err;
    }
    if (sizeof(link->why) - len >= 8) { /* otherwise the text was truncated already */
        (void)nx_sentence(link->why + len, sizeof(link->why) - len, "%s%s", (len > 0) ? "; " : "",
                          why);
    }
}

static void note_errno(nx_tcp_link *link, const struct sockaddr_storage *address, int code)
{
    char text[NX_ADDRESS_TEXT], why[NX_TCP_WHY];

    (void)nx_sentence(why, sizeof(why), "%s: %s", nx_address_text(address, text),
                      strerrordesc_np(code));
    link->base.ended = (code == ECONNREFUSED) ? NX_END_GONE : link->base.ended;
    note(link, NEXAR_ECONNECT, why);
}

/* Starts an attempt to the next address; returns whether it succeeded. */
static bool attempt(nx_tcp_link *link)
{
    nx_tcp *t = link->t;
    const struct sockaddr_storage *address = &link->addresses[link->next++];
    const int fd = nx_sys_socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    nx_tcp_conn *c;
    nexar_err err;

    if (fd < 0) {
        note_errno(link, address, errno);
        return false;
    }
    if ((nx_sys_connect(fd, address, nx_address_len(address)) != 0) && (errno != EINPROGRESS)) {
        note_errno(link, address, errno);
        (void)nx_sys_close(fd);
        return false;
    }
    err = nx_tcp_conn_create(&c, t, fd, address, &link->target);
    if (err != NEXAR_OK) {
        (void)nx_sys_close(fd);
        note(link, err, nexar_last_error());
        return false;
    }
    c->link = link;
    nx_list_push_back(&link->conns, &c->in_link);
    return true;
}

static void set_timer(nx_tcp_link *link, uint64_t after_ns)
{
    nx_loop *loop = link->t->config.loop;
    uint64_t at = nx_loop_now(loop) + after_ns;

    if (link->closing && (at > link->give_up_ns)) {
        at = link->give_up_ns;
    }
    /* Without memory for the timer, the other addresses wait for the first to fail. */
    (void)!nx_loop_timer_set(loop, &link->timer, at);
}

void nx_tcp_dial_next(nx_tcp_link *link)
{
    const uint64_t patience = 2 * link->t->config.handshake_timeout_ns;

    while (link->next < link->n) {
        if (attempt(link)) {
            set_timer(link, (link->next < link->n) ? STAGGER_NS : patience);
            return;
        }
    }
    if (nx_list_empty(&link->conns)) {
        nx_tcp_link_down(link, (link->err == NEXAR_OK) ? NEXAR_ECONNECT : link->err,
                         (link->why[0] != '\0') ? NULL : "the peer has chosen none of them");
    } else {
        set_timer(link, patience);
    }
}

void nx_tcp_dial_failed(nx_tcp_link *link, bool tell, nexar_err err, const char *why)
{
    if (link->state != NX_TCP_LINK_SETTLING) {
        return;
    }
    if (tell) {
        note(link, err, why);
    }
    if (tell || nx_list_empty(&link->conns)) {
        nx_tcp_dial_next(link);
    }
}

/* Adopts connections that the member opened before this side wanted a link. */
static void adopt(nx_tcp_link *link)
{
    nx_list_for_each (at, &link->t->conns) {
        nx_tcp_conn *c = nx_list_entry(at, nx_tcp_conn, in_all);

        if ((c->state == NX_TCP_UP) && (c->link == NULL) && !c->dialled &&
            (nx_tcp_conn_member(c) == link->target.member)) {
            c->link = link;
            nx_list_push_back(&link->conns, &c->in_link);
        }
    }
}

bool nx_tcp_has(const nx_tcp *t, uint64_t member)
{
    return nx_map_get(&t->by_member, member) != NULL;
}

bool nx_tcp_lives(const nx_tcp *t, uint64_t member)
{
    const nx_tcp_link *link = nx_map_get(&t->by_member, member);

    return (link != NULL) && !link->closing;
}

static nexar_err check(nx_tcp *t, const nx_tcp_target *target)
{
    nx_tcp_link *link;

    if (target->n == 0) {
        return nx_fail(NEXAR_EINVAL, "no address to dial");
    }
    if (target->member == 0) {
        return NEXAR_OK;
    }
    if (nx_tls_member(t->tls) == 0) {
        return nx_fail(NEXAR_EINVAL, "only a member can dial member %" PRIu64, target->member);
    }
    link = nx_map_get(&t->by_member, target->member);
    if ((link != NULL) && link->closing) {
        nx_tcp_link_leave_map(link); /* the dial does not wait for the old link */
        link = NULL;
    }
    if ((nx_tls_member(t->tls) == target->member) || (link != NULL)) {
        return nx_fail(NEXAR_EINVAL, "there is a link to member %" PRIu64 " already",
                       target->member);
    }
    return NEXAR_OK;
}

nexar_err nx_tcp_dial(nx_tcp *t, const nx_tcp_target *target, const nx_link_up *up, void *up_ctx,
                      nx_link **out)
{
    const nx_tls_target wanted = {.member = target->member, .pin = target->pin};
    nx_tcp_link *link = NULL;
    nexar_err err = check(t, target);

    if (err == NEXAR_OK) {
        err = nx_tcp_link_create(&link, t, &wanted);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    link->addresses = nx_calloc(target->n, sizeof(*link->addresses));
    if (link->addresses == NULL) {
        nx_tcp_link_end(link);
        return nx_fail_nomem("addresses");
    }
    memcpy(link->addresses, target->addresses, target->n * sizeof(*link->addresses));
    link->n = target->n;
    link->base.up = up;
    link->base.up_ctx = up_ctx;
    if (target->member != 0) {
        adopt(link);
    }
    nx_tcp_dial_next(link);
    *out = &link->base;
    return NEXAR_OK;
}
