/*
 * early_replay.h - the frames that arrived for a communicator before it was made here.
 *
 * They are kept unchanged (msg/matching/early_frames.h), and passed to the modules that handle
 * them.  They are old, so they do not count as signs of life of their senders.
 */
#ifndef NX_EARLY_REPLAY_H
#define NX_EARLY_REPLAY_H

#include "core/world/world.h"

/* Communicator |id| was made, and is in |world|.  With the loop's lock held. */
void nx_early_opened(nx_world *world, uint32_t id);

#endif /* NX_EARLY_REPLAY_H */
