/* access_account.c - see access_account.h.
 *
 * The accounts are a balanced tree (tsearch of the C library), sorted by name. The tree holds no
 * reference: the release of the last one takes the account out, under the lock. */
#include "access/access_account.h"

#include "base/clock.h"

#include <assert.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

struct access_accounts {
    pthread_mutex_t lock;
    void *by_name; /* a tree of struct access_account */
};

struct access_accounts *access_accounts_create(void)
{
    struct access_accounts *accounts = calloc(1, sizeof *accounts);
    if (accounts)
        pthread_mutex_init(&accounts->lock, NULL);
    return accounts;
}

void access_accounts_free(struct access_accounts *accounts)
{
    if (!accounts)
        return;
    assert(!accounts->by_name);
    pthread_mutex_destroy(&accounts->lock);
    free(accounts);
}

static int compare_names(const void *a, const void *b)
{
    const struct access_account *first = a, *second = b;
    return strcmp(first->name, second->name);
}

static void destroy(struct access_account *account)
{
    access_quota_free(&account->quota);
    free(account);
}

/* The account of the same name as wanted, which is put into the tree where there is none. The
 * caller holds the lock. NULL: no memory. */
static struct access_account *find_or_add(struct access_accounts *accounts,
                                          struct access_account *wanted)
{
    struct access_account **place = tsearch(wanted, &accounts->by_name, compare_names);
    return place ? *place : NULL;
}

struct access_account *access_accounts_hold(struct access_accounts *accounts, const char *name)
{
    struct access_account *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return NULL;
    memcpy(fresh->name, name, strlen(name) + 1);
    fresh->owner = accounts;
    access_limits_init(&fresh->limits);
    access_quota_init(&fresh->quota, fresh->name);
    fresh->share.weight = fresh->limits.weight;
    pthread_mutex_lock(&accounts->lock);
    struct access_account *account = find_or_add(accounts, fresh);
    if (account)
        account->holders++;
    pthread_mutex_unlock(&accounts->lock);
    if (account != fresh)
        destroy(fresh);
    return account;
}

struct access_account *access_account_hold(struct access_account *account)
{
    pthread_mutex_lock(&account->owner->lock);
    account->holders++;
    pthread_mutex_unlock(&account->owner->lock);
    return account;
}

void access_account_release(struct access_account *account)
{
    if (!account)
        return;
    struct access_accounts *owner = account->owner;
    pthread_mutex_lock(&owner->lock);
    const bool is_last = --account->holders == 0;
    if (is_last)
        tdelete(account, &owner->by_name, compare_names);
    pthread_mutex_unlock(&owner->lock);
    if (is_last)
        destroy(account);
}

void access_account_limit(struct access_account *account, const struct access_limits *limits)
{
    pthread_mutex_lock(&account->owner->lock);
    account->limits = *limits;
    account->share.weight = limits->weight;
    atomic_store(&account->session_bytes_max, (size_t)limits->session_bytes);
    pthread_mutex_unlock(&account->owner->lock);
    access_quota_limit(&account->quota, limits, clock_now_ns());
}

struct visitor {
    void (*visit)(void *context, struct access_account *account);
    void *context;
};

static void visit_node(const void *node, VISIT order, void *context)
{
    const struct visitor *visitor = context;
    if (order == postorder || order == leaf) /* "postorder" is between the two subtrees */
        visitor->visit(visitor->context, *(struct access_account *const *)node);
}

void access_accounts_each(struct access_accounts *accounts,
                          void (*visit)(void *context, struct access_account *account),
                          void *context)
{
    struct visitor visitor = { visit, context };
    pthread_mutex_lock(&accounts->lock);
    twalk_r(accounts->by_name, visit_node, &visitor);
    pthread_mutex_unlock(&accounts->lock);
}
