/*
 * cost_sim.h - the real schedules of all ranks, run in virtual time without data.
 *
 * The model of a message:
 *
 *   1. a send whose dependencies are complete takes the sender's CPU for message_cpu
 *      (local_cpu inside a host);
 *   2. it takes the sender's output for bytes / bandwidth, first come first served: the host's NIC,
 *      which the ranks of the host share, or inside a host the rank's own port at local_bandwidth;
 *   3. its head reaches the receiver's input (the host's NIC or the rank's
 *      port) after the latency, and its bytes occupy the input for bytes / bandwidth;
 *   4. when it has arrived and the receive's dependencies are complete, it takes the
 *      receiver's CPU for the same time, and for bytes / reduce_bandwidth if it is
 *      combined on arrival.
 *
 * A send is done, for steps that wait to overwrite its block, when the message has arrived and its
 * acknowledgement has taken the latency once more.  Local steps take the CPU for bytes /
 * reduce_bandwidth; the hook takes no time.  A rank has one CPU and performs one action at a time,
 * in the order in which actions became ready.
 *
 * There is no randomness: equal input gives equal output, to the last bit.
 */
#ifndef NX_COST_SIM_H
#define NX_COST_SIM_H

#include "coll/cost/forecast.h"

/* Builds the schedule of |rank| into |s|, which is initialised and is given back
 * by the caller. */
typedef nexar_err (*nx_rank_builder)(void *ctx, uint32_t rank, nx_sched *s);

/*
 * Runs the schedules of all |f->net->ranks| ranks. |f| gets the time when the last rank has its
 * result (acknowledgements that no step waits for do not count). It also gets the length of the
 * longest chain of dependent messages, and the largest number of messages and elements that one
 * rank sends.
 *
 * Costs 24 bytes per step and 4 per wait, beside one rank's schedule at a time.
 * |f| is untouched on error:
 *
 * NEXAR_ENOMEM
 *     Out of memory, or more than 2^32 - 1 steps or waits.
 * NEXAR_EINTERNAL
 *     A message has no receiver, or some step can never run: the builder is
 *     wrong.
 * What |build| returns.
 */
NX_MUST_CHECK nexar_err nx_cost_simulate(nx_rank_builder build, void *ctx, size_t segment,
                                         nx_forecast *f);

#endif /* NX_COST_SIM_H */
