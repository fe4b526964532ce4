/* SPDX-License-Identifier: Apache-2.0 */
/* test_access_table.c - the text of a keys' file: what each good line means, and for each bad one
 * the place and the words of the fault. */
#include "access/access_table.h"
#include "test.h"

#include <gnutls/gnutls.h>

/* SHA-256 of "abc" (FIPS 180-4's example) and of "abd". */
#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define ABD "a52d159f262b2c6ddb724a61840befc36eb30c88877a4030b65cbe86298449c9"
#define EXPECTED_SCOPES                                                                            \
    "expected a scope: infer, models, sessions, sessions:all, regions, metrics, admin"
#define EXPECTED_HASH "expected the key's SHA-256 as 64 hexadecimal digits, or -"

static struct access_accounts *accounts;

static bool read_bytes(struct access_table **table, const char *text, size_t size,
                       struct fault *fault)
{
    return access_table_create(table, "keys", text, size, accounts, fault);
}

static struct access_table *accept(const char *text)
{
    struct access_table *table;
    struct fault fault;
    if (!read_bytes(&table, text, strlen(text), &fault))
        fail_msg("refused: %s\n%s", fault.message, text);
    return table;
}

static void assert_refused_bytes(const char *text, size_t size, const char *message)
{
    struct access_table *table;
    struct fault fault;
    if (read_bytes(&table, text, size, &fault))
        fail_msg("taken:\n%s", text);
    assert_null(table);
    assert_string_equal(fault.message, message);
}

/* ------------------------------------------------------------- good lines -- */

/* Each line, and how it is written again. NULL: in the same way. */
static const char *const good[][2] = {
    { "a " ABC " infer", NULL },
    { "a - admin", NULL },
    { "a\t" ABC "\t \tinfer\t", "a " ABC " infer" },
    { "  a " ABC " infer # of the team\r\n", "a " ABC " infer" },
    { "a " ABC " infer#", "a " ABC " infer" },
    { "A.b_c-9 " ABC " models,metrics", NULL },
    { "a BA7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015AD infer",
      "a " ABC " infer" },
    { "a - admin,metrics,sessions:all,sessions,models,infer",
      "a - infer,models,sessions,sessions:all,metrics,admin" },
    { "a - metrics,regions,infer", "a - infer,regions,metrics" },
    { "a - metrics models infer", "a - infer,models,metrics" },
    { "a - infer:model-a,team-*", NULL },
    { "a - infer:bart-6+6,my*(gpt2),a@b~d", NULL },
    { "a - infer:model-a,team-*,metrics,models", "a - infer:model-a,team-*,models,metrics" },
    { "a - metrics,infer:a,infer:b infer:*", "a - infer:a,b,*,metrics" },
    { "a - infer:metrics,models", "a - infer:metrics,models" },
    { "a - infer:a,infer", "a - infer" },
    { "a - infer cpu=0.5", NULL },
    { "a - cpu=2.50 infer", "a - infer cpu=2.5" },
    { "a - infer cpu=1024 burst=1500ms", NULL },
    { "a - infer cpu=0.001 burst=24h", NULL },
    { "a - infer burst=2000ms cpu=2", "a - infer cpu=2" },
    { "a - infer in-flight=8 memory=64MiB sessions=4 session-memory=1GiB weight=2", NULL },
    { "a - infer traces=3 trace-memory=1MiB weight=2", NULL },
    { "a - infer memory=65536KiB in-flight=1000000", "a - infer in-flight=1000000 memory=64MiB" },
    { "a - infer memory=1048577", NULL },
    { "a - infer weight=1", "a - infer" },
    { "a - infer weight=0.01", NULL },
    { "a - infer weight=0.123456", NULL },
    { "a - infer expires=2027-01-31", NULL },
    { "a - infer expires=2028-02-29", NULL },
    { "a - infer expires=1970-01-01", NULL },
    { "a - infer expires=9999-12-31", NULL },
};

TEST(good_lines)
{
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct access_table *table = accept(good[i][0]);
        char buffer[512];
        struct text text = text_in(buffer, sizeof buffer);
        assert_int_equal(table->count, 1);
        access_key_write(table->keys[0], &text);
        buffer[text.used] = '\0';
        assert_string_equal(buffer, good[i][1] ? good[i][1] : good[i][0]);
        access_table_free(table);
    }
}

TEST(files)
{
    static const struct {
        const char *text;
        int count;
    } files[] = {
        { "", 0 },
        { "\n", 0 },
        { "# no key\n\n \t \n\t# none\r\n\r\n", 0 },
        { "a - infer\nb - infer", 2 },
        { "\r\na - infer\r\n# c - infer\r\nb - infer\r\n", 2 },
        { "a " ABC " infer\nb " ABD " infer\nc - infer\nd - infer\n", 4 },
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct access_table *table = accept(files[i].text);
        assert_int_equal(table->count, files[i].count);
        access_table_free(table);
    }
    struct access_table *table = accept("\n# two\na " ABC " infer\r\n\nb - infer");
    assert_int_equal(table->keys[0]->line, 3);
    assert_int_equal(table->keys[1]->line, 5);
    access_table_free(table);
}

TEST(limits)
{
    struct access_table *table =
        accept("a - infer cpu=0.25 in-flight=8 memory=64MiB sessions=4 session-memory=3KiB "
               "weight=2.5 "
               "expires=2027-01-31\nb - infer\nc - infer cpu=2 burst=500ms");
    const struct access_limits *a = &table->keys[0]->limits, *b = &table->keys[1]->limits;
    assert_true(a->cpu == 0.25 && a->weight == 2.5);
    assert_int_equal(a->burst_ns, 250000000);
    assert_int_equal(a->in_flight, 8);
    assert_int_equal(a->memory_bytes, 64 << 20);
    assert_int_equal(a->sessions, 4);
    assert_int_equal(a->session_bytes, 3072);
    assert_int_equal(a->expires_s, 1801353600);
    assert_false(access_key_is_expired(table->keys[0], 1801353599));
    assert_true(access_key_is_expired(table->keys[0], 1801353600));
    assert_true(b->cpu == 0 && b->weight == 1);
    assert_int_equal(b->burst_ns, 0);
    assert_int_equal(b->in_flight, 0);
    assert_int_equal(b->memory_bytes, 0);
    assert_int_equal(b->sessions, 0);
    assert_false(access_key_is_expired(table->keys[1], INT64_MAX - 1));
    assert_int_equal(table->keys[2]->limits.burst_ns, 500000000);
    access_table_free(table);
}

/* -------------------------------------------------------------- bad lines -- */

#define FROM_TO(what, min, max) "expected " what ", from " min " to " max
#define CPU                     FROM_TO("CPU seconds a second, as in 0.5", "0.001", "1024")
#define BURST                   FROM_TO("CPU time that may be saved up, in ms, s, m or h as in 500ms", "1ms", "24h")
#define IN_FLIGHT               FROM_TO("a number of requests", "1", "1000000")
#define MEMORY                  FROM_TO("bytes, or KiB, MiB or GiB as in 64MiB", "1", "1024GiB")
#define WEIGHT                  FROM_TO("a share of the workers, as in 2", "0.01", "100")
#define DAY                     "expected the first day without the key, as in 2027-01-31"

static const char *const bad[][2] = {
    { "a", "keys:1:2: the line ends; " EXPECTED_HASH },
    { "\n a  # " ABC, "keys:2:5: the line ends; " EXPECTED_HASH },
    { "a/b - infer", "keys:1:2: '/' came in a name; expected letters, digits, '.', '_' and '-'" },
    { "\xEF\xBB\xBF"
      "a - infer",
      "keys:1:1: the byte 0xEF came in a name; expected letters, digits, '.', '_' and '-'" },
    { "a123456789012345678901234567890123456789012345678901234567890123x - infer",
      "keys:1:1: a name of 65 characters came; expected 1 to 64" },
    { "a ba78 infer", "keys:1:3: 4 hexadecimal digits came; " EXPECTED_HASH },
    { "a " ABC "0 infer", "keys:1:3: 65 hexadecimal digits came; " EXPECTED_HASH },
    { "a attnd_Itolp4Vq9YM7E8087hXChixVuSyK6bb3GGMB8GfGwP0 infer",
      "keys:1:4: 't' came in a hash; " EXPECTED_HASH },
    { "a --", "keys:1:3: '-' came in a hash; " EXPECTED_HASH },
    { "a -", "keys:1:4: the line ends without a scope; expected infer, models, sessions, "
             "sessions:all, regions, "
             "metrics, admin" },
    { "a - cpu=1  ", "keys:1:12: the line ends without a scope; expected infer, models, sessions, "
                     "sessions:all, regions, "
                     "metrics, admin" },
    { "a - infr", "keys:1:5: there is no scope 'infr'; the nearest is infer" },
    { "a - infer,metrcs", "keys:1:11: there is no scope 'metrcs'; the nearest is metrics" },
    { "a - session:all", "keys:1:5: there is no scope 'session:all'; the nearest is sessions:all" },
    { "a - Infer", "keys:1:5: there is no scope 'Infer'; the nearest is infer" },
    { "a - everything", "keys:1:5: 'everything' came; " EXPECTED_SCOPES },
    { "a - infer:x,metrics,y", "keys:1:21: 'y' came; " EXPECTED_SCOPES },
    { "a - infer:x y", "keys:1:13: 'y' came; " EXPECTED_SCOPES },
    { "a - infer,,models", "keys:1:11: '' came; " EXPECTED_SCOPES },
    { "a - infer,", "keys:1:11: '' came; " EXPECTED_SCOPES },
    { "a - ,infer", "keys:1:5: '' came; " EXPECTED_SCOPES },
    { "a - attnd_Itolp4Vq9YM7E8087hXChixVuSyK6bb3GGMB8GfGwP0",
      "keys:1:5: 'attnd_Itolp4Vq9Y...' came; " EXPECTED_SCOPES },
    { "a - \xC3\xA4", "keys:1:5: '?\?' came; " EXPECTED_SCOPES },
    { "a - infer:",
      "keys:1:11: a pattern of 0 characters came; expected 1 to 128, as in infer:model-a,team-*" },
    { "a - infer:a,,b",
      "keys:1:13: a pattern of 0 characters came; expected 1 to 128, as in infer:model-a,team-*" },
    { "a - infer:a/b",
      "keys:1:12: '/' came in a pattern of models; expected letters, digits, . _ - + ( ) @ ~ and "
      "*, which also stands for a space" },
    { "a - infer cpus=1", "keys:1:11: there is no limit 'cpus'; the nearest is cpu" },
    { "a - infer rate=1",
      "keys:1:11: there is no limit 'rate'; expected cpu, burst, in-flight, memory, sessions, "
      "session-memory, traces, trace-memory, weight, expires" },
    { "a - infer =1",
      "keys:1:11: there is no limit ''; expected cpu, burst, in-flight, memory, sessions, "
      "session-memory, traces, trace-memory, weight, expires" },
    { "a - infer cpu=1 cpu=2", "keys:1:17: cpu came twice; expected it once" },
    { "a - infer cpu=", "keys:1:15: cpu is ''; " CPU },
    { "a - infer cpu=0", "keys:1:15: cpu is '0'; " CPU },
    { "a - infer cpu=0.0009", "keys:1:15: cpu is '0.0009'; " CPU },
    { "a - infer cpu=1024.1", "keys:1:15: cpu is '1024.1'; " CPU },
    { "a - infer cpu=1e3", "keys:1:15: cpu is '1e3'; " CPU },
    { "a - infer cpu=.5", "keys:1:15: cpu is '.5'; " CPU },
    { "a - infer cpu=1.", "keys:1:15: cpu is '1.'; " CPU },
    { "a - infer cpu=-1", "keys:1:15: cpu is '-1'; " CPU },
    { "a - infer cpu=nan", "keys:1:15: cpu is 'nan'; " CPU },
    { "a - infer cpu=0x1", "keys:1:15: cpu is '0x1'; " CPU },
    { "a - infer cpu=1.0000001", "keys:1:15: cpu is '1.0000001'; " CPU },
    { "a - infer burst=1s", "keys:1:11: burst came without cpu; expected cpu=NUMBER beside it" },
    { "a - infer cpu=1 burst=1", "keys:1:23: burst is '1'; " BURST },
    { "a - infer cpu=1 burst=0", "keys:1:23: burst is '0'; " BURST },
    { "a - infer cpu=1 burst=86401s", "keys:1:23: burst is '86401s'; " BURST },
    { "a - infer in-flight=0", "keys:1:21: in-flight is '0'; " IN_FLIGHT },
    { "a - infer in-flight=1000001", "keys:1:21: in-flight is '1000001'; " IN_FLIGHT },
    { "a - infer in-flight=1.5", "keys:1:21: in-flight is '1.5'; " IN_FLIGHT },
    { "a - infer memory=64MB", "keys:1:18: memory is '64MB'; " MEMORY },
    { "a - infer memory=1025GiB", "keys:1:18: memory is '1025GiB'; " MEMORY },
    { "a - infer memory=99999999999999999999",
      "keys:1:18: memory is '99999999999999999999'; " MEMORY },
    { "a - infer memory=0000000000000000000000000000000000000000000000000000000000000001KB",
      "keys:1:18: memory is '000000000000000000000000...'; " MEMORY },
    { "a - infer memory=\xC3\xA4", "keys:1:18: memory is '?\?'; " MEMORY },
    { "a - infer weight=0", "keys:1:18: weight is '0'; " WEIGHT },
    { "a - infer weight=100.5", "keys:1:18: weight is '100.5'; " WEIGHT },
    { "a - infer expires=2027-02-29", "keys:1:19: expires is '2027-02-29'; " DAY },
    { "a - infer expires=2027-13-01", "keys:1:19: expires is '2027-13-01'; " DAY },
    { "a - infer expires=2027-00-10", "keys:1:19: expires is '2027-00-10'; " DAY },
    { "a - infer expires=2027-1-31", "keys:1:19: expires is '2027-1-31'; " DAY },
    { "a - infer expires=2027-01-31T00", "keys:1:19: expires is '2027-01-31T00'; " DAY },
    { "a - infer expires=1969-12-31", "keys:1:19: expires is '1969-12-31'; " DAY },
    { "a - infer\nb - infer\na - models",
      "keys:3:1: the name 'a' came in line 1 already; expected another" },
    { "a " ABC " infer\n\nb " ABC " infer",
      "keys:3:3: the hash came in line 1 already, of 'a'; expected another key" },
    { "a - infer\rb - infer", "keys:1:10: the byte 0x0D came; expected text" },
    { "# old\ra - infer", "keys:1:6: the byte 0x0D came; expected text" },
    { "a - infer # \x7F", "keys:1:13: the byte 0x7F came; expected text" },
};

TEST(bad_lines)
{
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_refused_bytes(bad[i][0], strlen(bad[i][0]), bad[i][1]);
    assert_refused_bytes("a\0- infer", 9, "keys:1:2: the byte 0x00 came; expected text");
}

TEST(bounds)
{
    char line[4200];
    memset(line, ' ', sizeof line);
    memcpy(line, "a - infer", 9);
    line[4096] = '\n';
    struct access_table *table;
    struct fault fault;
    assert_true(read_bytes(&table, line, 4097, &fault));
    access_table_free(table);
    line[4096] = ' ';
    line[4097] = '\n';
    assert_refused_bytes(line, 4098,
                         "keys:1:4097: a line of 4097 bytes came; expected at most 4096");

    char *text = malloc((ACCESS_KEYS_MAX + 1) * 16);
    assert_non_null(text);
    size_t used = 0;
    for (int i = 0; i < ACCESS_KEYS_MAX; i++)
        used += (size_t)sprintf(text + used, "k%d - infer\n", i);
    table = accept(text);
    assert_int_equal(table->count, ACCESS_KEYS_MAX);
    assert_string_equal(access_table_find_name(table, "k9999")->name, "k9999");
    assert_null(access_table_find_name(table, "k10000"));
    access_table_free(table);
    used += (size_t)sprintf(text + used, "x - infer\n");
    assert_refused_bytes(text, used, "keys:10001:1: more than 10000 keys came");
    free(text);
}

/* ---------------------------------------------------------------- finding -- */

/* The comparison of GnuTLS, counted: the linker takes this one for the whole program. */
static int comparisons;

int gnutls_memcmp(const void *a, const void *b, size_t size)
{
    comparisons++;
    assert_int_equal(size, ACCESS_HASH_BYTES);
    return memcmp(a, b, size);
}

static int comparisons_of(const struct access_table *table, const char *secret, const char *name)
{
    comparisons = 0;
    const struct access_key *key = access_table_find(table, secret, strlen(secret));
    assert_string_equal(key ? key->name : "", name);
    return comparisons;
}

/* Every hash is compared, whichever is equal. */
TEST(find_compares_all)
{
    struct access_table *table =
        accept("first " ABC " infer\n"
               "cert - infer\n"
               "middle 88d4266fd4e6338d13b845fcf289579d209c897823b9217da3e161936f031589 infer\n"
               "last " ABD " infer expires=1999-01-01\n");
    assert_int_equal(comparisons_of(table, "abc", "first"), 3);
    assert_int_equal(comparisons_of(table, "abcd", "middle"), 3);
    assert_int_equal(comparisons_of(table, "abd", "last"), 3);
    assert_int_equal(comparisons_of(table, "abe", ""), 3);
    assert_int_equal(comparisons_of(table, "", ""), 3);
    assert_string_equal(access_table_find_name(table, "cert")->name, "cert");
    assert_null(access_table_find_name(table, "Cert"));
    assert_null(access_table_find_name(
        table, "a123456789012345678901234567890123456789012345678901234567890123x"));
    access_table_free(table);
    table = accept("cert - infer");
    assert_int_equal(comparisons_of(table, "abc", ""), 0);
    access_table_free(table);
}

static int create_accounts(void **state)
{
    accounts = access_accounts_create();
    return accounts ? 0 : -1;
}

static int free_accounts(void **state)
{
    access_accounts_free(accounts);
    return 0;
}

ALL_TESTS(create_accounts, free_accounts);

int main(void)
{
    return test_run(NULL);
}
