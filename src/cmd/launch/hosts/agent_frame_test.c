/* agent_frame_test.c - frames survive any division into reads; random bytes are rejected safely. */
#include "agent_frame.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "unit.h"

/* Bytes written to a sink, as the peer reads them. */
typedef struct rig {
    int fds[2];
    nx_output_sink sink;
    nx_agent_input in;
} rig;

static void rig_init(rig *r)
{
    *r = (rig){0};
    assert_int_equal(pipe2(r->fds, O_NONBLOCK | O_CLOEXEC), 0);
    nx_output_sink_init(&r->sink, r->fds[1]);
}

static void rig_fini(rig *r)
{
    nx_output_sink_fini(&r->sink);
    nx_agent_input_fini(&r->in);
    (void)close(r->fds[0]);
    (void)close(r->fds[1]);
}

static void carry(rig *r)
{
    do {
        nx_output_sink_flush(&r->sink);
        (void)nx_agent_input_fill(&r->in, r->fds[0]);
    } while (nx_output_sink_waits(&r->sink));
}

/* The next frame; checks that it exists and has |kind|. */
static nx_agent_frame next(rig *r, nx_agent_kind kind)
{
    nx_agent_frame f = {0};

    carry(r);
    assert_int_equal(nx_agent_input_next(&r->in, &f), 1);
    assert_int_equal(f.kind, kind);
    return f;
}

static void frames_come_as_they_were_sent(void **state)
{
    static const uint8_t output[] = {'x', '\n', 0};
    uint8_t payload[NX_AGENT_OUTPUT_HEAD + sizeof(output)] = {0};
    const char *bytes = NULL;
    uint32_t a = 0, b = 0;
    uint8_t stream = 0;
    size_t len = 0;
    nx_agent_frame f;
    char text[16];
    rig r;

    (void)state;
    rig_init(&r);
    nx_agent_put_numbers(&r.sink, NX_AGENT_SIGNAL, 15, 7);
    f = next(&r, NX_AGENT_SIGNAL);
    assert_true(nx_agent_numbers(&f, &a, &b));
    assert_int_equal(a, 15);
    assert_int_equal(b, 7);
    memcpy(payload + NX_AGENT_OUTPUT_HEAD, output, sizeof(output));
    nx_agent_put_output(&r.sink, 7, 2, payload, 3);
    f = next(&r, NX_AGENT_OUTPUT);
    assert_true(nx_agent_output(&f, &a, &stream, &bytes, &len));
    assert_int_equal(a, 7);
    assert_int_equal(stream, 2);
    assert_int_equal(len, 3);
    assert_memory_equal(bytes, output, sizeof(output));
    nx_agent_put(&r.sink, NX_AGENT_REFUSED, "no\033 such file or", strlen("no\033 such file or"));
    f = next(&r, NX_AGENT_REFUSED);
    assert_true(nx_agent_sentence(&f, text, sizeof(text)));
    assert_string_equal(text, "no? such file o");
    nx_agent_put(&r.sink, NX_AGENT_PING, NULL, 0);
    f = next(&r, NX_AGENT_PING);
    assert_int_equal(f.len, 0);
    assert_int_equal(nx_agent_input_next(&r.in, &f), 0);
    rig_fini(&r);
}

static void setup_and_start_are_whole(void **state)
{
    const char *argv[] = {"./prog", "", "a b\n", NULL}, *env[] = {"NEXAR_LOG=debug", NULL};
    const nx_agent_setup sent = {
        .timeout_ms = 9, .directory = "/tmp/x y", .argv = argv, .env = env};
    const nx_agent_start started = {
        .join = "nexar://x", .size = 9, .first = 4, .ranks = 5, .output = 2, .rows = 7};
    nx_agent_setup setup = {0};
    nx_agent_start start = {0};
    nx_agent_frame f;
    rig r;

    (void)state;
    rig_init(&r);
    nx_agent_put_setup(&r.sink, &sent);
    f = next(&r, NX_AGENT_SETUP);
    assert_int_equal(nx_agent_read_setup(&f, &setup), NEXAR_OK);
    assert_int_equal(setup.timeout_ms, 9);
    assert_string_equal(setup.directory, "/tmp/x y");
    for (int i = 0; i < 3; i++) {
        assert_string_equal(setup.argv[i], argv[i]);
    }
    assert_null(setup.argv[3]);
    assert_string_equal(setup.env[0], env[0]);
    assert_null(setup.env[1]);
    nx_free(setup.argv);
    nx_free(setup.env);
    nx_agent_put_start(&r.sink, &started);
    f = next(&r, NX_AGENT_START);
    assert_true(nx_agent_read_start(&f, &start));
    assert_string_equal(start.join, "nexar://x");
    assert_int_equal(start.first, 4);
    assert_int_equal(start.rows, 7);
    rig_fini(&r);
}

static void ranks_outside_the_world_are_refused(void **state)
{
    const nx_agent_start bad[] = {
        {.join = "x", .size = 0, .first = 0, .ranks = 1},
        {.join = "x", .size = 4, .first = 4, .ranks = 1},
        {.join = "x", .size = 4, .first = 2, .ranks = 3},
        {.join = "x", .size = 4, .first = 2, .ranks = UINT32_MAX},
        {.join = "x", .size = 4, .first = 0, .ranks = 0},
    };
    nx_agent_start start;
    rig r;

    (void)state;
    rig_init(&r);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        nx_agent_frame f;

        nx_agent_put_start(&r.sink, &bad[i]);
        f = next(&r, NX_AGENT_START);
        assert_false(nx_agent_read_start(&f, &start));
    }
    rig_fini(&r);
}

/* Output of a login shell, the greeting and a frame arrive byte by byte. */
static void any_division_into_reads_will_do(void **state)
{
    static const char bytes[] = "Welcome!\n" NX_AGENT_GREETING "1.2.3\n\x45\0\0\0\0\n";
    char line[16] = "";
    nx_agent_frame f = {0};
    int lines = 0, frames = 0;
    rig r;

    (void)state;
    rig_init(&r);
    for (size_t i = 0; i < sizeof(bytes) - 1; i++) {
        assert_int_equal(write(r.fds[1], bytes + i, 1), 1);
        assert_int_equal(nx_agent_input_fill(&r.in, r.fds[0]), 1);
        if (lines < 2) {
            lines += nx_agent_input_line(&r.in, line, sizeof(line)) ? 1 : 0;
        } else {
            frames += nx_agent_input_next(&r.in, &f);
        }
    }
    assert_string_equal(line, "nexar-agent 1.2"); /* cut to fit */
    assert_int_equal(frames, 1);
    assert_int_equal(f.kind, 0x45);
    assert_int_equal(nx_agent_input_fill(&r.in, r.fds[0]), 0);
    rig_fini(&r);
}

/* Each reader returns for any payload. */
static void read_all(const nx_agent_frame *f)
{
    nx_agent_setup setup = {0};
    nx_agent_start start = {0};
    const char *bytes = NULL;
    uint32_t a, b;
    uint8_t stream;
    size_t len;
    char text[64];

    (void)nx_agent_numbers(f, &a, &b);
    (void)nx_agent_output(f, &a, &stream, &bytes, &len);
    (void)nx_agent_sentence(f, text, sizeof(text));
    if (nx_agent_read_start(f, &start)) {
        assert_non_null(start.join);
    }
    if (nx_agent_read_setup(f, &setup) == NEXAR_OK) {
        assert_non_null(setup.argv[0]);
        nx_free(setup.argv);
        nx_free(setup.env);
    }
}

/* A SETUP with some bytes changed, and a length that is too large. */
static void random_bytes_do_no_harm(void **state)
{
    const char *argv[] = {"./prog", "one", "two", NULL}, *env[] = {"A=B", "C=D", NULL};
    const nx_agent_setup sent = {.directory = "/tmp", .argv = argv, .env = env};
    unsigned seed = 4711;

    (void)state;
    for (int round = 0; round < 3000; round++) {
        nx_agent_frame f = {0};
        rig r;
        int got;

        rig_init(&r);
        nx_agent_put_setup(&r.sink, &sent);
        carry(&r);
        for (int i = rand_r(&seed) % 6; i > 0; i--) {
            r.in.data[(unsigned)rand_r(&seed) % r.in.len] = (uint8_t)rand_r(&seed);
        }
        while ((got = nx_agent_input_next(&r.in, &f)) == 1) {
            read_all(&f);
        }
        assert_true((got == 0) || (got == -1));
        rig_fini(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_as_they_were_sent),
        cmocka_unit_test(setup_and_start_are_whole),
        cmocka_unit_test(ranks_outside_the_world_are_refused),
        cmocka_unit_test(any_division_into_reads_will_do),
        cmocka_unit_test(random_bytes_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
