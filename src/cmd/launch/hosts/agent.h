/*
 * agent.h - the ranks of one host, for a launcher on another: `nexar run --agent`.
 *
 * stdin and stdout carry agent_frame.h. The agent decides nothing: it starts ranks, passes their
 * output on, and signals and ends them when the launcher requests it or has exited.
 */
#ifndef NX_AGENT_H
#define NX_AGENT_H

/* Returns when all ranks have ended or the launcher has exited. The exit code does not depend on
 * the ranks. */
int nx_agent_run(void);

#endif /* NX_AGENT_H */
