/* checkpoint_known.h - checks that all fields of a published config.json are understood. */
#ifndef ATTND_CHECKPOINT_KNOWN_H
#define ATTND_CHECKPOINT_KNOWN_H

#include "checkpoint/checkpoint.h"

/* Passes fields that the family's rows read; fields that are null, false or empty; and fields that
 * change no attention, which are listed here for all families and in a row for its own. Any other
 * field is a fault that names it, because without it the numbers could be wrong and nobody would
 * know. */
bool checkpoint_known_check(const struct checkpoint *checkpoint, const char *model_type,
                            struct fault *fault);

#endif
