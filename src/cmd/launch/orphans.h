/*
 * orphans.h - ends all descendants of this process.
 *
 * A process that has called nx_orphans_adopt() adopts the descendants whose parents have exited,
 * also descendants in other sessions. So it can find and end all of them.
 */
#ifndef NX_ORPHANS_H
#define NX_ORPHANS_H

void nx_orphans_adopt(void);

/* Kills and reaps all children, then the orphans that they leave, until none is left. Waits at
 * most 10 s for a process to exit. */
void nx_orphans_end(void);

#endif /* NX_ORPHANS_H */
