/* SPDX-License-Identifier: Apache-2.0 */
/* session_path.c - the parameters of a session's path, checked before the store is asked. */
#include "operations/session/session_path.h"

enum { NAME_BYTES = ACCESS_NAME_MAX + 2 }; /* a longer one is cut, and stays too long */

/* NULL: nobody is named. */
static const char *read_owner(const struct exchange *exchange, char name[NAME_BYTES])
{
    return exchange_query(exchange, SESSION_PATH_OWNER, name, NAME_BYTES) ? name : NULL;
}

static bool check_names(const struct exchange *exchange, struct fault *fault)
{
    static const char *const NAMES[] = { SESSION_PATH_OWNER };
    return exchange_check_query(exchange, NAMES, 1, fault);
}

struct session *session_path_look(const struct exchange *exchange, struct session_store *store,
                                  struct fault *fault)
{
    char owner[NAME_BYTES];
    return session_store_look(store, exchange_param(exchange, 0), read_owner(exchange, owner),
                              exchange_key(exchange), fault);
}

struct session *session_path_find(const struct exchange *exchange, struct session_store *store,
                                  struct fault *fault)
{
    char owner[NAME_BYTES];
    return check_names(exchange, fault)
               ? session_store_find(store, exchange_param(exchange, 0), read_owner(exchange, owner),
                                    exchange_key(exchange), fault)
               : NULL;
}

struct session *session_path_find_to_call(const struct exchange *exchange,
                                          struct session_store *store, struct fault *fault)
{
    char owner[NAME_BYTES];
    return check_names(exchange, fault)
               ? session_store_find_to_call(store, exchange_param(exchange, 0),
                                            read_owner(exchange, owner), exchange_key(exchange),
                                            fault)
               : NULL;
}

bool session_path_check_new(const struct exchange *exchange, struct fault *fault)
{
    char owner[NAME_BYTES];
    if (read_owner(exchange, owner))
        return fault_set(fault, FAULT_FIELD,
                         "owner is '%.64s'; a new session is for the key that makes it: leave "
                         "owner out, or make it with a key of that name",
                         owner);
    return exchange_check_query(exchange, NULL, 0, fault);
}

bool session_path_read_owner(const struct exchange *exchange, struct access_keys *keys,
                             struct access_key **owner, struct fault *fault)
{
    char name[NAME_BYTES];
    *owner = NULL;
    if (!check_names(exchange, fault))
        return false;
    if (!read_owner(exchange, name))
        return true;
    if (!keys)
        return fault_set(fault, FAULT_FIELD, "owner is '%.64s'; no keys are in use here (--keys)",
                         name);
    if (!access_check_scope(exchange_key(exchange), ACCESS_SESSIONS_ALL, fault))
        return false;
    *owner = access_keys_find_name(keys, name);
    return *owner
           || fault_set(fault, FAULT_NOT_FOUND, "owner is '%.64s'; no key has this name here",
                        name);
}
