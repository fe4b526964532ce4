/* SPDX-License-Identifier: Apache-2.0 */
/* access_key.c - scopes, holders of a key, models' patterns, refusals. */
#include "access/access_key.h"

#include "base/names.h"

#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------- scopes -- */

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

/* Whether scopes, one bit 1 << scope for each, hold this one: OPEN and ANY are held by all. */
static bool access_scope_held(unsigned scopes, enum access_scope scope)
{
    if (scope == ACCESS_OPEN || scope == ACCESS_ANY || scopes & 1u << ACCESS_ADMIN)
        return true;
    if (scope == ACCESS_SESSIONS && scopes & 1u << ACCESS_SESSIONS_ALL)
        return true;
    return (scopes & 1u << scope) != 0;
}

/* ------------------------------------------------------------------- keys -- */

struct access_key *access_key_create(void)
{
    struct access_key *key = calloc(1, sizeof *key);
    if (!key)
        return NULL;
    atomic_store(&key->holders, 1);
    access_limits_init(&key->limits);
    return key;
}

struct access_key *access_key_hold(struct access_key *key)
{
    if (key)
        atomic_fetch_add_explicit(&key->holders, 1, memory_order_relaxed);
    return key;
}

void access_key_release(struct access_key *key)
{
    if (!key || atomic_fetch_sub_explicit(&key->holders, 1, memory_order_acq_rel) > 1)
        return;
    access_account_release(key->account);
    free(key->patterns);
    free(key);
}

bool access_key_may(const struct access_key *key, enum access_scope scope)
{
    return !key || access_scope_held(key->scopes, scope);
}

/* Whether the whole name matches the pattern, in which * stands for any characters, none too. Only
 * the last * that was met can have to take more characters, so the time is bounded by the product
 * of the two lengths. */
static bool matches(const char *pattern, const char *name)
{
    const char *star = NULL, *taken = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            taken = name;
        } else if (*pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++taken;
        } else {
            return false;
        }
    }
    return pattern[strspn(pattern, "*")] == '\0';
}

bool access_key_may_infer(const struct access_key *key, const char *model)
{
    if (!access_key_may(key, ACCESS_INFER))
        return false;
    if (!key || !key->patterns || key->scopes & 1u << ACCESS_ADMIN)
        return true;
    for (const char *pattern = key->patterns; *pattern; pattern += strlen(pattern) + 1)
        if (matches(pattern, model))
            return true;
    return false;
}

bool access_key_is_expired(const struct access_key *key, int64_t now_s)
{
    return now_s >= key->limits.expires_s;
}

static void write_infer(const struct access_key *key, struct text *text)
{
    text_raw(text, access_scope_name(ACCESS_INFER));
    const char *before = ":";
    for (const char *p = key->patterns; p && *p; p += strlen(p) + 1, before = ",") {
        text_raw(text, before);
        text_raw(text, p);
    }
}

void access_key_write_scopes(const struct access_key *key, struct text *text)
{
    const char *before = "";
    for (int i = ACCESS_ANY + 1; i < ACCESS_SCOPE_COUNT; i++) {
        if (!(key->scopes & 1u << i))
            continue;
        text_raw(text, before);
        before = ",";
        if (i == ACCESS_INFER)
            write_infer(key, text);
        else
            text_raw(text, access_scope_name((enum access_scope)i));
    }
}

void access_key_write(const struct access_key *key, struct text *text)
{
    text_format(text, "%s ", key->name);
    for (int i = 0; key->has_hash && i < ACCESS_HASH_BYTES; i++)
        text_format(text, "%02x", key->hash[i]);
    text_raw(text, key->has_hash ? " " : "- ");
    access_key_write_scopes(key, text);
    access_limits_write(&key->limits, text);
}

struct job_share *access_key_share(const struct access_key *key)
{
    return key ? &key->account->share : NULL;
}

/* --------------------------------------------------------------- refusals -- */

bool access_check_scope(const struct access_key *key, enum access_scope scope, struct fault *fault)
{
    if (access_key_may(key, scope))
        return true;
    return fault_set(fault, FAULT_SCOPE, "this key has no scope '%s'; send a key that has it%s",
                     access_scope_name(scope),
                     scope == ACCESS_ADMIN ? "" : ", or that has 'admin'");
}

bool access_check_model(const struct access_key *key, const char *model, struct fault *fault)
{
    if (access_key_may_infer(key, model))
        return true;
    return fault_set(fault, FAULT_SCOPE,
                     "this key has no scope 'infer:%.128s'; send a key that has it, or that has "
                     "'infer' without models",
                     model);
}
