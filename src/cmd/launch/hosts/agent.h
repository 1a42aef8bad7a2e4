/*
 * agent.h - the ranks of one host, for a launcher on another: `nexar run --agent`.
 *
 * stdin and stdout carry agent_frame.h.  The agent decides nothing: it starts ranks, passes their
 * output on, and signals and ends them when the launcher says so, or has gone.
 */
#ifndef NX_AGENT_H
#define NX_AGENT_H

/* Stays until all ranks have ended, or the launcher has gone.  Returns an exit code, which says
 * nothing of the ranks. */
int nx_agent_run(void);

#endif /* NX_AGENT_H */
