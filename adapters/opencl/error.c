/* error.c - messages of failed OpenCL calls, available to any thread. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "inner.h"

enum { ROOM = 512 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char last[ROOM];

nexar_err nx_cl_refuse(nexar_err err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)pthread_mutex_lock(&lock);
    (void)vsnprintf(last, sizeof(last), format, args);
    (void)pthread_mutex_unlock(&lock);
    va_end(args);
    return err;
}

static bool is_memory(cl_int code)
{
    return (code == CL_OUT_OF_HOST_MEMORY) || (code == CL_OUT_OF_RESOURCES) ||
           (code == CL_MEM_OBJECT_ALLOCATION_FAILURE);
}

nexar_err nx_cl_failed(const char *call, cl_int code)
{
    return nx_cl_refuse(is_memory(code) ? NEXAR_ENOMEM : NEXAR_EDEVICE, "%s returned %d", call,
                        (int)code);
}

const char *nexar_opencl_last_error(void)
{
    static _Thread_local char mine[ROOM];

    (void)pthread_mutex_lock(&lock);
    memcpy(mine, last, sizeof(mine));
    (void)pthread_mutex_unlock(&lock);
    return mine;
}
