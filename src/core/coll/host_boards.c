/* host_boards.c - creates boards and passes them to the other ranks. */
#include "host_boards.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/os/sys.h"
#include "coll/host/host_coll.h"
#include "core/comm/arena.h"
#include "msg/control.h"
#include "transport/shm/segment.h"

/* ---- passed descriptors ----------------------------------------------------------------- */

void nx_host_coll_on_pass(void *ctx, uint64_t member, uint64_t name, int fd)
{
    nx_world *world = ctx;
    const nx_member *m = nx_view_member(world->view, member);
    nx_passed *p;

    if (world->passes == NULL) {
        world->passes = nx_zalloc(sizeof(*world->passes));
        for (size_t i = 0; (world->passes != NULL) && (i < NX_PASSED); i++) {
            world->passes->at[i].fd = -1;
        }
    }
    if ((world->passes == NULL) || (m == NULL)) {
        (void)nx_sys_close(fd);
        return;
    }
    p = &world->passes->at[world->passes->next++ % NX_PASSED];
    if (p->fd >= 0) {
        (void)nx_sys_close(p->fd);
    }
    *p = (nx_passed){.name = name, .from = m->slot, .fd = fd};
}

void nx_host_coll_close_passes(nx_passes *passes)
{
    for (size_t i = 0; (passes != NULL) && (i < NX_PASSED); i++) {
        if (passes->at[i].fd >= 0) {
            (void)nx_sys_close(passes->at[i].fd);
        }
    }
    nx_free(passes);
}

/* The board that the first rank of |inc| has passed; -1: none. */
static int claim(const nx_incarnation *inc)
{
    nx_passes *passes = inc->world->passes;

    for (size_t i = 0; (passes != NULL) && (i < NX_PASSED); i++) {
        nx_passed *p = &passes->at[i];

        if ((p->fd >= 0) && (p->name == inc->id) && (p->from == nx_incarnation_peer(inc, 0))) {
            const int fd = p->fd;

            p->fd = -1;
            return fd;
        }
    }
    return -1;
}

/* ---- creating and mapping ---------------------------------------------------------------- */

static void lend(void *ctx, nx_lent *own)
{
    const nx_incarnation *inc = ctx;

    nx_arena_lend(inc->world->arena, own);
}

static void on_lent(void *ctx, uint32_t rank, const nx_lent *lent, nx_remote_memory *far)
{
    const nx_incarnation *inc = ctx;

    nx_arenas_see(inc->world->arenas, nx_incarnation_peer(inc, rank), lent, far);
}

static nx_pidfd *process(void *ctx, uint32_t rank, int64_t pid)
{
    const nx_incarnation *inc = ctx;
    const uint32_t peer = nx_incarnation_peer(inc, rank);
    nx_link *link = nx_msg_link(inc->world->msg, peer);

    return nx_arenas_process(inc->world->arenas, peer, pid,
                             ((link != NULL) && nx_shm_is(link)) ? nx_shm_process(link) : NULL);
}

/* Maps |fd| and makes |inc| use it; |fresh|: the board is new and empty. */
static nexar_err use_board(nx_incarnation *inc, int fd, bool fresh)
{
    const size_t bytes = nx_board_bytes(inc->size);
    nx_host_coll_config config = {
        .group = &inc->group,
        .waits = inc->world->waits,
        .check_ns = nx_config_number(inc->world->config, NX_SET_HEARTBEAT_INTERVAL),
        .process = process,
        .lend = lend,
        .on_lent = on_lent,
        .ctx = inc,
        .no_reading = nx_config_choice(inc->world->config, NX_SET_DIRECT) == NX_HOST_COLL_SHORT,
    };
    void *at = NULL;
    nexar_err err = NEXAR_OK;

    if (inc->world->arenas == NULL) {
        err = nx_arenas_create(&inc->world->arenas, inc->world->slots);
    }
    if (err == NEXAR_OK) {
        err = nx_memfd_map(fd, bytes, &at);
    }
    if ((err != NEXAR_OK) || (at == NULL)) {
        return err;
    }
    config.board = at;
    nx_random_fill(&nx_random_system, &config.token, sizeof(config.token));
    if (fresh) {
        nx_board_init(config.board, inc->size, nx_wait_is_cheap(&config.waits));
    }
    err = nx_board_is(config.board, inc->size)
              ? nx_host_coll_create(&config)
              : nx_fail(NEXAR_EPROTO, "rank %u passed memory that is no board",
                        nx_incarnation_peer(inc, 0));
    if (err != NEXAR_OK) {
        (void)munmap(at, bytes);
    }
    return err;
}

static nexar_err make_board(nx_incarnation *inc)
{
    nexar_err err = nx_memfd_create(nx_board_bytes(inc->size), &inc->board.fd);

    if (err != NEXAR_OK) {
        inc->board.fd = -1;
        return err;
    }
    inc->board.due = (inc->size == NX_BOARD_RANKS) ? ~UINT64_C(1) : (UINT64_C(1) << inc->size) - 2;
    return use_board(inc, inc->board.fd, true);
}

/* Passes the board to the ranks that do not have it. */
static nexar_err pass_board(nx_incarnation *inc)
{
    const uint8_t nothing = NX_CONTROL_BOARD;
    nx_msg *msg = inc->world->msg;

    for (uint32_t rank = 1; rank < inc->size; rank++) {
        const uint32_t peer = nx_incarnation_peer(inc, rank);
        nx_link *link;

        if ((inc->board.due >> rank & 1) == 0) {
            continue;
        }
        link = nx_msg_link(msg, peer);
        if (link == NULL) {
            (void)!nx_msg_send_control(msg, peer, &nothing, sizeof(nothing));
        } else if (!nx_shm_is(link)) {
            return nx_fail(NEXAR_ENOTSUP, "rank %u is not reached by shared memory", peer);
        } else if (!nx_shm_pairing(link) &&
                   (nx_shm_pass(link, inc->id, inc->board.fd) == NEXAR_OK)) {
            inc->board.due &= ~(UINT64_C(1) << rank);
        }
    }
    if (inc->board.due == 0) {
        (void)nx_sys_close(inc->board.fd);
        inc->board.fd = -1;
    }
    return NEXAR_OK;
}

/* One step towards a common board. */
static void prepare(nx_incarnation *inc)
{
    nexar_err err = NEXAR_OK;
    int fd;

    if (inc->group.direct == NULL) {
        if (inc->rank == 0) {
            err = make_board(inc);
        } else if ((fd = claim(inc)) >= 0) {
            err = use_board(inc, fd, false);
            (void)nx_sys_close(fd);
        }
    }
    if ((err == NEXAR_OK) && (inc->board.due != 0)) {
        err = pass_board(inc);
    }
    if (err != NEXAR_OK) { /* unused, since not all ranks are ready */
        nx_log(NX_LOG_INFO, "collectives are not direct: %s", nexar_last_error());
        inc->board.off = true;
        inc->board.due = 0;
    }
}

/* ---- use ------------------------------------------------------------------------------------ */

static bool may_have_board(const nx_incarnation *inc)
{
    return (inc->size > 1) && (inc->size <= NX_BOARD_RANKS) &&
           (nx_hosts_n(inc->hosts, inc->size) == 1) && (inc->world->shm != NULL) &&
           (nx_config_choice(inc->world->config, NX_SET_DIRECT) != NX_HOST_COLL_OFF);
}

bool nx_incarnation_direct(nx_incarnation *inc, const nx_coll_call *call, uint32_t *number,
                           nexar_err *err)
{
    nx_world *world = inc->world;
    nx_what what = {.comm = inc->id};
    nx_host_coll_now was;
    bool done;

    if (inc->board.off || (inc->group.broken != NEXAR_OK)) {
        return false;
    }
    if ((inc->group.direct == NULL) || (inc->board.due != 0)) {
        inc->board.off = !may_have_board(inc);
        if (!inc->board.off) {
            prepare(inc);
        }
    }
    if ((inc->group.direct == NULL) || !nx_host_coll_takes(inc->group.direct, call)) {
        return false;
    }
    nx_world_begin(world);
    nx_oplog_enter(&world->log);
    done = nx_host_coll_run(inc->group.direct, call, number, err, &was);
    nx_oplog_leave(&world->log);
    nx_world_end(world);
    if (done) {
        inc->group.diverged = inc->group.diverged || (*err == NEXAR_EPEER);
        what.number = was.number;
        what.mark = was.mark;
        nx_oplog_ended(&world->log, &what, was.begun_ns, nx_loop_now(world->loop), *err);
    }
    return done;
}

void nx_incarnation_direct_fini(nx_incarnation *inc)
{
    const int fd = claim(inc);

    if (fd >= 0) {
        (void)nx_sys_close(fd);
    }
    if (inc->board.fd >= 0) {
        (void)nx_sys_close(inc->board.fd);
        inc->board.fd = -1;
    }
}
