/* SPDX-License-Identifier: Apache-2.0 */
/* bench_key_compare.c - does the time to look for a key tell how much of it is right?
 *
 * Two classes of wrong keys are looked for in random order: keys whose beginning is that of a key
 * in the table, wrong in the last character alone, and keys wrong from the first character on.
 * Welch's t says how far apart the mean times of the classes are; beyond 4.5 they differ (the bound
 * of dudect: Reparaz, Balasch and Verbauwhede 2017), and the program fails. Times beyond the 99th
 * percentile, which the scheduler and interrupts make, are left out of both classes.
 *
 * The same is measured for a comparison that ends at the first difference, to show that the method
 * would find one. */
#include "access/access_table.h"
#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 16, TRIES = 1000000, WARM_UP = 20000, SECRET_SIZE = ACCESS_SECRET_NEW_BYTES - 1 };

static const double T_MAX = 4.5;

struct subject {
    struct access_table *table;
    char secret[ACCESS_SECRET_NEW_BYTES]; /* of one key of the table */
};

struct classes {
    double sum[2], squares[2], count[2];
};

static volatile uintptr_t sink;

static void look_in_table(const struct subject *subject, const char *secret)
{
    sink = (uintptr_t)access_table_find(subject->table, secret, SECRET_SIZE);
}

/* What is not to be done: the loop ends where the key differs. */
static void look_early_end(const struct subject *subject, const char *secret)
{
    const volatile char *right = subject->secret;
    int i = 0;
    for (int round = 0; round < KEYS; round++)
        for (i = 0; i < SECRET_SIZE && right[i] == secret[i]; i++)
            ;
    sink = (uintptr_t)i;
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* A wrong key of the class. All else about it is random, as a guess is. */
static void make_guess(char guess[SECRET_SIZE], const struct subject *subject, int class,
                       uint64_t *random)
{
    static const char base64url[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char any[SECRET_SIZE];
    for (int i = 0; i < SECRET_SIZE; i++)
        any[i] = base64url[next_random(random) % 64];
    const char *from = class == 0 ? subject->secret : any;
    memcpy(guess, from, SECRET_SIZE);
    const char last = subject->secret[SECRET_SIZE - 1];
    guess[SECRET_SIZE - 1] = any[SECRET_SIZE - 1];
    if (guess[SECRET_SIZE - 1] == last)
        guess[SECRET_SIZE - 1] = last == 'A' ? 'B' : 'A';
    if (class == 1)
        guess[0] = '~'; /* "attnd_" has none */
}

static int compare_times(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double welch_t(const struct classes *classes)
{
    double mean[2], spread[2];
    for (int i = 0; i < 2; i++) {
        mean[i] = classes->sum[i] / classes->count[i];
        const double variance = (classes->squares[i] / classes->count[i] - mean[i] * mean[i])
                                * classes->count[i] / (classes->count[i] - 1);
        spread[i] = variance / classes->count[i];
    }
    return (mean[0] - mean[1]) / sqrt(spread[0] + spread[1]);
}

/* Welch's t of the two classes, right beginning less wrong beginning. */
static double measure(const char *name, const struct subject *subject,
                      void (*look)(const struct subject *subject, const char *secret))
{
    static int64_t times[TRIES], sorted[TRIES];
    static unsigned char class_of[TRIES];
    uint64_t random = 88172645463325252u;
    struct classes classes = { 0 };
    char guess[SECRET_SIZE];
    for (int i = -WARM_UP; i < TRIES; i++) {
        const int class = (int)(next_random(&random) >> 40 & 1);
        make_guess(guess, subject, class, &random);
        const int64_t start_ns = clock_now_ns();
        look(subject, guess);
        const int64_t ns = clock_now_ns() - start_ns;
        if (i >= 0) {
            times[i] = ns;
            class_of[i] = (unsigned char)class;
        }
    }
    memcpy(sorted, times, sizeof times);
    qsort(sorted, TRIES, sizeof sorted[0], compare_times);
    const int64_t longest_ns = sorted[TRIES / 100 * 99];
    for (int i = 0; i < TRIES; i++) {
        if (times[i] > longest_ns)
            continue;
        classes.sum[class_of[i]] += (double)times[i];
        classes.squares[class_of[i]] += (double)times[i] * (double)times[i];
        classes.count[class_of[i]]++;
    }
    const double t = welch_t(&classes);
    printf("%-24s right beginning %8.2f ns, wrong %8.2f ns, t = %6.2f\n", name,
           classes.sum[0] / classes.count[0], classes.sum[1] / classes.count[1], t);
    return t;
}

/* A table of KEYS keys; the subject's is in its middle. */
static bool make_subject(struct subject *subject, struct access_accounts *accounts)
{
    struct text text;
    struct fault fault;
    text_init(&text, SIZE_MAX);
    for (int i = 0; i < KEYS; i++) {
        char secret[ACCESS_SECRET_NEW_BYTES];
        unsigned char hash[ACCESS_HASH_BYTES];
        if (!access_secret_new(secret) || !access_secret_hash(secret, SECRET_SIZE, hash))
            return false;
        if (i == KEYS / 2)
            strcpy(subject->secret, secret);
        text_format(&text, "key-%d ", i);
        for (int j = 0; j < ACCESS_HASH_BYTES; j++)
            text_format(&text, "%02x", hash[j]);
        text_raw(&text, " infer\n");
    }
    const bool good =
        access_table_create(&subject->table, "keys", text.data, text.used, accounts, &fault);
    text_free(&text);
    return good;
}

int main(void)
{
    struct subject subject;
    struct access_accounts *accounts = access_accounts_create();
    if (!accounts || !make_subject(&subject, accounts))
        return 1;
    measure("ends at the difference", &subject, look_early_end);
    const double t = measure("access_table_find()", &subject, look_in_table);
    access_table_free(subject.table);
    access_accounts_free(accounts);
    if (fabs(t) >= T_MAX)
        printf("the time tells how much of a key is right: |t| is %.2f, expected below %.1f\n",
               fabs(t), T_MAX);
    return fabs(t) >= T_MAX ? 1 : 0;
}
