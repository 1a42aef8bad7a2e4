/* direct.c - making boards and handing them out. */
#include "core/coll/direct.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/sys.h"
#include "coll/direct/direct.h"
#include "core/arena.h"
#include "msg/control.h"
#include "transport/shm/segment.h"

/* ---- what was passed -------------------------------------------------------------------- */

void nx_direct_on_pass(void *ctx, uint64_t member, uint64_t name, int fd)
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

void nx_direct_close_passes(nx_passes *passes)
{
    for (size_t i = 0; (passes != NULL) && (i < NX_PASSED); i++) {
        if (passes->at[i].fd >= 0) {
            (void)nx_sys_close(passes->at[i].fd);
        }
    }
    nx_free(passes);
}

/* The board that the first rank of |comm| has passed; -1: none. */
static int claim(const nexar_comm *comm)
{
    nx_passes *passes = comm->world->passes;

    for (size_t i = 0; (passes != NULL) && (i < NX_PASSED); i++) {
        nx_passed *p = &passes->at[i];

        if ((p->fd >= 0) && (p->name == comm->id) && (p->from == nx_comm_peer(comm, 0))) {
            const int fd = p->fd;

            p->fd = -1;
            return fd;
        }
    }
    return -1;
}

/* ---- making and mapping ------------------------------------------------------------------ */

static void lend(void *ctx, nx_lent *own)
{
    const nexar_comm *comm = ctx;

    nx_arena_lend(comm->world->arena, own);
}

static void on_lent(void *ctx, uint32_t rank, const nx_lent *lent, nx_far *far)
{
    const nexar_comm *comm = ctx;

    nx_arenas_see(comm->world->arenas, nx_comm_peer(comm, rank), lent, far);
}

static nx_pidfd *process(void *ctx, uint32_t rank, int64_t pid)
{
    const nexar_comm *comm = ctx;
    const uint32_t peer = nx_comm_peer(comm, rank);
    nx_link *link = nx_msg_link(comm->world->msg, peer);

    return nx_arenas_process(comm->world->arenas, peer, pid,
                             ((link != NULL) && nx_shm_is(link)) ? nx_shm_process(link) : NULL);
}

/* Maps |fd| and makes |comm| use it; |fresh|: it is empty. */
static nexar_err use_board(nexar_comm *comm, int fd, bool fresh)
{
    const size_t bytes = nx_board_bytes(comm->size);
    nx_direct_config config = {
        .group = &comm->group,
        .spin_ns = comm->world->spin_ns,
        .check_ns = nx_config_number(comm->world->config, NX_SET_HEARTBEAT_INTERVAL),
        .process = process,
        .lend = lend,
        .on_lent = on_lent,
        .ctx = comm,
        .no_reading = nx_config_choice(comm->world->config, NX_SET_DIRECT) == NX_DIRECT_SHORT,
    };
    void *at = NULL;
    nexar_err err = NEXAR_OK;

    if (comm->world->arenas == NULL) {
        err = nx_arenas_create(&comm->world->arenas, comm->world->slots);
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
        nx_board_init(config.board, comm->size, config.spin_ns != 0);
    }
    err = nx_board_is(config.board, comm->size)
              ? nx_direct_create(&config)
              : nx_fail(NEXAR_EPROTO, "rank %u passed memory that is no board",
                        nx_comm_peer(comm, 0));
    if (err != NEXAR_OK) {
        (void)munmap(at, bytes);
    }
    return err;
}

static nexar_err make_board(nexar_comm *comm)
{
    nexar_err err = nx_memfd_create(nx_board_bytes(comm->size), &comm->board_fd);

    if (err != NEXAR_OK) {
        comm->board_fd = -1;
        return err;
    }
    comm->board_due =
        (comm->size == NX_BOARD_RANKS) ? ~UINT64_C(1) : (UINT64_C(1) << comm->size) - 2;
    return use_board(comm, comm->board_fd, true);
}

/* Hands the board to those who have not got it. */
static nexar_err pass_board(nexar_comm *comm)
{
    const uint8_t nothing = NX_CONTROL_BOARD;
    nx_msg *msg = comm->world->msg;

    for (uint32_t rank = 1; rank < comm->size; rank++) {
        const uint32_t peer = nx_comm_peer(comm, rank);
        nx_link *link;

        if ((comm->board_due >> rank & 1) == 0) {
            continue;
        }
        link = nx_msg_link(msg, peer);
        if (link == NULL) {
            (void)!nx_msg_send_control(msg, peer, &nothing, sizeof(nothing));
        } else if (!nx_shm_is(link)) {
            return nx_fail(NEXAR_ENOTSUP, "rank %u is not reached by shared memory", peer);
        } else if (!nx_shm_pairing(link) &&
                   (nx_shm_pass(link, comm->id, comm->board_fd) == NEXAR_OK)) {
            comm->board_due &= ~(UINT64_C(1) << rank);
        }
    }
    if (comm->board_due == 0) {
        (void)nx_sys_close(comm->board_fd);
        comm->board_fd = -1;
    }
    return NEXAR_OK;
}

/* One step towards a board. */
static void prepare(nexar_comm *comm)
{
    nexar_err err = NEXAR_OK;
    int fd;

    if (comm->group.direct == NULL) {
        if (comm->rank == 0) {
            err = make_board(comm);
        } else if ((fd = claim(comm)) >= 0) {
            err = use_board(comm, fd, false);
            (void)nx_sys_close(fd);
        }
    }
    if ((err == NEXAR_OK) && (comm->board_due != 0)) {
        err = pass_board(comm);
    }
    if (err != NEXAR_OK) { /* nobody uses it, since not all are ready */
        nx_log(NX_LOG_INFO, "collectives are not direct: %s", nexar_last_error());
        comm->board_off = true;
        comm->board_due = 0;
    }
}

/* ---- using ---------------------------------------------------------------------------------- */

static bool may_have_board(const nexar_comm *comm)
{
    return (comm->size > 1) && (comm->size <= NX_BOARD_RANKS) &&
           (nx_hosts_n(comm->hosts, comm->size) == 1) && (comm->world->shm != NULL) &&
           (nx_config_choice(comm->world->config, NX_SET_DIRECT) != NX_DIRECT_OFF);
}

bool nx_comm_direct(nexar_comm *comm, const nx_coll_call *call, uint32_t *number, nexar_err *err)
{
    nx_world *world = comm->world;
    nx_what what = {.comm = comm->id};
    nx_direct_now was;
    bool done;

    if (comm->board_off || (comm->group.broken != NEXAR_OK)) {
        return false;
    }
    if ((comm->group.direct == NULL) || (comm->board_due != 0)) {
        comm->board_off = !may_have_board(comm);
        if (!comm->board_off) {
            prepare(comm);
        }
    }
    if ((comm->group.direct == NULL) || !nx_direct_takes(comm->group.direct, call)) {
        return false;
    }
    nx_world_begin(world);
    nx_oplog_enter(&world->log);
    done = nx_direct_run(comm->group.direct, call, number, err, &was);
    nx_oplog_leave(&world->log);
    nx_world_end(world);
    if (done) {
        comm->group.parted = comm->group.parted || (*err == NEXAR_EPEER);
        what.number = was.number;
        what.mark = was.mark;
        nx_oplog_ended(&world->log, &what, was.begun_ns, nx_loop_now(world->loop), *err);
    }
    return done;
}

void nx_comm_direct_fini(nexar_comm *comm)
{
    const int fd = claim(comm);

    if (fd >= 0) {
        (void)nx_sys_close(fd);
    }
    if (comm->board_fd >= 0) {
        (void)nx_sys_close(comm->board_fd);
        comm->board_fd = -1;
    }
}
