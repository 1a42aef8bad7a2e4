/* local_world.h - ranks as threads of a test, over the real transports. */
#ifndef NXT_LOCAL_WORLD_H
#define NXT_LOCAL_WORLD_H

#include <nexar.h>

/* Forms a world of |n| ranks with the settings of |cfg| (may be NULL), runs |fn| on each in its
 * own thread, and finalizes. |fn| uses the checks below: a failed check ends the process with
 * the rank, the source line and nexar's message. */
void nxt_local_world(int n, const nexar_config *cfg, void (*fn)(nexar_comm *world, void *arg),
                     void *arg);

void nxt_rank_check(nexar_comm *world, int ok, const char *what, const char *file, int line);

/* Checks that |got| is |want| and that the last error message contains |part|. */
void nxt_rank_says(nexar_comm *world, nexar_err got, nexar_err want, const char *part,
                   const char *file, int line);

#define NXT_SAYS(world, got, want, part) \
    nxt_rank_says((world), (got), (want), (part), __FILE__, __LINE__)
#define NXT_OK(world, call) nxt_rank_check((world), (call) == NEXAR_OK, #call, __FILE__, __LINE__)
#define NXT_IS(world, condition) \
    nxt_rank_check((world), (condition), #condition, __FILE__, __LINE__)

/* Fills or checks |bytes| bytes that depend on |seed| and on the position. */
void nxt_fill(void *buf, size_t bytes, uint64_t seed);
int nxt_filled(const void *buf, size_t bytes, uint64_t seed);

/* Runs an allreduce of |n| floats; checks the result if it succeeds. */
nexar_err nxt_sum_all(nexar_comm *c, size_t n);

#endif /* NXT_LOCAL_WORLD_H */
