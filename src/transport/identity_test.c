/* identity_test.c - the certificates that the authority signs, and those that every process
 * refuses. */
#include "transport/identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "oom.h"
#include "transport/cert.h"
#include "unit.h"

static const nx_job_id JOB = {{1, 2, 3, 0xfe}};
static const nx_job_id OTHER_JOB = {{9}};

static nx_authority *authority(const nx_job_id *job)
{
    nx_authority *a = NULL;

    assert_int_equal(nx_authority_create(&a, job), NEXAR_OK);
    return a;
}

/* An identity with its request. */
static nx_identity *applicant(nx_der *csr)
{
    nx_identity *id = NULL;

    assert_int_equal(nx_identity_create(&id), NEXAR_OK);
    assert_int_equal(nx_identity_request(id, csr), NEXAR_OK);
    return id;
}

static void test_a_signed_request_makes_a_member(void **state)
{
    nx_authority *a = authority(&JOB);
    nx_der csr, cert;
    nx_identity *id = applicant(&csr);
    nx_job_id job;
    uint64_t member = 0;

    (void)state;
    assert_int_equal(nx_identity_member(id), 0);
    assert_int_equal(nx_authority_sign(a, &csr, UINT64_MAX, &cert), NEXAR_OK);
    assert_int_equal(nx_identity_adopt(id, &cert, nx_authority_cert(a)), NEXAR_OK);
    assert_true(nx_identity_member(id) == UINT64_MAX);
    assert_int_equal(nx_cert_names(&cert, &job, &member), NEXAR_OK);
    assert_true(member == UINT64_MAX);
    assert_memory_equal(&job, &JOB, sizeof(job));
    assert_int_equal(nx_cert_names(nx_authority_cert(a), &job, &member), NEXAR_OK);
    assert_true(member == 0);
    nx_identity_destroy(id);
    nx_authority_destroy(a);
}

static void test_member_zero_is_never_signed(void **state)
{
    nx_authority *a = authority(&JOB);
    nx_der csr, cert;
    nx_identity *id = applicant(&csr);

    (void)state;
    assert_int_equal(nx_authority_sign(a, &csr, 0, &cert), NEXAR_EINVAL);
    nx_identity_destroy(id);
    nx_authority_destroy(a);
}

static void test_a_certificate_is_adopted_only_with_its_key_and_authority(void **state)
{
    nx_authority *a = authority(&JOB), *same_job = authority(&JOB), *other = authority(&OTHER_JOB);
    nx_der csr, cert, thief_csr, foreign;
    nx_identity *id = applicant(&csr), *thief = applicant(&thief_csr);

    (void)state;
    assert_int_equal(nx_authority_sign(a, &csr, 3, &cert), NEXAR_OK);
    assert_int_equal(nx_authority_sign(other, &csr, 3, &foreign), NEXAR_OK);
    assert_int_equal(nx_identity_adopt(thief, &cert, nx_authority_cert(a)), NEXAR_EAUTH);
    assert_int_equal(nx_identity_adopt(id, &cert, nx_authority_cert(other)), NEXAR_EAUTH);
    assert_int_equal(nx_identity_adopt(id, &cert, nx_authority_cert(same_job)), NEXAR_EAUTH);
    assert_int_equal(nx_identity_adopt(id, &foreign, nx_authority_cert(a)), NEXAR_EAUTH);
    /* A member cannot sign: its certificate is not an authority's. */
    assert_int_equal(nx_identity_adopt(id, &cert, &cert), NEXAR_EAUTH);
    assert_int_equal(nx_identity_member(id), 0);
    nx_identity_destroy(id);
    nx_identity_destroy(thief);
    nx_authority_destroy(a);
    nx_authority_destroy(same_job);
    nx_authority_destroy(other);
}

static time_t told; /* as the time of day */

static time_t tell(time_t *t)
{
    if (t != NULL) {
        *t = told;
    }
    return told;
}

static const time_t TIMES[] = {0, 1, 1000000000, 0x7fffffff, 0xffffffff, 99999999999};

static void test_no_time_of_day_makes_a_certificate_wrong(void **state)
{
    nx_authority *a;
    nx_der csr, cert;
    nx_identity *id = applicant(&csr);

    (void)state;
    for (size_t made = 0; made < sizeof(TIMES) / sizeof(TIMES[0]); made++) {
        told = TIMES[made];
        gnutls_global_set_time_function(tell);
        a = authority(&JOB);
        assert_int_equal(nx_authority_sign(a, &csr, 3, &cert), NEXAR_OK);
        for (size_t i = 0; i < sizeof(TIMES) / sizeof(TIMES[0]); i++) {
            told = TIMES[i];
            assert_int_equal(nx_identity_adopt(id, &cert, nx_authority_cert(a)), NEXAR_OK);
        }
        gnutls_global_set_time_function(time);
        nx_authority_destroy(a);
    }
    nx_identity_destroy(id);
}

/* As a seed of a release before signs the key of |id|: for a month, which is over. */
static void sign_with_dates(const nx_authority *a, const nx_identity *id, nx_der *dated)
{
    static const char name[] = "nexar://010203fe000000000000000000000000/3";
    gnutls_x509_crt_t crt, by;

    assert_int_equal(nx_cert_parse(nx_authority_cert(a), &by), NEXAR_OK);
    assert_int_equal(gnutls_x509_crt_init(&crt), 0);
    assert_int_equal(gnutls_x509_crt_set_version(crt, 3), 0);
    assert_int_equal(gnutls_x509_crt_set_serial(crt, "\1", 1), 0);
    assert_int_equal(gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_URI, name,
                                                          sizeof(name) - 1, GNUTLS_FSAN_SET),
                     0);
    assert_int_equal(gnutls_x509_crt_set_activation_time(crt, 1000000000), 0);
    assert_int_equal(gnutls_x509_crt_set_expiration_time(crt, 1002592000), 0);
    assert_int_equal(gnutls_x509_crt_set_key(crt, nx_identity_key(id)), 0);
    assert_int_equal(gnutls_x509_crt_sign2(crt, by, nx_authority_key(a), GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(nx_cert_encode(crt, dated), NEXAR_OK);
    gnutls_x509_crt_deinit(crt);
    gnutls_x509_crt_deinit(by);
}

static void test_dates_in_a_certificate_are_not_read(void **state)
{
    nx_authority *a = authority(&JOB);
    nx_der csr, dated;
    nx_identity *id = applicant(&csr);

    (void)state;
    sign_with_dates(a, id, &dated);
    assert_int_equal(nx_identity_adopt(id, &dated, nx_authority_cert(a)), NEXAR_OK);
    nx_identity_destroy(id);
    nx_authority_destroy(a);
}

/* For tools that check dates, and earlier releases: valid from 1970, without an end. */
static void test_certificates_are_valid_for_readers_of_dates(void **state)
{
    nx_authority *a = authority(&JOB);
    nx_der csr, cert;
    nx_identity *id = applicant(&csr);
    gnutls_x509_crt_t crt, by;

    (void)state;
    assert_int_equal(nx_authority_sign(a, &csr, 3, &cert), NEXAR_OK);
    assert_int_equal(nx_cert_parse(&cert, &crt), NEXAR_OK);
    assert_int_equal(nx_cert_parse(nx_authority_cert(a), &by), NEXAR_OK);
    gnutls_global_set_time_function(tell);
    for (told = 0; told < 0x7f000000; told += 0x01000000) {
        unsigned int status = 1;

        assert_int_equal(gnutls_x509_crt_verify(crt, &by, 1, 0, &status), 0);
        assert_int_equal(status, 0);
    }
    gnutls_global_set_time_function(time);
    assert_true(gnutls_x509_crt_get_expiration_time(crt) == GNUTLS_X509_NO_WELL_DEFINED_EXPIRATION);
    gnutls_x509_crt_deinit(crt);
    gnutls_x509_crt_deinit(by);
    nx_identity_destroy(id);
    nx_authority_destroy(a);
}

/* Whatever one changed byte or a truncation does, nothing crashes, and no request with an invalid
 * signature is signed. */
static void test_malformed_requests_and_certificates_are_refused(void **state)
{
    nx_authority *a = authority(&JOB);
    nx_der csr, cert, out;
    nx_identity *id = applicant(&csr);

    (void)state;
    assert_int_equal(nx_authority_sign(a, &csr, 3, &cert), NEXAR_OK);
    for (size_t i = 0; i < csr.len; i++) {
        nx_der bad = csr, cut = csr;

        bad.data[i] ^= 0x41;
        cut.len = i;
        assert_int_equal(nx_authority_sign(a, &bad, 3, &out), NEXAR_EPROTO);
        assert_int_equal(nx_authority_sign(a, &cut, 3, &out), NEXAR_EPROTO);
    }
    for (size_t i = 0; i < cert.len; i++) {
        nx_der bad = cert, cut = cert;

        bad.data[i] ^= 0x41;
        cut.len = i;
        assert_int_equal(nx_identity_adopt(id, &bad, nx_authority_cert(a)), NEXAR_EAUTH);
        assert_int_equal(nx_identity_adopt(id, &cut, nx_authority_cert(a)), NEXAR_EAUTH);
    }
    csr.len = sizeof(csr.data) + 1;
    assert_int_equal(nx_authority_sign(a, &csr, 3, &out), NEXAR_EPROTO);
    nx_identity_destroy(id);
    nx_authority_destroy(a);
}

/* Makes a certificate with |name| as its URI, signed by its own key. */
static void named(const char *name, nx_der *out)
{
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t crt;

    assert_int_equal(nx_key_generate(&key), NEXAR_OK);
    assert_int_equal(gnutls_x509_crt_init(&crt), 0);
    assert_int_equal(nx_crt_begin(crt, &JOB, 1), NEXAR_OK);
    assert_int_equal(gnutls_x509_crt_set_subject_alt_name(
                         crt, GNUTLS_SAN_URI, name, (unsigned int)strlen(name), GNUTLS_FSAN_SET),
                     0);
    assert_int_equal(gnutls_x509_crt_set_key(crt, key), 0);
    assert_int_equal(gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(nx_cert_encode(crt, out), NEXAR_OK);
    gnutls_x509_crt_deinit(crt);
    gnutls_x509_privkey_deinit(key);
}

static void test_names_have_exactly_one_form(void **state)
{
    static const char *const bad[] = {
        "nexar://0102030000000000000000000000000000/5",
        "nexar://01020300000000000000000000000000/",
        "nexar://01020300000000000000000000000000/05",
        "nexar://01020300000000000000000000000000/5x",
        "nexar://01020300000000000000000000000000/-5",
        "nexar://01020300000000000000000000000000/18446744073709551616",
        "nexar://010203000000000000000000000000/5",
        "nexar://0102030000000000000000000000000g/5",
        "nexar://010203000000000000000000000000AB/5",
        "nexra://01020300000000000000000000000000/5",
        "nexar://01020300000000000000000000000000/1/5",
        "",
    };
    uint64_t member = 77;
    nx_der der;
    nx_job_id job;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        named(bad[i], &der);
        assert_int_equal(nx_cert_names(&der, &job, &member), NEXAR_EAUTH);
    }
    assert_true(member == 77);
    named("nexar://01020300000000000000000000000000/18446744073709551615", &der);
    assert_int_equal(nx_cert_names(&der, &job, &member), NEXAR_OK);
    assert_true(member == UINT64_MAX);
}

static void test_an_exported_authority_comes_back_the_same(void **state)
{
    nx_authority *a = authority(&JOB), *back = NULL;
    nx_pin before, after, of_cert;
    char text[NX_AUTHORITY_TEXT];
    size_t len = 0;
    nx_der csr, cert;
    nx_identity *id = applicant(&csr);

    (void)state;
    assert_int_equal(nx_authority_export(a, text, &len), NEXAR_OK);
    assert_int_equal(nx_authority_import(&back, text, len), NEXAR_OK);
    nx_authority_pin(a, &before);
    nx_authority_pin(back, &after);
    assert_memory_equal(&before, &after, sizeof(before));
    assert_int_equal(nx_cert_pin(nx_authority_cert(back), &of_cert), NEXAR_OK);
    assert_memory_equal(&before, &of_cert, sizeof(before));
    assert_memory_equal(nx_authority_job(back), &JOB, sizeof(JOB));
    assert_int_equal(nx_authority_sign(back, &csr, 4, &cert), NEXAR_OK);
    assert_int_equal(nx_identity_adopt(id, &cert, nx_authority_cert(a)), NEXAR_OK);
    nx_identity_destroy(id);
    nx_authority_destroy(a);
    nx_authority_destroy(back);
}

static void test_a_text_that_is_no_authority_is_refused(void **state)
{
    nx_authority *a = authority(&JOB), *other = authority(&JOB), *back = NULL;
    char text[NX_AUTHORITY_TEXT], mixed[NX_AUTHORITY_TEXT];
    size_t len = 0, key, other_len = 0;

    (void)state;
    assert_int_equal(nx_authority_export(a, text, &len), NEXAR_OK);
    assert_int_equal(nx_authority_import(&back, text, 0), NEXAR_EPROTO);
    assert_int_equal(nx_authority_import(&back, text, 100), NEXAR_EPROTO);
    key = (size_t)((const char *)memmem(text, len, "-----BEGIN CERT", 15) - text);
    assert_int_equal(nx_authority_import(&back, text, key), NEXAR_EPROTO);
    assert_int_equal(nx_authority_import(&back, text + key, len - key), NEXAR_EPROTO);
    /* The key of one identity, the certificate of another. */
    assert_int_equal(nx_authority_export(other, mixed, &other_len), NEXAR_OK);
    memcpy(mixed, text, key);
    assert_int_equal(nx_authority_import(&back, mixed, other_len), NEXAR_EPROTO);
    assert_null(back);
    nx_authority_destroy(a);
    nx_authority_destroy(other);
}

static void test_out_of_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    NXT_FOR_EACH_OOM (n) {
        nx_authority *a = NULL;
        nx_identity *id = NULL;
        nexar_err err = nx_authority_create(&a, &JOB);

        if (err == NEXAR_OK) {
            err = nx_identity_create(&id);
        }
        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
        nx_identity_destroy(id);
        nx_authority_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_signed_request_makes_a_member),
        cmocka_unit_test(test_member_zero_is_never_signed),
        cmocka_unit_test(test_a_certificate_is_adopted_only_with_its_key_and_authority),
        cmocka_unit_test(test_no_time_of_day_makes_a_certificate_wrong),
        cmocka_unit_test(test_dates_in_a_certificate_are_not_read),
        cmocka_unit_test(test_certificates_are_valid_for_readers_of_dates),
        cmocka_unit_test(test_malformed_requests_and_certificates_are_refused),
        cmocka_unit_test(test_names_have_exactly_one_form),
        cmocka_unit_test(test_an_exported_authority_comes_back_the_same),
        cmocka_unit_test(test_a_text_that_is_no_authority_is_refused),
        cmocka_unit_test(test_out_of_memory_leaves_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
