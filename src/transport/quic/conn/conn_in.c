/* conn_in.c - streams that the peer has opened. */
#include "conn_impl.h"

static int fail(nx_conn *c, nexar_err err)
{
    nx_conn_fail(c, err, nexar_last_error());
    return NGTCP2_ERR_CALLBACK_FAILURE;
}

int nx_conn_on_stream_open(ngtcp2_conn *ng, int64_t stream, void *user)
{
    nx_conn *c = user;
    nx_inpart *part;

    if (nx_stream_is_lane(stream)) {
        return 0;
    }
    if (NX_NG_BIDI_PARTS && (nx_ng_reset_stream(ng, stream, NX_CLOSE_DONE) != 0)) {
        return fail(c, nx_fail_nomem("a part"));
    }
    part = nx_lane_parser_open(&c->inbox, stream);
    if (part == NULL) {
        return fail(c, nx_fail_nomem("a part"));
    }
    return ngtcp2_conn_set_stream_user_data(ng, stream, part);
}

/* NOLINTNEXTLINE(readability-function-size): ngtcp2 has made the list */
int nx_conn_on_stream_data(ngtcp2_conn *ng, uint32_t flags, int64_t stream, uint64_t offset,
                           const uint8_t *data, size_t len, void *user, void *stream_user)
{
    bool fin = (flags & NGTCP2_STREAM_DATA_FLAG_FIN) != 0;
    nx_conn *c = user;
    nexar_err err;

    if (!c->used) {
        c->used = true;
        c->up->on_used(c->ctx);
    }
    if (ngtcp2_conn_is_local_stream(ng, stream) != 0) {
        err = nx_fail(NEXAR_EPROTO, "an answer to a part");
    } else if (nx_stream_is_lane(stream)) {
        err = fin ? nx_fail(NEXAR_EPROTO, "a lane has ended")
                  : nx_lane_parser_lane(&c->inbox, (nx_lane)nx_stream_number(stream), data, len);
    } else {
        err = nx_lane_parser_part(
            &c->inbox, stream_user,
            (nx_inbytes){.data = data,
                         .len = len,
                         .fin = fin,
                         .in_place = nx_conn_straight(c, stream, offset, data)});
    }
    if (err != NEXAR_OK) {
        return fail(c, err);
    }
    /* No bytes are kept back here, so the window reopens immediately. */
    if (len > 0) {
        (void)ngtcp2_conn_extend_max_stream_offset(ng, stream, len);
        ngtcp2_conn_extend_max_offset(ng, len);
    }
    return 0;
}

/* Either the peer cancelled a part, and ngtcp2 opens the window for the bytes that did not arrive;
 * or the peer closed the unused direction of a part of this side. */
int nx_conn_on_stream_reset(ngtcp2_conn *ng, int64_t stream, uint64_t final_size, uint64_t code,
                            void *user, void *stream_user)
{
    nx_conn *c = user;

    (void)ng;
    (void)final_size;
    (void)code;
    (void)stream_user;
    if (nx_stream_is_lane(stream)) {
        return fail(c, nx_fail(NEXAR_EPROTO, "a lane was reset"));
    }
    return 0;
}

int nx_conn_on_stream_close(ngtcp2_conn *ng, uint32_t flags, int64_t stream, uint64_t code,
                            void *user, void *stream_user)
{
    nx_conn *c = user;

    (void)flags;
    (void)code;
    if (ngtcp2_conn_is_local_stream(ng, stream) != 0) {
        c->packets_lost += ngtcp2_conn_get_stream_loss_count(ng, stream);
        nx_conn_local_stream_closed(c, stream_user);
        return 0;
    }
    if (stream_user != NULL) {
        nx_lane_parser_close(&c->inbox, stream_user);
    }
    if (ngtcp2_is_bidi_stream(stream) != 0) {
        ngtcp2_conn_extend_max_streams_bidi(ng, 1);
    } else {
        ngtcp2_conn_extend_max_streams_uni(ng, 1);
    }
    return 0;
}
