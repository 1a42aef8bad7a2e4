/* seed_file_test.c - a seed's state is restored unchanged, or rejected with a message. */
#include "cluster/seed/seed_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cluster/addresses.h"
#include "oom.h"
#include "unit.h"

static const nx_job_id JOB = {{4, 5, 6}};

static nx_seed_file make(uint32_t size)
{
    nx_seed_file f = {.port = 4433, .world_size = 3, .memory = {.member_limit = 1000, .epoch = 7}};
    nx_view *view = (size == 0) ? NULL : nx_view_create(size);

    assert_int_equal(nx_authority_create(&f.authority, &JOB), NEXAR_OK);
    memset(f.token.bytes, 0xa5, sizeof(f.token.bytes));
    for (uint32_t i = 0; i < size; i++) {
        nx_member *m = &view->members[i];

        m->id = i + 5;
        m->rank = m->slot = i;
        m->naddresses = 1;
        assert_int_equal(nx_address_parse("10.0.0.1:5", 0, &m->addresses[0]), NEXAR_OK);
    }
    if (view != NULL) {
        view->job = JOB;
        view->epoch = 7;
        view->slots = size;
    }
    f.memory.view = view;
    return f;
}

static void assert_same(const nx_seed_file *a, const nx_seed_file *b)
{
    nx_pin x, y;

    nx_authority_pin(a->authority, &x);
    nx_authority_pin(b->authority, &y);
    assert_memory_equal(&x, &y, sizeof(x));
    assert_memory_equal(&a->token, &b->token, sizeof(a->token));
    assert_int_equal(a->port, b->port);
    assert_int_equal(a->world_size, b->world_size);
    assert_int_equal(a->memory.member_limit, b->memory.member_limit);
    assert_int_equal(a->memory.epoch, b->memory.epoch);
    assert_true((a->memory.view == NULL) == (b->memory.view == NULL));
    if (a->memory.view != NULL) {
        assert_int_equal(a->memory.view->size, b->memory.view->size);
        assert_memory_equal(a->memory.view->members, b->memory.view->members,
                            a->memory.view->size * sizeof(a->memory.view->members[0]));
    }
}

typedef struct scratch {
    char folder[32], path[64];
} scratch;

static scratch scratch_make(void)
{
    scratch s = {.folder = "/tmp/nexar-seed-XXXXXX"};

    assert_non_null(mkdtemp(s.folder));
    (void)snprintf(s.path, sizeof(s.path), "%s/state", s.folder);
    return s;
}

static void scratch_remove(const scratch *s)
{
    (void)unlink(s->path);
    assert_int_equal(rmdir(s->folder), 0); /* so no incomplete file is left either */
}

static void test_what_was_written_is_read(void **state)
{
    static const uint32_t sizes[] = {0, 1, 3, 500};
    const scratch s = scratch_make();
    nx_seed_file back = {0};
    bool there = true;
    struct stat st;

    (void)state;
    assert_int_equal(nx_seed_file_read(s.path, &back, &there), NEXAR_OK);
    assert_false(there);
    (void)umask(0);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        nx_seed_file f = make(sizes[i]);

        assert_int_equal(nx_seed_file_write(s.path, &f), NEXAR_OK);
        assert_int_equal(stat(s.path, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        assert_int_equal(nx_seed_file_read(s.path, &back, &there), NEXAR_OK);
        assert_true(there);
        assert_same(&f, &back);
        nx_seed_file_fini(&f);
        nx_seed_file_fini(&back);
    }
    scratch_remove(&s);
}

static void assert_refused(const char *path, nexar_err err, const char *words)
{
    nx_seed_file f = {0};
    bool there = true;

    assert_int_equal(nx_seed_file_read(path, &f, &there), err);
    assert_false(there);
    assert_null(f.authority);
    if ((strstr(nexar_last_error(), words) == NULL) || (strstr(nexar_last_error(), path) == NULL)) {
        fail_msg("\"%s\" lacks \"%s\" or the path", nexar_last_error(), words);
    }
}

static void test_a_file_of_others_is_refused(void **state)
{
    static const mode_t modes[] = {0640, 0604, 0620, 0602, 0610, 0601};
    const scratch s = scratch_make();
    nx_seed_file f = make(2);

    (void)state;
    assert_int_equal(nx_seed_file_write(s.path, &f), NEXAR_OK);
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        assert_int_equal(chmod(s.path, modes[i]), 0);
        assert_refused(s.path, NEXAR_EAUTH, "chmod 600");
    }
    if (geteuid() == 0) {
        assert_int_equal(chmod(s.path, 0600), 0);
        assert_int_equal(chown(s.path, 12345, 12345), 0);
        assert_refused(s.path, NEXAR_EAUTH, "belongs to another user");
    }
    nx_seed_file_fini(&f);
    scratch_remove(&s);
}

static void test_what_is_no_file_or_not_ours_is_refused(void **state)
{
    const scratch s = scratch_make();
    nx_seed_file f = make(0);
    int fd;

    (void)state;
    assert_int_equal(mkdir(s.path, 0700), 0);
    assert_refused(s.path, NEXAR_EINVAL, "is a directory");
    assert_int_equal(rmdir(s.path), 0);
    assert_int_equal(mkfifo(s.path, 0600), 0); /* it is not waited for */
    assert_refused(s.path, NEXAR_EINVAL, "is a FIFO");
    assert_int_equal(unlink(s.path), 0);
    fd = open(s.path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "#!/bin/sh\nexit 0\n", 17), 17);
    (void)close(fd);
    assert_refused(s.path, NEXAR_EPROTO, "not the state of a nexar seed");
    assert_refused(s.path, NEXAR_EPROTO, "remove it: then the seed begins anew");
    assert_int_equal(truncate(s.path, 0), 0);
    assert_refused(s.path, NEXAR_EPROTO, "not the state of a nexar seed");
    assert_int_equal(nx_seed_file_write("/nonexistent/state", &f), NEXAR_ESYS);
    nx_seed_file_fini(&f);
    scratch_remove(&s);
}

/* One bit of every byte, and every length. */
static void test_damage_anywhere_is_found(void **state)
{
    nx_seed_file f = make(2), back = {0};
    uint8_t *bytes = NULL;
    size_t len = 0;

    (void)state;
    assert_int_equal(nx_seed_file_encode(&f, &bytes, &len), NEXAR_OK);
    for (size_t at = 0; at < len; at++) {
        bytes[at] ^= (uint8_t)(1U << (at % 8));
        assert_int_equal(nx_seed_file_decode(bytes, len, &back), NEXAR_EPROTO);
        bytes[at] ^= (uint8_t)(1U << (at % 8));
        assert_int_equal(nx_seed_file_decode(bytes, at, &back), NEXAR_EPROTO);
    }
    assert_null(back.authority);
    assert_int_equal(nx_seed_file_decode(bytes, len, &back), NEXAR_OK);
    assert_same(&f, &back);
    nx_free(bytes);
    nx_seed_file_fini(&f);
    nx_seed_file_fini(&back);
}

/* With a valid checksum the contents are still checked. */
static void test_a_state_that_cannot_be_is_refused(void **state)
{
    (void)state;
    for (int fault = 0; fault < 5; fault++) {
        nx_seed_file f = make(2), back = {0};
        nx_view *view = (nx_view *)(uintptr_t)f.memory.view;
        uint8_t *bytes = NULL;
        size_t len = 0;

        switch (fault) {
        case 0:
            f.port = 0;
            break;
        case 1:
            f.world_size = 0;
            break;
        case 2:
            f.memory.member_limit = 6;
            break;
        case 3:
            view->job.bytes[0] ^= 1;
            break;
        default:
            view->epoch++;
            break;
        }
        assert_int_equal(nx_seed_file_encode(&f, &bytes, &len), NEXAR_OK);
        assert_int_equal(nx_seed_file_decode(bytes, len, &back), NEXAR_EPROTO);
        nx_free(bytes);
        nx_seed_file_fini(&f);
    }
}

static void test_lack_of_memory_is_reported(void **state)
{
    const scratch s = scratch_make();
    nx_seed_file f = make(2);

    (void)state;
    NXT_FOR_EACH_OOM (n) {
        nx_seed_file back = {0};
        bool there = false;
        nexar_err err = nx_seed_file_write(s.path, &f);

        err = (err == NEXAR_OK) ? nx_seed_file_read(s.path, &back, &there) : err;
        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
        nx_seed_file_fini(&back);
    }
    nx_seed_file_fini(&f);
    scratch_remove(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_written_is_read),
        cmocka_unit_test(test_a_file_of_others_is_refused),
        cmocka_unit_test(test_what_is_no_file_or_not_ours_is_refused),
        cmocka_unit_test(test_damage_anywhere_is_found),
        cmocka_unit_test(test_a_state_that_cannot_be_is_refused),
        cmocka_unit_test(test_lack_of_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
