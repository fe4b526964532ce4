/* precision.c - see precision.h. */
#include "base/precision.h"

#include <string.h>

bool precision_find(const char *name, enum attn_precision *precision)
{
    for (int i = 0; i < ATTN_PRECISION_COUNT; i++)
        if (strcmp(attn_precision_name((enum attn_precision)i), name) == 0) {
            *precision = (enum attn_precision)i;
            return true;
        }
    return false;
}
