/* device.c - checks, copies and reference-counts the table of an adapter. */
#include "device/device.h"

#include "base/alloc.h"
#include "device_inner.h"

static nexar_err check(const char *call, const nexar_device *table)
{
    const char *missing = NULL;

    if (table->to_host == NULL) {
        missing = "to_host";
    } else if (table->to_device == NULL) {
        missing = "to_device";
    } else if (table->synchronize == NULL) {
        missing = "synchronize";
    }
    if (missing != NULL) {
        return nx_fail(NEXAR_EINVAL,
                       "%s: the device %s has no %s; to_host, to_device and synchronize are "
                       "required, the others may be NULL",
                       call, (table->name == NULL) ? "without a name" : table->name, missing);
    }
    if (table->name == NULL) {
        return nx_fail(NEXAR_EINVAL, "%s: the device has no name; it is said in errors", call);
    }
    return NEXAR_OK;
}

nexar_err nx_device_create(const char *call, const nexar_device *table, nx_device **out)
{
    nexar_err err = check(call, table);
    nx_device *d;

    if (err != NEXAR_OK) {
        return err;
    }
    d = nx_zalloc(sizeof(*d));
    if (d == NULL) {
        return nx_fail_nomem("a device");
    }
    d->name = nx_strdup(table->name);
    if (d->name == NULL) {
        nx_free(d);
        return nx_fail_nomem("the name of a device");
    }
    d->table = *table;
    d->table.name = d->name;
    atomic_init(&d->holds, 1);
    (void)pthread_mutex_init(&d->lock, NULL);
    (void)pthread_cond_init(&d->freed, NULL);
    for (unsigned s = 0; s < NX_STAGES; s++) {
        nx_list_init(&d->free[s]);
    }
    nx_list_init(&d->open);
    *out = d;
    return NEXAR_OK;
}

void nx_device_hold(nx_device *d)
{
    atomic_fetch_add(&d->holds, 1);
}

void nx_device_release(nx_device *d)
{
    if ((d == NULL) || (atomic_fetch_sub(&d->holds, 1) != 1)) {
        return;
    }
    nx_staging_fini(d);
    (void)pthread_cond_destroy(&d->freed);
    (void)pthread_mutex_destroy(&d->lock);
    nx_free(d->name);
    nx_free(d);
}

const char *nx_device_name(const nx_device *d)
{
    return d->name;
}

bool nx_device_plain(const nx_device *d)
{
    return d->table.host_addressable;
}

nexar_err nx_device_failed(const nx_device *d, const char *function, nexar_err code)
{
    return nx_fail(NEXAR_EDEVICE, "the device %s failed: its %s returned %s (%d)", d->name,
                   function, nexar_err_name(code), (int)code);
}

void nx_device_stats_get(nx_device *d, nx_device_stats *out)
{
    *out = (nx_device_stats){.to_host = atomic_load(&d->to_host),
                             .to_device = atomic_load(&d->to_device),
                             .reduced_there = atomic_load(&d->reduced_there),
                             .reduced = atomic_load(&d->reduced),
                             .pinned = atomic_load(&d->pinned),
                             .overlapped = atomic_load(&d->overlapped)};
}
