/* join_string_test.c - join strings are parsed, formatted, and rejected with a message. */
#include "cluster/join/join_string.h"

#include <stdio.h>
#include <string.h>

#include "cluster/addresses.h"
#include "unit.h"

/* 43 digits, the last one with its two spare bits 0. */
#define TOKEN        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
#define PIN          "__________________________________________8"
#define COUNT(ARRAY) (sizeof(ARRAY) / sizeof((ARRAY)[0]))

static void assert_address(const struct sockaddr_storage *a, const char *text)
{
    char buf[NX_ADDRESS_TEXT];

    assert_string_equal(nx_address_text(a, buf), text);
}

static void test_one_address_is_read(void **state)
{
    nx_join_string j;

    (void)state;
    assert_int_equal(nx_join_string_parse("nexar://" TOKEN "@192.0.2.7:4433/?pin=" PIN, &j),
                     NEXAR_OK);
    for (int i = 0; i < NX_TOKEN_SIZE; i++) {
        assert_int_equal(j.token.bytes[i], i);
        assert_int_equal(j.pin.bytes[i], 255);
    }
    assert_int_equal(j.naddresses, 1);
    assert_address(&j.addresses[0], "192.0.2.7:4433");
}

static void test_several_addresses_of_both_families_are_read(void **state)
{
    nx_join_string j;

    (void)state;
    assert_int_equal(nx_join_string_parse("nexar://" TOKEN
                                          "@10.0.0.1:1,[2001:db8::7]:65535,127.0.0.1:2?pin=" PIN,
                                          &j),
                     NEXAR_OK);
    assert_int_equal(j.naddresses, 3);
    assert_address(&j.addresses[0], "10.0.0.1:1");
    assert_address(&j.addresses[1], "[2001:db8::7]:65535");
    assert_address(&j.addresses[2], "127.0.0.1:2");
}

static void test_a_host_name_is_resolved(void **state)
{
    nx_join_string j;

    (void)state;
    assert_int_equal(nx_join_string_parse("nexar://" TOKEN "@localhost:99/?pin=" PIN, &j),
                     NEXAR_OK);
    assert_true(j.naddresses >= 1);
    assert_int_equal(nx_address_port(&j.addresses[0]), 99);
}

static void test_what_is_written_is_read_back(void **state)
{
    nx_join_string j = {.naddresses = 2}, back;
    char text[NX_JOIN_STRING_MAX];

    (void)state;
    for (int i = 0; i < 32; i++) {
        j.token.bytes[i] = (uint8_t)(i * 7 + 3);
        j.pin.bytes[i] = (uint8_t)(i * 11);
    }
    assert_int_equal(nx_address_parse("[fd00::1]:5", 0, &j.addresses[0]), NEXAR_OK);
    assert_int_equal(nx_address_parse("1.2.3.4", 6, &j.addresses[1]), NEXAR_OK);
    assert_int_equal(nx_join_string_format(&j, text, sizeof(text)), NEXAR_OK);
    assert_int_equal(nx_join_string_parse(text, &back), NEXAR_OK);
    assert_memory_equal(&back.token, &j.token, sizeof(j.token));
    assert_memory_equal(&back.pin, &j.pin, sizeof(j.pin));
    assert_int_equal(back.naddresses, 2);
    assert_address(&back.addresses[0], "[fd00::1]:5");
    assert_address(&back.addresses[1], "1.2.3.4:6");
}

static void test_a_room_that_is_too_small_is_refused(void **state)
{
    nx_join_string j = {.naddresses = 1};
    char text[NX_JOIN_STRING_MAX];
    size_t need;

    (void)state;
    assert_int_equal(nx_address_parse("1.2.3.4:6", 0, &j.addresses[0]), NEXAR_OK);
    assert_int_equal(nx_join_string_format(&j, text, sizeof(text)), NEXAR_OK);
    need = strlen(text) + 1;
    for (size_t size = 0; size < need; size++) {
        assert_int_equal(nx_join_string_format(&j, text, size), NEXAR_ETRUNC);
    }
    assert_int_equal(nx_join_string_format(&j, text, need), NEXAR_OK);
}

static void test_rubbish_is_refused_without_the_token(void **state)
{
    static const char *const rubbish[] = {
        "",
        "nexar",
        "nexar://",
        "http://" TOKEN "@1.2.3.4:5/?pin=" PIN,
        TOKEN "@1.2.3.4:5/?pin=" PIN,
        "nexar://" TOKEN,
        "nexar://" TOKEN "/?pin=" PIN,
        "nexar://" TOKEN "@",
        "nexar://" TOKEN "@/?pin=" PIN,
        "nexar://" TOKEN "@1.2.3.4:5",
        "nexar://" TOKEN "@1.2.3.4:5/",
        "nexar://" TOKEN "@1.2.3.4:5/?pin=",
        "nexar://" TOKEN "@1.2.3.4:5/?pan=" PIN,
        "nexar://" TOKEN "@1.2.3.4:5/?pin=" PIN "x",
        "nexar://" TOKEN "@1.2.3.4:5/?pin=" PIN "\n",
        "nexar://" TOKEN "@1.2.3.4:5/?pin=" PIN "&more=1",
        "nexar://" TOKEN "@1.2.3.4:5/x/?pin=" PIN,
        "nexar://" TOKEN "@1.2.3.4/?pin=" PIN,
        "nexar://" TOKEN "@1.2.3.4:/?pin=" PIN,
        "nexar://" TOKEN "@1.2.3.4:0/?pin=" PIN,
        "nexar://" TOKEN "@1.2.3.4:65536/?pin=" PIN,
        "nexar://" TOKEN "@1.2.3.4:-1/?pin=" PIN,
        "nexar://" TOKEN "@0.0.0.0:5/?pin=" PIN,
        "nexar://" TOKEN "@[::]:5/?pin=" PIN,
        "nexar://" TOKEN "@[::1:5/?pin=" PIN,
        "nexar://" TOKEN "@[::1]x:5/?pin=" PIN,
        "nexar://" TOKEN "@[host]:5/?pin=" PIN,
        "nexar://" TOKEN "@::1/?pin=" PIN,
        "nexar://" TOKEN "@1.2.3.4:5,/?pin=" PIN,
        "nexar://" TOKEN "@,1.2.3.4:5/?pin=" PIN,
        "nexar://" TOKEN "@a b:5/?pin=" PIN,
        "nexar://" TOKEN "@-x:5/?pin=" PIN,
        "nexar://" TOKEN "@" TOKEN ":5/?pin=" PIN,
        "nexar://" TOKEN "@1.2.3.4:5/?pin=" TOKEN,
        "nexar://" TOKEN "@" TOKEN "@1.2.3.4:5/?pin=" PIN,
        "nexar://x@" TOKEN "@1.2.3.4:5/?pin=" PIN,
        "nexar://1.2.3.4:5@" TOKEN "/?pin=" PIN,
        "nexar://" TOKEN "=@1.2.3.4:5/?pin=" PIN,
        "nexar://" TOKEN "x@1.2.3.4:5/?pin=" PIN,
        "nexar://AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9@1.2.3.4:5/?pin=" PIN,
        "nexar://AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+@1.2.3.4:5/?pin=" PIN,
        "nexar://" TOKEN "@1.1.1.1:1,1.1.1.1:1,1.1.1.1:1,1.1.1.1:1,1.1.1.1:1,1.1.1.1:1,1.1.1.1:1,"
        "1.1.1.1:1,1.1.1.1:1/?pin=" PIN,
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rubbish); i++) {
        nx_join_string j = {.naddresses = 4711};

        if (nx_join_string_parse(rubbish[i], &j) != NEXAR_EINVAL) {
            fail_msg("\"%s\" was not refused", rubbish[i]);
        }
        assert_int_equal(j.naddresses, 4711);
        /* Half of the token, from any position, is too much. */
        assert_null(strstr(nexar_last_error(), "CAwQFBgcICQoLDA0"));
        assert_null(strstr(nexar_last_error(), "ODxAREhMUFRYX"));
        assert_true(strlen(nexar_last_error()) > 20);
    }
}

static void test_a_long_text_is_refused(void **state)
{
    static char text[5000];
    nx_join_string j;

    (void)state;
    (void)snprintf(text, sizeof(text), "nexar://" TOKEN "@%04000d:5/?pin=" PIN, 1);
    assert_int_equal(nx_join_string_parse(text, &j), NEXAR_EINVAL);
}

static void test_a_name_that_does_not_resolve_is_a_connect_error(void **state)
{
    nx_join_string j;

    (void)state;
    assert_int_equal(nx_join_string_parse("nexar://" TOKEN "@no-such.invalid:5/?pin=" PIN, &j),
                     NEXAR_ECONNECT);
    assert_non_null(strstr(nexar_last_error(), "no-such.invalid"));
    /* Another address will do. */
    assert_int_equal(
        nx_join_string_parse("nexar://" TOKEN "@no-such.invalid:5,1.2.3.4:6/?pin=" PIN, &j),
        NEXAR_OK);
    assert_int_equal(j.naddresses, 1);
}

static void test_a_proof_depends_on_all_that_goes_in(void **state)
{
    nx_token token = {{1}}, other = {{2}};
    uint8_t exporter[32] = {3}, elsewhere[32] = {4}, a[32], b[32];

    (void)state;
    assert_int_equal(nx_join_proof(&token, exporter, "csr", 3, a), NEXAR_OK);
    assert_int_equal(nx_join_proof(&token, exporter, "csr", 3, b), NEXAR_OK);
    assert_true(nx_join_proof_equal(a, b));
    assert_int_equal(nx_join_proof(&other, exporter, "csr", 3, b), NEXAR_OK);
    assert_false(nx_join_proof_equal(a, b));
    assert_int_equal(nx_join_proof(&token, elsewhere, "csr", 3, b), NEXAR_OK);
    assert_false(nx_join_proof_equal(a, b));
    assert_int_equal(nx_join_proof(&token, exporter, "csR", 3, b), NEXAR_OK);
    assert_false(nx_join_proof_equal(a, b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_address_is_read),
        cmocka_unit_test(test_several_addresses_of_both_families_are_read),
        cmocka_unit_test(test_a_host_name_is_resolved),
        cmocka_unit_test(test_what_is_written_is_read_back),
        cmocka_unit_test(test_a_room_that_is_too_small_is_refused),
        cmocka_unit_test(test_rubbish_is_refused_without_the_token),
        cmocka_unit_test(test_a_long_text_is_refused),
        cmocka_unit_test(test_a_name_that_does_not_resolve_is_a_connect_error),
        cmocka_unit_test(test_a_proof_depends_on_all_that_goes_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
