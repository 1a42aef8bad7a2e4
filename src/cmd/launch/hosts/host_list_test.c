/* host_list_test.c - host lists, host files, ranks by slots. */
#include "host_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/text.h"
#include "unit.h"

/* "target*slots ..." of |list|. */
static const char *shown(const nx_host_list *list, nx_text *text)
{
    nx_text_fini(text);
    *text = (nx_text){0};
    for (size_t i = 0; i < list->n; i++) {
        nx_text_addf(text, "%s%s*%u", (i == 0) ? "" : " ", list->hosts[i]->target,
                     list->hosts[i]->slots);
    }
    return (text->len == 0) ? "" : nx_text_str(text);
}

static void expect_list(const char *given, const char *wanted)
{
    nx_host_list list = {0};
    nx_text text = {0};

    assert_int_equal(nx_host_list_parse(&list, given), NEXAR_OK);
    assert_string_equal(shown(&list, &text), wanted);
    nx_text_fini(&text);
    nx_host_list_fini(&list);
}

static void lists_are_parsed(void **state)
{
    (void)state;
    expect_list("a", "a*1");
    expect_list("node1:4,node2:4", "node1*4 node2*4");
    expect_list("me@node1:2,node-2.example.org", "me@node1*2 node-2.example.org*1");
    expect_list("[fd00::1]:2,me@[fe80::1%eth0],10.0.0.1:3",
                "fd00::1*2 me@fe80::1%eth0*1 10.0.0.1*3");
    expect_list("a:2,b,a", "a*3 b*1");
}

static void expect_error(const char *given, const char *part)
{
    nx_host_list list = {0};

    assert_int_equal(nx_host_list_parse(&list, given), NEXAR_EINVAL);
    if (strstr(nexar_last_error(), part) == NULL) {
        fail_msg("%s: \"%s\" lacks \"%s\"", given, nexar_last_error(), part);
    }
    nx_host_list_fini(&list);
}

static void bad_entries_are_named(void **state)
{
    (void)state;
    expect_error("", "empty");
    expect_error("a,,b", "empty");
    expect_error("a,", "empty");
    expect_error("a:", "host a: \"\" is no number of slots");
    expect_error("a:b", "host a: \"b\" is no number of slots");
    expect_error("a:0", "host a: slots must be from 1 to");
    expect_error("a:5000", "host a: slots must be from 1 to");
    expect_error("a:4000,a:4000", "host a: slots must be from 1 to");
    expect_error("fd00::1", "host fd00::1: an IPv6 address goes in brackets: [fd00::1]");
    expect_error("[fd00::1", "is no host");
    expect_error("[fd00::1]4", "is no host");
    expect_error("]a[", "is no host");
    expect_error("-oProxyCommand=x", "is no host");
    expect_error("me@-x", "is no host");
    expect_error("@a", "is no host");
    expect_error("me@", "is no host");
    expect_error("a@b@c", "is no host");
    expect_error("a;b", "\"a;b\" is no host");
    expect_error("a b", "is no host");
    expect_error("$(x)", "is no host");
}

static nexar_err read_text(nx_host_list *list, const char *text)
{
    char path[] = "/tmp/host_list_test.XXXXXX";
    const int fd = mkstemp(path);
    nexar_err err;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    (void)close(fd);
    err = nx_host_list_read(list, path);
    (void)unlink(path);
    return err;
}

static void files_of_other_launchers_are_read(void **state)
{
    nx_host_list list = {0};
    nx_text text = {0};

    (void)state;
    assert_int_equal(read_text(&list, "# all\nnode1 slots=4 max_slots=8 # fast\n\n\tnode2:2\r\n"
                                      "me@node3\nnode1\n[fd00::4]:2"),
                     NEXAR_OK);
    assert_string_equal(shown(&list, &text), "node1*5 node2*2 me@node3*1 fd00::4*2");
    nx_text_fini(&text);
    nx_host_list_fini(&list);
}

static void bad_files_are_named_with_the_line(void **state)
{
    nx_host_list list = {0};

    (void)state;
    assert_int_equal(read_text(&list, "a\n\nb cores=2\n"), NEXAR_EINVAL);
    assert_non_null(strstr(nexar_last_error(), ", line 3: unknown word \"cores=2\""));
    nx_host_list_fini(&list);
    assert_int_equal(read_text(&list, "# nothing\n"), NEXAR_EINVAL);
    assert_non_null(strstr(nexar_last_error(), "names no host"));
    assert_int_equal(nx_host_list_read(&list, "/nonexistent/hosts"), NEXAR_ESYS);
    nx_host_list_fini(&list);
}

static void ranks_fill_the_hosts_in_order(void **state)
{
    nx_host_list list = {0};

    (void)state;
    assert_int_equal(nx_host_list_parse(&list, "a:2,b:3,c:1"), NEXAR_OK);
    assert_int_equal(nx_host_list_assign(&list, 7), NEXAR_EINVAL);
    assert_non_null(strstr(nexar_last_error(), "7 ranks on 3 hosts with 6 slots"));
    assert_int_equal(nx_host_list_assign(&list, 0), NEXAR_OK);
    assert_int_equal(list.n, 3);
    assert_int_equal(list.hosts[1]->first, 2);
    assert_int_equal(list.hosts[1]->ranks, 3);
    assert_int_equal(list.hosts[2]->first, 5);
    assert_int_equal(nx_host_list_assign(&list, 3), NEXAR_OK);
    assert_int_equal(list.n, 2);
    assert_int_equal(list.hosts[0]->ranks, 2);
    assert_int_equal(list.hosts[1]->first, 2);
    assert_int_equal(list.hosts[1]->ranks, 1);
    nx_host_list_fini(&list);
}

static bool here(const char *entry)
{
    nx_host_list list = {0};
    bool is;

    assert_int_equal(nx_host_list_parse(&list, entry), NEXAR_OK);
    is = nx_host_is_here(list.hosts[0]);
    nx_host_list_fini(&list);
    return is;
}

static void this_machine_is_known(void **state)
{
    char own[NX_HOST_MAX] = "";

    (void)state;
    assert_int_equal(gethostname(own, sizeof(own) - 1), 0);
    assert_true(here("localhost"));
    assert_true(here("127.0.0.1"));
    assert_true(here(own));
    assert_false(here("me@localhost"));
    assert_false(here("192.0.2.1"));
    assert_false(here("[2001:db8::1]"));
    assert_false(here("surely-another-host"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_parsed),
        cmocka_unit_test(bad_entries_are_named),
        cmocka_unit_test(files_of_other_launchers_are_read),
        cmocka_unit_test(bad_files_are_named_with_the_line),
        cmocka_unit_test(ranks_fill_the_hosts_in_order),
        cmocka_unit_test(this_machine_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
