/*
 * p2p_args.h - checks the arguments of message calls; |name| is the call's, for messages.
 *
 * Each returns NEXAR_EINVAL and says what is accepted.
 */
#ifndef NX_P2P_ARGS_H
#define NX_P2P_ARGS_H

#include "core/comm/comm.h"

NX_MUST_CHECK nexar_err nx_p2p_check_dest(const char *name, const nexar_comm *comm, int dest,
                                          uint64_t tag);
NX_MUST_CHECK nexar_err nx_p2p_check_source(const char *name, const nexar_comm *comm, int source);
NX_MUST_CHECK nexar_err nx_p2p_check_memory(const char *name, const void *ptr, size_t bytes);
/* Whether sent and received memory are disjoint. */
NX_MUST_CHECK nexar_err nx_p2p_check_apart(const char *name, const nx_bytes *out,
                                           const nx_iov_span *in);
NX_MUST_CHECK nexar_err nx_p2p_check_regions(const char *name, const nexar_iov *iov, size_t n);

#endif /* NX_P2P_ARGS_H */
