/* region_key.c - see region_key.h. */
#include "regions/region_key.h"

#include <limits.h>
#include <string.h>

/* The slash that a name of shm_open() may begin with is no part of the name. */
static const char *without_slash(const char *key)
{
    return key + (key[0] == '/');
}

bool region_prefixes_check(const struct region_prefixes *prefixes, struct fault *fault)
{
    for (int i = 0; i < prefixes->count; i++)
        if (strchr(without_slash(prefixes->items[i]), '/'))
            return fault_set(fault, FAULT_OPTION,
                             "--shared-memory-prefix: '%.80s' came; expected how keys begin, as in "
                             "/input_, with no second /",
                             prefixes->items[i]);
    return true;
}

static bool is_name(const char *name)
{
    const size_t length = strlen(name);
    for (size_t i = 0; i < length; i++)
        if (name[i] == '/' || (unsigned char)name[i] < ' ' || name[i] == 127)
            return false;
    return length > 0 && length <= NAME_MAX && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static bool is_allowed(const char *name, const struct region_prefixes *prefixes)
{
    for (int i = 0; i < prefixes->count; i++) {
        const char *prefix = without_slash(prefixes->items[i]);
        if (strncmp(name, prefix, strlen(prefix)) == 0)
            return true;
    }
    return false;
}

const char *region_key_file(const char *key, const struct region_prefixes *prefixes,
                            struct fault *fault)
{
    const char *name = without_slash(key);
    if (!is_name(name)) {
        fault_set_at(fault, "/key", FAULT_OPTION,
                     "key is '%.80s'; expected a name as shm_open() takes it: / and 1 to %d bytes, "
                     "without a further / or control characters",
                     key, NAME_MAX);
        return NULL;
    }
    if (is_allowed(name, prefixes))
        return name;
    fault_set_at(fault, "/key", FAULT_FORBIDDEN,
                 "key '%.80s' begins with no prefix that the operator allows "
                 "(--shared-memory-prefix)",
                 key);
    return NULL;
}
