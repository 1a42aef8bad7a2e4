/* cert_fuzz.c - certificates and requests of any bytes: decoded names have their canonical form,
 * and only requests with a valid signature are signed. */
#include <string.h>

#include "fuzz.h"
#include "transport/identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const nx_job_id job = {{1}};
    static nx_authority *authority; /* kept: making one costs a millisecond */
    nx_der der = {.len = (size < NX_CERT_MAX) ? size : NX_CERT_MAX}, out;
    uint64_t member = 5;
    nx_job_id found = job;
    nexar_err err;
    nx_pin pin;

    if (authority == NULL) {
        nxt_must(nx_authority_create(&authority, &job) == NEXAR_OK);
    }
    memcpy(der.data, data, der.len);
    err = nx_cert_names(&der, &found, &member);
    nxt_must((err == NEXAR_OK) || ((err == NEXAR_EAUTH) && (member == 5)));
    err = nx_cert_pin(&der, &pin);
    nxt_must((err == NEXAR_OK) || (err == NEXAR_EAUTH));
    err = nx_authority_sign(authority, &der, 7, &out);
    nxt_must((err == NEXAR_OK) || (err == NEXAR_EPROTO));
    if (err == NEXAR_OK) {
        nxt_must((nx_cert_names(&out, &found, &member) == NEXAR_OK) && (member == 7) &&
                 (memcmp(&found, &job, sizeof(job)) == 0));
    }
    return 0;
}
