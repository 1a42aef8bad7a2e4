/* error_test.c - every code has a name, a message and a scope; last messages are per thread. */
#include "base/error.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "unit.h"

static void test_every_code_has_a_name_a_text_and_a_scope(void **state)
{
    (void)state;
    assert_string_equal(nexar_err_name(NEXAR_EPEER), "NEXAR_EPEER");
    assert_int_equal(nexar_err_scope(NEXAR_EPEER), NEXAR_SCOPE_PEER);
    assert_int_equal(nexar_err_scope(NEXAR_EREVOKED), NEXAR_SCOPE_COMM);
    /* The communicator remains usable: mismatch_test and comm_device_test check that. */
    assert_int_equal(nexar_err_scope(NEXAR_EMISMATCH), NEXAR_SCOPE_OP);
    assert_int_equal(nexar_err_scope(NEXAR_EDEVICE), NEXAR_SCOPE_OP);
    assert_int_equal(nexar_err_scope(NEXAR_OK), NEXAR_SCOPE_NONE);
    for (int err = -40; err <= 0; err++) {
        const char *name = nexar_err_name((nexar_err)err);
        bool known = (err >= NEXAR_EINTERNAL);

        assert_int_equal(strcmp(name, "NEXAR_E?") != 0, known);
        assert_int_equal(strcmp(nexar_strerror((nexar_err)err), "unknown error") != 0, known);
        if (!known) {
            assert_int_equal(nexar_err_scope((nexar_err)err), NEXAR_SCOPE_LIB);
        }
    }
}

static void *fail_elsewhere(void *arg)
{
    *(size_t *)arg = strlen(nexar_last_error());
    (void)nx_fail(NEXAR_EINVAL, "elsewhere");
    return NULL;
}

static void test_the_sentence_belongs_to_its_thread(void **state)
{
    size_t elsewhere = 4711;
    pthread_t other;

    (void)state;
    assert_int_equal(nx_fail(NEXAR_EINVAL, "rank %d", 7), NEXAR_EINVAL);
    assert_int_equal(pthread_create(&other, NULL, fail_elsewhere, &elsewhere), 0);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(elsewhere, 0);
    assert_string_equal(nexar_last_error(), "rank 7");
}

static void test_system_errors_name_the_call_and_the_object(void **state)
{
    (void)state;
    assert_int_equal(nx_fail_sys("open", "", 0), NEXAR_OK);
    assert_int_equal(nx_fail_sys("open", "/x", ENOENT), NEXAR_ESYS);
    assert_string_equal(nexar_last_error(), "open /x: No such file or directory (errno 2)");
    assert_int_equal(nx_fail_sys("mmap", "", ENOMEM), NEXAR_ENOMEM);
    assert_int_equal(nx_fail_nomem("a schedule"), NEXAR_ENOMEM);
    assert_string_equal(nexar_last_error(), "out of memory for a schedule");
}

static void test_a_sentence_that_does_not_fit_is_cut(void **state)
{
    char text[2 * NX_ERROR_ROOM];

    (void)state;
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(nx_fail(NEXAR_EINVAL, "%s", text), NEXAR_EINVAL);
    assert_int_equal(strlen(nexar_last_error()), NX_ERROR_ROOM - 1);
}

static void test_a_sentence_is_one_line_whatever_it_is_made_of(void **state)
{
    (void)state;
    assert_int_equal(nx_fail(NEXAR_EINVAL, "\"%s\" is no f\xc3\xbcr", "a\n\033[2J"), NEXAR_EINVAL);
    assert_string_equal(nexar_last_error(), "\"a??[2J\" is no f\xc3\xbcr");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_has_a_name_a_text_and_a_scope),
        cmocka_unit_test(test_the_sentence_belongs_to_its_thread),
        cmocka_unit_test(test_system_errors_name_the_call_and_the_object),
        cmocka_unit_test(test_a_sentence_that_does_not_fit_is_cut),
        cmocka_unit_test(test_a_sentence_is_one_line_whatever_it_is_made_of),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
