/* status.c - the names and messages of enum attn_status, from the one list in attn.h, so that a
 * new status cannot be forgotten here. */
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
