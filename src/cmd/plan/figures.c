/* figures.c - bytes, times and rates in few characters. */
#include "figures.h"

#include <stddef.h>
#include <stdio.h>

/* Three significant digits, without trailing zeros: "8", "1.25", "12.5", "640". */
static void put(double value, const char *unit, char *buf)
{
    int digits = (value < 9.995) ? 2 : (value < 99.95) ? 1 : 0;
    int len = snprintf(buf, NX_FIGURE_ROOM, "%.*f", digits, value);

    for (; (digits > 0) && (buf[len - 1] == '0'); digits--) {
        len--;
    }
    len -= (buf[len - 1] == '.');
    (void)snprintf(buf + len, (size_t)(NX_FIGURE_ROOM - len), " %s", unit);
}

const char *nx_figure_bytes(uint64_t bytes, char *buf)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t u = 0;

    while ((value >= 1023.5) && (u < 6)) {
        value /= 1024;
        u++;
    }
    put(value, units[u], buf);
    return buf;
}

const char *nx_figure_time(double seconds, char *buf)
{
    if (seconds <= 0) {
        (void)snprintf(buf, NX_FIGURE_ROOM, "0 s");
    } else if (seconds < 0.9995e-6) {
        put(seconds * 1e9, "ns", buf);
    } else if (seconds < 0.9995e-3) {
        put(seconds * 1e6, "us", buf);
    } else if (seconds < 0.9995) {
        put(seconds * 1e3, "ms", buf);
    } else if (seconds < 999.5) {
        put(seconds, "s", buf);
    } else if (seconds < 100.0 * 3600) {
        put(seconds / 3600, "h", buf);
    } else {
        put(seconds / 86400, "days", buf);
    }
    return buf;
}

const char *nx_figure_rate(double rate, char *buf)
{
    double bits = 8 * rate;

    if (bits >= 0.9995e12) {
        put(bits / 1e12, "Tbit/s", buf);
    } else if (bits >= 0.9995e9) {
        put(bits / 1e9, "Gbit/s", buf);
    } else if (bits >= 0.9995e6) {
        put(bits / 1e6, "Mbit/s", buf);
    } else {
        put(bits / 1e3, "kbit/s", buf);
    }
    return buf;
}

const char *nx_figure_flow(double rate, char *buf)
{
    if (rate >= 0.9995e9) {
        put(rate / 1e9, "GB/s", buf);
    } else if (rate >= 0.9995e6) {
        put(rate / 1e6, "MB/s", buf);
    } else {
        put(rate / 1e3, "kB/s", buf);
    }
    return buf;
}
