/* checkpoint_known.h - whether all fields of a published config.json are understood. */
#ifndef ATTND_CHECKPOINT_KNOWN_H
#define ATTND_CHECKPOINT_KNOWN_H

#include "checkpoint/checkpoint.h"

/* A field that the family's rows do not read may be null, false or empty, or be one of those that
 * change no attention: what all families ignore, and what the row ignores. Any other is a fault
 * that names it, for the numbers would be wrong without a word. */
bool checkpoint_known_check(const struct checkpoint *checkpoint, const char *model_type,
                            struct fault *fault);

#endif
