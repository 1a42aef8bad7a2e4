/* figures.h - human-readable bytes, times and rates, in few characters. */
#ifndef NX_FIGURES_H
#define NX_FIGURES_H

#include <stdint.h>

enum { NX_FIGURE_ROOM = 32 }; /* bytes that each of these needs */

/* "64 MiB", "127.9 KiB", "8 B". */
const char *nx_figure_bytes(uint64_t bytes, char *buf);
/* "812 us", "4.39 s", "2 h". */
const char *nx_figure_time(double seconds, char *buf);
/* "10 Gbit/s", from bytes per second. */
const char *nx_figure_rate(double rate, char *buf);
/* "1.25 GB/s", from bytes per second. */
const char *nx_figure_flow(double rate, char *buf);

#endif /* NX_FIGURES_H */
