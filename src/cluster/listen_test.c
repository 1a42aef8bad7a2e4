/* listen_test.c - the addresses at which an endpoint listens, and those that it advertises. */
#include "cluster/listen.h"

#include <string.h>
#include <unistd.h>

#include "cluster/addresses.h"
#include "unit.h"

#define COUNT(ARRAY) (sizeof(ARRAY) / sizeof((ARRAY)[0]))

static void test_settings_become_an_endpoint(void **state)
{
    static const struct {
        const char *listen;
        int family;
        uint16_t first, last;
    } examples[] = {
        {NULL, 0, 5, 9},
        {"", 0, 5, 9},
        {":44", 0, 44, 44},
        {":0", 0, 5, 9},
        {"127.0.0.1", AF_INET, 5, 9},
        {"127.0.0.1:44", AF_INET, 44, 44},
        {"[::1]:44", AF_INET6, 44, 44},
        {"::1", AF_INET6, 5, 9},
        {"0.0.0.0", AF_INET, 5, 9},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(examples); i++) {
        nx_quic_config config = {0};

        assert_int_equal(nx_listen_parse(examples[i].listen, 5, 9, &config), NEXAR_OK);
        assert_int_equal(config.listen.ss_family, examples[i].family);
        assert_int_equal(config.port_first, examples[i].first);
        assert_int_equal(config.port_last, examples[i].last);
    }
}

static void test_malformed_settings_are_refused(void **state)
{
    static const char *const bad[] = {":", ":x", ":65536", "1.2.3.4:", "a b", "[::1"};

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        nx_quic_config config = {0};

        assert_int_equal(nx_listen_parse(bad[i], 0, 0, &config), NEXAR_EINVAL);
    }
}

static void test_only_addresses_that_are_listened_on_are_published(void **state)
{
    struct sockaddr_storage out[NX_ADDRESSES_MAX];
    nx_quic_config config = {0};
    char text[NX_ADDRESS_TEXT];
    size_t n = 0;

    (void)state;
    assert_int_equal(nx_listen_parse("127.0.0.1", 0, 0, &config), NEXAR_OK);
    assert_int_equal(nx_listen_addresses(&config, 77, "", "", out, COUNT(out), &n), NEXAR_OK);
    assert_int_equal(n, 1);
    assert_string_equal(nx_address_text(&out[0], text), "127.0.0.1:77");

    assert_int_equal(nx_listen_parse("0.0.0.0", 0, 0, &config), NEXAR_OK);
    assert_int_equal(nx_listen_addresses(&config, 77, "", "", out, COUNT(out), &n), NEXAR_OK);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(out[i].ss_family, AF_INET);
    }
    /* A world behind a port forward: advertises the given address. */
    assert_int_equal(nx_listen_addresses(&config, 77, "", "[2001:db8::1]:9", out, COUNT(out), &n),
                     NEXAR_OK);
    assert_int_equal(n, 1);
    assert_string_equal(nx_address_text(&out[0], text), "[2001:db8::1]:9");
    /* IPv4 only, restricted to IPv6. */
    assert_int_equal(nx_listen_parse("[::]", 0, 0, &config), NEXAR_OK);
    assert_int_equal(nx_listen_addresses(&config, 77, "127.0.0.0/8", "", out, COUNT(out), &n),
                     NEXAR_EINVAL);
}

static void test_a_process_can_describe_itself(void **state)
{
    static const uint8_t none[NX_BOOT_ID_SIZE];
    nx_member m = {.rank = 7}, again = {0};
    nx_process process;

    (void)state;
    nx_member_self(&m, NULL);
    nx_process_self(&process);
    nx_member_self(&again, "");
    assert_int_equal(m.process.pid, getpid());
    assert_true((m.process.space == process.space) && (m.process.started == process.started));
    assert_int_equal(m.rank, 7);
    assert_true(strlen(m.host) > 0);
    assert_memory_equal(m.boot_id, again.boot_id, sizeof(m.boot_id));
    assert_memory_not_equal(m.boot_id, none, sizeof(none));
}

static void test_host_ids_tell_hosts_of_one_kernel_apart(void **state)
{
    nx_member m[3] = {0}, again = {0};

    (void)state;
    nx_member_self(&m[0], "");
    nx_member_self(&m[1], "a");
    nx_member_self(&m[2], "b");
    for (size_t i = 0; i < 3; i++) {
        nx_member_self(&again, (i == 0) ? "" : ((i == 1) ? "a" : "b"));
        assert_memory_equal(m[i].boot_id, again.boot_id, sizeof(again.boot_id));
        assert_memory_not_equal(m[i].boot_id, m[(i + 1) % 3].boot_id, sizeof(again.boot_id));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings_become_an_endpoint),
        cmocka_unit_test(test_malformed_settings_are_refused),
        cmocka_unit_test(test_only_addresses_that_are_listened_on_are_published),
        cmocka_unit_test(test_a_process_can_describe_itself),
        cmocka_unit_test(test_host_ids_tell_hosts_of_one_kernel_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
