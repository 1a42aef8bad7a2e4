/*
 * orphans.h - ends all that comes from this process.
 *
 * A process that has called nx_orphans_adopt() gets the descendants whose parents
 * have died, also those that made a session of their own; so it can find and end
 * every one of them.
 */
#ifndef NX_ORPHANS_H
#define NX_ORPHANS_H

void nx_orphans_adopt(void);

/* Kills and reaps the children that there are, then those that they leave, until
 * there are none.  Waits for each to be gone, at most some seconds. */
void nx_orphans_end(void);

#endif /* NX_ORPHANS_H */
