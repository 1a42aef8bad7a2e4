/* cpu.c - host memory as a device: the smallest adapter. */
#include <string.h>

#include <nexar.h>

static nexar_err copy(void *ctx, void *to, const void *from, size_t bytes, void *stream)
{
    (void)ctx;
    (void)stream;
    if (bytes != 0) {
        memcpy(to, from, bytes);
    }
    return NEXAR_OK;
}

static nexar_err synchronize(void *ctx, void *stream)
{
    (void)ctx;
    (void)stream;
    return NEXAR_OK;
}

const nexar_device *nexar_cpu_device(void)
{
    static const nexar_device cpu = {.name = "cpu",
                                     .host_addressable = true,
                                     .to_host = copy,
                                     .to_device = copy,
                                     .synchronize = synchronize};

    return &cpu;
}
