/* addresses_test.c - the choice of addresses, and their order. */
#include "cluster/addresses.h"

#include <stdio.h>
#include <string.h>

#include "oom.h"
#include "unit.h"

#define COUNT(ARRAY) (sizeof(ARRAY) / sizeof((ARRAY)[0]))

static nx_interface make(const char *name, const char *address, bool up)
{
    nx_interface i = {.up = up};

    (void)snprintf(i.name, sizeof(i.name), "%s", name);
    assert_int_equal(nx_address_parse(address, 0, &i.address), NEXAR_OK);
    return i;
}

/* A host with interfaces of every kind, in a bad order. */
static size_t host(nx_interface list[16])
{
    size_t n = 0;

    list[n++] = make("lo", "127.0.0.1", true);
    list[n++] = make("lo", "::1", true);
    list[n++] = make("docker0", "172.17.0.1", false);
    list[n++] = make("wlan0", "192.168.1.5", true);
    list[n++] = make("eth0", "fe80::1", true);
    list[n++] = make("eth0", "fd00::5", true);
    list[n++] = make("eth0", "10.1.2.3", true);
    list[n++] = make("br-77", "198.51.100.9", true);
    list[n++] = make("enp3s0", "198.51.100.7", true);
    list[n++] = make("enp3s0", "2001:db8::7", true);
    list[n++] = make("eth1", "169.254.3.4", true);
    return n;
}

/* The choice as one text, without ports. */
static const char *choice(const char *interfaces, char *text, size_t size)
{
    nx_interface list[16];
    struct sockaddr_storage out[16];
    size_t n = 0, len = 0;
    nexar_err err = nx_addresses_select(list, host(list), interfaces, 7, out, COUNT(out), &n);

    assert_int_equal(err, NEXAR_OK);
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        char buf[NX_ADDRESS_TEXT];
        int more;

        assert_int_equal(nx_address_port(&out[i]), 7);
        (void)nx_address_text(&out[i], buf);
        more = snprintf(text + len, size - len, "%s%.*s", (i == 0) ? "" : " ",
                        (int)(strlen(buf) - 2), buf);
        len += (size_t)more;
    }
    return text;
}

static void test_global_comes_first_and_loopback_last(void **state)
{
    char text[512];

    (void)state;
    assert_string_equal(choice("", text, sizeof(text)),
                        "198.51.100.7 [2001:db8::7] 198.51.100.9 10.1.2.3 192.168.1.5 [fd00::5] "
                        "169.254.3.4 127.0.0.1 [::1]");
    assert_string_equal(choice(NULL, text, sizeof(text)), choice("", text + 256, 256));
}

static void test_interfaces_restrict_by_name_network_and_address(void **state)
{
    char text[512];

    (void)state;
    assert_string_equal(choice("eth0", text, sizeof(text)), "10.1.2.3 [fd00::5]");
    assert_string_equal(choice("10.0.0.0/8", text, sizeof(text)), "10.1.2.3");
    assert_string_equal(choice("10.1.2.2/31", text, sizeof(text)), "10.1.2.3");
    assert_string_equal(choice("fc00::/7,127.0.0.0/8", text, sizeof(text)), "[fd00::5] 127.0.0.1");
    assert_string_equal(choice("192.168.1.5,lo", text, sizeof(text)),
                        "192.168.1.5 127.0.0.1 [::1]");
    assert_string_equal(choice("2001:db8::7", text, sizeof(text)), "[2001:db8::7]");
    assert_string_equal(choice("0.0.0.0/0", text, sizeof(text)),
                        "198.51.100.7 198.51.100.9 10.1.2.3 192.168.1.5 169.254.3.4 127.0.0.1");
    /* The same address twice counts once. */
    assert_string_equal(choice("eth0,10.0.0.0/8,eth0", text, sizeof(text)), "10.1.2.3 [fd00::5]");
}

static void test_an_entry_that_matches_none_is_refused_with_what_there_is(void **state)
{
    static const char *const settings[] = {"eth7",          "eth0,eth7",   "11.0.0.0/8", "docker0",
                                           "172.17.0.0/16", "10.1.2.4/31", "fe80::/10"};
    nx_interface list[16];
    struct sockaddr_storage out[16];
    size_t n = 4711;

    (void)state;
    for (size_t i = 0; i < COUNT(settings); i++) {
        assert_int_equal(nx_addresses_select(list, host(list), settings[i], 7, out, COUNT(out), &n),
                         NEXAR_EINVAL);
        assert_non_null(strstr(nexar_last_error(), "eth0 10.1.2.3"));
        assert_non_null(strstr(nexar_last_error(), "enp3s0 [2001:db8::7]"));
        assert_int_equal(n, 4711);
    }
    assert_non_null(strstr(nexar_last_error(), "fe80::/10"));
}

static void test_malformed_entries_are_refused(void **state)
{
    static const char *const settings[] = {
        ",",           "eth0,",      ",eth0",     "eth0,,lo",
        "10.0.0.0/33", "fd00::/129", "10.0.0.0/", "10.0.0.0/-1",
        "10.0.0/8",    "/8",         "x/8",       "an-interface-name-of-too-many-letters"};
    nx_interface list[16];
    struct sockaddr_storage out[16];
    size_t n;

    (void)state;
    for (size_t i = 0; i < COUNT(settings); i++) {
        if (nx_addresses_select(list, host(list), settings[i], 7, out, 16, &n) != NEXAR_EINVAL) {
            fail_msg("\"%s\" was taken", settings[i]);
        }
    }
}

static void test_room_keeps_the_best(void **state)
{
    nx_interface list[16];
    struct sockaddr_storage out[2];
    char buf[NX_ADDRESS_TEXT];
    size_t n = 0;

    (void)state;
    assert_int_equal(nx_addresses_select(list, host(list), "", 9, out, 2, &n), NEXAR_OK);
    assert_int_equal(n, 2);
    assert_string_equal(nx_address_text(&out[1], buf), "[2001:db8::7]:9");
}

static void test_advertise_replaces_the_list(void **state)
{
    struct sockaddr_storage out[2];
    char buf[NX_ADDRESS_TEXT];
    size_t n = 0;

    (void)state;
    assert_int_equal(nx_addresses_find("none", "198.51.100.7,[fd00::1]:44", 33, out, 2, &n),
                     NEXAR_OK);
    assert_int_equal(n, 2);
    assert_string_equal(nx_address_text(&out[0], buf), "198.51.100.7:33");
    assert_string_equal(nx_address_text(&out[1], buf), "[fd00::1]:44");
    assert_int_equal(nx_addresses_find("", "1.1.1.1,1.1.1.2,1.1.1.3", 33, out, 2, &n),
                     NEXAR_EINVAL);
    assert_int_equal(nx_addresses_find("", "1.1.1.1,", 33, out, 2, &n), NEXAR_EINVAL);
    assert_int_equal(nx_addresses_find("", "0.0.0.0", 33, out, 2, &n), NEXAR_EINVAL);
    assert_int_equal(nx_addresses_find("", "1.1.1.1:0", 33, out, 2, &n), NEXAR_EINVAL);
    assert_int_equal(nx_addresses_find("", "1.1.1.1:x", 33, out, 2, &n), NEXAR_EINVAL);
}

static void test_this_host_has_a_loopback(void **state)
{
    struct sockaddr_storage out[16];
    char buf[NX_ADDRESS_TEXT];
    size_t n = 0;

    (void)state;
    assert_int_equal(nx_addresses_find("lo", "", 33, out, 16, &n), NEXAR_OK);
    assert_true(n >= 1);
    assert_string_equal(nx_address_text(&out[0], buf), "127.0.0.1:33");
}

static void test_addresses_are_read_as_people_write_them(void **state)
{
    static const char *const good[][2] = {
        {"1.2.3.4", "1.2.3.4:5"},     {"1.2.3.4:99", "1.2.3.4:99"},    {"[::]:0", "[::]:0"},
        {"[fd00::1]", "[fd00::1]:5"}, {"fd00::1", "[fd00::1]:5"},      {"::", "[::]:5"},
        {"0.0.0.0:7", "0.0.0.0:7"},   {"::ffff:9.8.7.6", "9.8.7.6:5"},
    };
    static const char *const bad[] = {
        "",     ":5",  "[]:5",        "[::1",    "1.2.3.4:",        "1.2.3.4:65536",
        "[x]",  "a b", "1.2.3.4:5:6", "fd00::g", "no-such.invalid", "[1.2.3.4]x",
        "%eth0"};
    struct sockaddr_storage a;
    char buf[NX_ADDRESS_TEXT];

    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        assert_int_equal(nx_address_parse(good[i][0], 5, &a), NEXAR_OK);
        assert_string_equal(nx_address_text(&a, buf), good[i][1]);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (nx_address_parse(bad[i], 5, &a) != NEXAR_EINVAL) {
            fail_msg("\"%s\" was taken", bad[i]);
        }
    }
}

static void test_lack_of_memory_is_reported(void **state)
{
    struct sockaddr_storage out[16];
    size_t n;

    (void)state;
    NXT_FOR_EACH_OOM (i) {
        nexar_err err = nx_addresses_find("lo", "", 33, out, 16, &n);

        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_global_comes_first_and_loopback_last),
        cmocka_unit_test(test_interfaces_restrict_by_name_network_and_address),
        cmocka_unit_test(test_an_entry_that_matches_none_is_refused_with_what_there_is),
        cmocka_unit_test(test_malformed_entries_are_refused),
        cmocka_unit_test(test_room_keeps_the_best),
        cmocka_unit_test(test_advertise_replaces_the_list),
        cmocka_unit_test(test_this_host_has_a_loopback),
        cmocka_unit_test(test_addresses_are_read_as_people_write_them),
        cmocka_unit_test(test_lack_of_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
