/* access_scope.c - see access_scope.h. */
#include "access/access_scope.h"

#include "base/names.h"

#include <string.h>

static const char *const NAMES[ACCESS_SCOPE_COUNT] = { [ACCESS_OPEN] = "",
                                                       [ACCESS_ANY] = "",
#define X(name, text) [ACCESS_##name] = (text),
                                                       ACCESS_SCOPE_MAP(X)
#undef X
};

const char *access_scope_name(enum access_scope scope)
{
    return NAMES[scope];
}

enum access_scope access_scope_find(const char *name)
{
    for (int i = ACCESS_ANY + 1; i < ACCESS_SCOPE_COUNT; i++)
        if (strcmp(NAMES[i], name) == 0)
            return (enum access_scope)i;
    return ACCESS_OPEN;
}

const char *access_scope_nearest(const char *name)
{
    return nearest_name(name, NAMES + ACCESS_ANY + 1, ACCESS_SCOPE_COUNT - ACCESS_ANY - 1);
}

const char *access_scope_names(void)
{
#define X(name, text) ", " text
    static const char names[] = ACCESS_SCOPE_MAP(X);
#undef X
    return names + 2;
}

bool access_scope_held(unsigned scopes, enum access_scope scope)
{
    if (scope == ACCESS_OPEN || scope == ACCESS_ANY || scopes & 1u << ACCESS_ADMIN)
        return true;
    if (scope == ACCESS_SESSIONS && scopes & 1u << ACCESS_SESSIONS_ALL)
        return true;
    return (scopes & 1u << scope) != 0;
}
