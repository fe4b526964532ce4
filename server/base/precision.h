/* precision.h - the names of attn.h's precisions in requests, models and flags. */
#ifndef ATTND_PRECISION_H
#define ATTND_PRECISION_H

#include "attn.h"

/* For messages. */
#define PRECISION_NAMES "highest, high or medium"

/* Sets *precision to that of this name. False where there is none. */
bool precision_find(const char *name, enum attn_precision *precision);

#endif
