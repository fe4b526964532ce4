/* SPDX-License-Identifier: Apache-2.0 */
/* access_account.c - limits from text and to text, the token bucket, what requests use, accounts by
 * name. */
#include "access/access_account.h"

#include "base/clock.h"
#include "base/names.h"
#include "host/config_value.h"
#include "telemetry/key_metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ----------------------------------------------------------------- limits -- */

/* LIMITS is the one list of limits: name, kind of value, field, bounds and what a message says that
 * a value is. Reading, writing, --help and the suggestion for a mistyped name come from it. */

enum limit_kind { DECIMAL, INTEGER, SIZE, TIME, DATE };

struct limit {
    const char *name;
    enum limit_kind kind;
    size_t field; /* its offset in struct access_limits: a double for DECIMAL, else an int64_t */
    double min, max;
    const char *help;
};

enum { NS_PER_MS = 1000000, TEXT_SHOWN = 28, NUMBER_BYTES = CONFIG_VALUE_SHOWN };

#define FIELD(name) offsetof(struct access_limits, name)
#define COUNT_MOST  1e6
#define BYTES_MOST  ((double)(INT64_C(1) << 40))
#define TIME_MOST   (86400e9)

static const struct limit LIMITS[ACCESS_LIMIT_COUNT] = {
    { "cpu", DECIMAL, FIELD(cpu), 0.001, 1024, "CPU seconds a second, as in 0.5" },
    { "burst", TIME, FIELD(burst_ns), NS_PER_MS, TIME_MOST,
      "CPU time that may be saved up, in ms, s, m or h as in 500ms" },
    { "in-flight", INTEGER, FIELD(in_flight), 1, COUNT_MOST, "a number of requests" },
    { "memory", SIZE, FIELD(memory_bytes), 1, BYTES_MOST, "bytes, or KiB, MiB or GiB as in 64MiB" },
    { "sessions", INTEGER, FIELD(sessions), 1, COUNT_MOST, "a number of sessions" },
    { "session-memory", SIZE, FIELD(session_bytes), 1, BYTES_MOST,
      "bytes of its sessions, with keys and values, as in 1GiB" },
    { "traces", INTEGER, FIELD(traces), 1, COUNT_MOST, "a number of kept traces" },
    { "trace-memory", SIZE, FIELD(trace_bytes), 1, BYTES_MOST,
      "bytes of its kept traces, as in 256MiB" },
    { "weight", DECIMAL, FIELD(weight), 0.01, 100, "a share of the workers, as in 2" },
    { "expires", DATE, FIELD(expires_s), 0, 0, "the first day without the key, as in 2027-01-31" },
};

void access_limits_init(struct access_limits *limits)
{
    *limits = (struct access_limits){ .weight = 1, .expires_s = INT64_MAX };
}

/* ------------------------------------------------------------------ names -- */

int access_limit_find(const char *name)
{
    for (int i = 0; i < ACCESS_LIMIT_COUNT; i++)
        if (strcmp(LIMITS[i].name, name) == 0)
            return i;
    return -1;
}

const char *access_limit_name(int limit)
{
    return LIMITS[limit].name;
}

const char *access_limit_help(int limit)
{
    return LIMITS[limit].help;
}

const char *access_limit_nearest(const char *name)
{
    const char *names[ACCESS_LIMIT_COUNT];
    for (int i = 0; i < ACCESS_LIMIT_COUNT; i++)
        names[i] = LIMITS[i].name;
    return nearest_name(name, names, ACCESS_LIMIT_COUNT);
}

void access_limit_names(char *text, size_t bytes)
{
    struct name_list list = name_list_in(text, bytes);
    for (int i = 0; i < ACCESS_LIMIT_COUNT; i++)
        name_list_add(&list, LIMITS[i].name);
    name_list_end(&list);
}

/* ------------------------------------------------------------------ dates -- */

/* The number in size digits. */
static int digits(const char *text, int size)
{
    int number = 0;
    for (int i = 0; i < size; i++)
        number = 10 * number + (text[i] - '0');
    return number;
}

/* Reads "2027-01-31", a day that the calendar has, as its first second in UTC. */
static bool read_date(const char *text, int64_t *seconds)
{
    static const char form[] = "dddd-dd-dd";
    if (strlen(text) != sizeof form - 1)
        return false;
    for (size_t i = 0; i < sizeof form - 1; i++)
        if (form[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
            return false;
    const struct tm wanted = {
        .tm_year = digits(text, 4) - 1900,
        .tm_mon = digits(text + 5, 2) - 1,
        .tm_mday = digits(text + 8, 2),
    };
    struct tm day = wanted;
    const time_t time = timegm(&day); /* makes 1 March of 30 February */
    if (time < 0 || day.tm_mday != wanted.tm_mday || day.tm_mon != wanted.tm_mon)
        return false;
    *seconds = time;
    return true;
}

static void write_date(char out[NUMBER_BYTES], int64_t seconds)
{
    const time_t time = (time_t)seconds;
    struct tm day;
    if (!gmtime_r(&time, &day) || strftime(out, NUMBER_BYTES, "%Y-%m-%d", &day) == 0)
        out[0] = '\0';
}

/* ----------------------------------------------------------------- values -- */

/* A value of the limit as it is typed. */
static void write_value(char out[NUMBER_BYTES], const struct limit *limit, double value)
{
    const int64_t number = (int64_t)value;
    if (limit->kind == TIME)
        config_value_show_time(out, number);
    else if (limit->kind == SIZE)
        config_value_show_size(out, number);
    else if (limit->kind == DATE)
        write_date(out, number);
    else
        snprintf(out, NUMBER_BYTES, "%.10g", value); /* at most 4 digits and 6 behind the point */
}

static double value_of(const struct access_limits *limits, const struct limit *limit)
{
    const char *field = (const char *)limits + limit->field;
    double decimal;
    int64_t number;
    if (limit->kind == DECIMAL) {
        memcpy(&decimal, field, sizeof decimal);
        return decimal;
    }
    memcpy(&number, field, sizeof number);
    return (double)number;
}

static bool refuse_value(const struct limit *limit, const char *text, struct fault *fault)
{
    char shown[TEXT_SHOWN], min[NUMBER_BYTES], max[NUMBER_BYTES];
    if (limit->kind == DATE)
        return fault_set(fault, FAULT_OPTION, "%s is '%s'; expected %s", limit->name,
                         name_show(shown, sizeof shown, text, strlen(text)), limit->help);
    write_value(min, limit, limit->min);
    write_value(max, limit, limit->max);
    return fault_set(fault, FAULT_OPTION, "%s is '%s'; expected %s, from %s to %s", limit->name,
                     name_show(shown, sizeof shown, text, strlen(text)), limit->help, min, max);
}

bool access_limit_set(struct access_limits *limits, int limit, const char *text,
                      struct fault *fault)
{
    const struct limit *row = &LIMITS[limit];
    char *field = (char *)limits + row->field;
    double decimal = 0;
    int64_t number = 0;
    const bool is_read = row->kind == DECIMAL   ? config_value_decimal(text, &decimal)
                         : row->kind == INTEGER ? config_value_integer(text, &number)
                         : row->kind == SIZE    ? config_value_size(text, &number)
                         : row->kind == TIME    ? config_value_time(text, &number)
                                                : read_date(text, &number);
    if (row->kind != DECIMAL)
        decimal = (double)number;
    if (!is_read || (row->kind != DATE && !(decimal >= row->min && decimal <= row->max)))
        return refuse_value(row, text, fault);
    if (row->kind == DECIMAL)
        memcpy(field, &decimal, sizeof decimal);
    else
        memcpy(field, &number, sizeof number);
    return true;
}

static int64_t burst_of_a_second(const struct access_limits *limits)
{
    return llround(limits->cpu * 1e9);
}

void access_limits_settle(struct access_limits *limits)
{
    if (limits->burst_ns == 0)
        limits->burst_ns = burst_of_a_second(limits);
}

void access_limits_write(const struct access_limits *limits, struct text *text)
{
    struct access_limits usual;
    char value[NUMBER_BYTES];
    access_limits_init(&usual);
    usual.burst_ns = burst_of_a_second(limits);
    for (int i = 0; i < ACCESS_LIMIT_COUNT; i++) {
        if (value_of(limits, &LIMITS[i]) == value_of(&usual, &LIMITS[i]))
            continue;
        write_value(value, &LIMITS[i], value_of(limits, &LIMITS[i]));
        text_format(text, " %s=%s", LIMITS[i].name, value);
    }
}

/* ----------------------------------------------------- budget of CPU time -- */

/* Sums of doubles are not exact, so a debt of less than a nanosecond is none. */
static const double DEBT_MIN_NS = 1;

void access_budget_init(struct access_budget *budget, double rate, int64_t burst_ns)
{
    *budget = (struct access_budget){ .rate = rate, .burst_ns = (double)burst_ns };
    pthread_mutex_init(&budget->mutex, NULL);
}

void access_budget_free(struct access_budget *budget)
{
    pthread_mutex_destroy(&budget->mutex);
}

/* Brings the level up to now. Only time is bounded by the depth: what a request took and did not
 * use goes back in full, even where the level has risen to the depth meanwhile. Threads read the
 * clock before they take the mutex, so now_ns may be earlier than the last time. */
static void fill(struct access_budget *budget, int64_t now_ns)
{
    const int64_t passed_ns = now_ns - budget->seen_ns;
    if (passed_ns <= 0)
        return;
    if (budget->seen_ns > 0 && budget->level_ns < budget->burst_ns)
        budget->level_ns =
            fmin(budget->level_ns + (double)passed_ns * budget->rate, budget->burst_ns);
    budget->seen_ns = now_ns;
}

/* The time until a level is not below zero; 0 where it is not now. */
static int64_t wait_of(const struct access_budget *budget, double level_ns)
{
    if (budget->rate <= 0 || level_ns > -DEBT_MIN_NS)
        return 0;
    const double wait_ns = ceil(-level_ns / budget->rate);
    return wait_ns < (double)(INT64_MAX / 2) ? (int64_t)wait_ns : INT64_MAX / 2;
}

void access_budget_change(struct access_budget *budget, double rate, int64_t burst_ns,
                          int64_t now_ns)
{
    pthread_mutex_lock(&budget->mutex);
    fill(budget, now_ns);
    if (budget->rate <= 0) /* what was used without a bound is no debt */
        budget->level_ns = 0;
    budget->rate = rate;
    budget->burst_ns = (double)burst_ns;
    budget->level_ns = fmin(budget->level_ns, budget->burst_ns);
    pthread_mutex_unlock(&budget->mutex);
}

bool access_budget_has(struct access_budget *budget, int64_t now_ns, int64_t *wait_ns)
{
    pthread_mutex_lock(&budget->mutex);
    fill(budget, now_ns);
    *wait_ns = wait_of(budget, budget->level_ns);
    pthread_mutex_unlock(&budget->mutex);
    return *wait_ns == 0;
}

bool access_budget_take(struct access_budget *budget, int64_t reserved_ns, int64_t predicted_ns,
                        int64_t now_ns, int64_t *wait_ns)
{
    pthread_mutex_lock(&budget->mutex);
    fill(budget, now_ns);
    const double level_ns = budget->level_ns + (double)reserved_ns;
    *wait_ns = wait_of(budget, level_ns);
    if (*wait_ns == 0)
        budget->level_ns = level_ns - (double)predicted_ns;
    pthread_mutex_unlock(&budget->mutex);
    return *wait_ns == 0;
}

void access_budget_correct(struct access_budget *budget, int64_t reserved_ns, int64_t used_ns)
{
    pthread_mutex_lock(&budget->mutex);
    budget->level_ns += (double)reserved_ns - (double)used_ns;
    pthread_mutex_unlock(&budget->mutex);
}

int access_budget_wait_s(int64_t wait_ns)
{
    const int64_t seconds = wait_ns / 1000000000 + (wait_ns % 1000000000 > 0);
    return seconds < 1 ? 1 : seconds < INT_MAX ? (int)seconds : INT_MAX;
}

/* ------------------------------------------------------------------ quota -- */

void access_quota_init(struct access_quota *quota, const char *name)
{
    *quota = (struct access_quota){ .name = name };
    access_budget_init(&quota->budget, 0, 0);
}

void access_quota_free(struct access_quota *quota)
{
    const int place = atomic_load(&quota->metrics_place);
    if (place > 0)
        key_metrics_drop(place - 1);
    access_budget_free(&quota->budget);
}

void access_quota_limit(struct access_quota *quota, const struct access_limits *limits,
                        int64_t now_ns)
{
    access_budget_change(&quota->budget, limits->cpu, limits->burst_ns, now_ns);
    atomic_store(&quota->in_flight_max, limits->in_flight);
    atomic_store(&quota->memory.bytes_max, (size_t)limits->memory_bytes);
}

/* ------------------------------------------------------------- in flight -- */

/* Two threads may both take the place; then one of them drops it again. */
int access_quota_place(struct access_quota *quota)
{
    int known = atomic_load_explicit(&quota->metrics_place, memory_order_acquire);
    if (known > 0)
        return known - 1;
    const int taken = key_metrics_take(quota->name);
    if (atomic_compare_exchange_strong(&quota->metrics_place, &known, taken + 1))
        return taken;
    key_metrics_drop(taken);
    return known - 1;
}

static bool refuse(struct fault *fault, int retry_after_s)
{
    fault->retry_after_s = retry_after_s;
    return false;
}

bool access_quota_enter(struct access_quota *quota, struct fault *fault)
{
    if (!quota)
        return true;
    access_quota_place(quota); /* so the page shows it from now on */
    const int64_t max = atomic_load_explicit(&quota->in_flight_max, memory_order_relaxed);
    const int64_t now = atomic_fetch_add_explicit(&quota->in_flight, 1, memory_order_relaxed) + 1;
    if (max == 0 || now <= max)
        return true;
    fault_set(fault, FAULT_QUOTA,
              "the key '%s' has %" PRId64 " requests in flight, as many as it may (in-flight)",
              quota->name, max);
    return refuse(fault, 1);
}

void access_quota_leave(struct access_quota *quota, enum fault_code code)
{
    if (!quota)
        return;
    atomic_fetch_sub_explicit(&quota->in_flight, 1, memory_order_relaxed);
    key_metrics_request(access_quota_place(quota), code);
}

/* --------------------------------------------------------------- CPU time -- */

static bool refuse_debt(const struct access_quota *quota, int64_t wait_ns, struct fault *fault)
{
    fault_set(fault, FAULT_QUOTA,
              "the key '%s' has used up its CPU time (cpu); try again in %" PRId64 " ms",
              quota->name, wait_ns / 1000000 + (wait_ns % 1000000 > 0));
    return refuse(fault, access_budget_wait_s(wait_ns));
}

bool access_quota_has_time(struct access_quota *quota, int64_t now_ns, struct fault *fault)
{
    int64_t wait_ns;
    return !quota || access_budget_has(&quota->budget, now_ns, &wait_ns)
           || refuse_debt(quota, wait_ns, fault);
}

bool access_quota_reserve(struct access_quota *quota, int64_t *reserved_ns, int64_t predicted_ns,
                          int64_t now_ns, struct fault *fault)
{
    int64_t wait_ns;
    if (!quota)
        return true;
    if (!access_budget_take(&quota->budget, *reserved_ns, predicted_ns, now_ns, &wait_ns))
        return refuse_debt(quota, wait_ns, fault);
    *reserved_ns = predicted_ns;
    return true;
}

void access_quota_charge(struct access_quota *quota, int64_t reserved_ns, int64_t used_ns)
{
    if (!quota)
        return;
    access_budget_correct(&quota->budget, reserved_ns, used_ns);
    key_metrics_charge(access_quota_place(quota), used_ns);
}

/* ----------------------------------------------------------------- memory -- */

void access_quota_explain(const struct access_quota *quota, const struct memory_share *share,
                          struct fault *fault)
{
    memory_explain(share, fault);
    if (!quota || fault->code != FAULT_MEMORY || !share->owner_refused)
        return;
    fault_set(fault, FAULT_QUOTA,
              "the requests in flight of the key '%s' may hold %zu bytes of memory together, which "
              "leave too few for this one (memory)",
              quota->name, atomic_load(&quota->memory.bytes_max));
    refuse(fault, 1);
}

/* --------------------------------------------------------------- accounts -- */

/* The accounts are a balanced tree (tsearch of the C library), sorted by name. The tree holds no
 * reference: the release of the last one takes the account out, under the lock. */

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
