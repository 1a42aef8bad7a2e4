/*
 * suite.h - shared by the collective suites: all checks of one case, thinning under sanitizers,
 * and the final line.
 */
#ifndef NXT_SUITE_H
#define NXT_SUITE_H

#include "world_fixture.h"

/* Builds |c|, proves that its steps are ordered, and runs it |seeds| times, each time with other
 * data and another order of events. Ends the test with a full report on any error. The dtype and
 * op are drawn from the case's seed, among those that are legal for its kind. */
void nxt_check(const nxt_case *c, uint32_t seeds);

/* The same with |dtype| and |op|; the case has |average| exactly with NEXAR_AVG. */
void nxt_check_as(const nxt_case *c, nexar_dtype dtype, nexar_op op, uint32_t seeds);

/* Ends the test: |v| is what is wrong with |c|; |t| may be NULL. */
void nxt_fail_case(const nxt_case *c, const nxt_trial *t, const nxt_verdict *v);

/* Draws a type and an op that |kind| allows. */
void nxt_draw_type(nx_coll_kind kind, uint64_t seed, nexar_dtype *dtype, nexar_op *op);

/* Whether to omit the case with this number: most cases under sanitizers and with NXT_FAST, so
 * that the suite stays short. */
bool nxt_thin(uint64_t number);

/* Calls |each| with every row of the table whose kind is chosen. */
typedef void (*nxt_on_row)(const nx_algorithm *row);
void nxt_for_rows(nxt_on_row each);

/* Chooses the kinds by name ("allreduce", ...); none: all.  Ends the program if
 * a name is unknown. */
void nxt_choose_kinds(int n, char *const *names);
bool nxt_chosen(nx_coll_kind kind);

/* Prints the amount and the duration of the simulation since the program started. */
void nxt_report(const char *suite);

#endif /* NXT_SUITE_H */
