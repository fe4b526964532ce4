/* status.c - the names and messages of enum attn_status, and the names of precisions, from the
 * lists in attn.h, so that a new one cannot be forgotten here. */
#include "attn.h"

const char *attn_status_name(enum attn_status status)
{
    switch (status) {
#define X(name, message)                                                                           \
    case ATTN_##name:                                                                              \
        return "ATTN_" #name;
        ATTN_STATUS_MAP(X)
#undef X
    }
    return "ATTN_UNKNOWN";
}

const char *attn_status_message(enum attn_status status)
{
    switch (status) {
#define X(name, message)                                                                           \
    case ATTN_##name:                                                                              \
        return message;
        ATTN_STATUS_MAP(X)
#undef X
    }
    return "unknown status";
}

const char *attn_precision_name(enum attn_precision precision)
{
    static const char *const names[] = {
#define X(NAME, name, parts) #name,
        ATTN_PRECISION_MAP(X)
#undef X
    };

    return names[precision];
}
