/* SPDX-License-Identifier: Apache-2.0 */
/* test_json_rows.c - rows of numbers, read and written many at once.
 *
 * The quick reader of a row must agree with the careful reader, which test_json_numbers.c
 * compares with strtof(). Both must give the same floats to the bit and the same end of each
 * number; the quick reader must say nothing about text that is not a number. The test runs the
 * careful reader by giving it the bytes of one number alone. All of this is done for each reader
 * and writer that this CPU can run. The test also writes floats and reads them back quickly:
 * every n-th float, or every float if ATTND_TEST_FLOATS is "all". */
#include "guard.h"
#include "test.h"
#include "json/json_floats.h"
#include "json/json_numbers.h"

enum {
    ROW_MAX = 40,
    NUMBER_BYTES_MAX = 64,
    SPACE_BYTES_MAX = 16, /* with a comma */
    VALUES_MAX = 4096,
    TAIL = 160, /* bytes behind what is read quickly, more than any reader asks for */
};

static const char SPACE[] = " \t\r\n";

static json_floats_reader *read_floats; /* those that are tested */
static json_floats_writer *write_floats;

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t random_next(void)
{
    static uint64_t state = 0x9E3779B97F4A7C15;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static uint64_t random_below(uint64_t bound)
{
    return random_next() % bound;
}

/* Digits, many of them zeros. The first digit is not a zero where that is not allowed. */
static size_t put_digits(char *out, size_t count, bool leading_zero_allowed)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (char)('0' + (random_below(4) ? random_below(10) : 0));
    if (!leading_zero_allowed && count > 1 && out[0] == '0')
        out[0] = '1';
    return count;
}

/* The middle between two floats, to the last digit or nearly: a double is not enough to round
 * it. */
static size_t put_middle(char *out)
{
    const uint32_t bits = (uint32_t)random_next() % 0x18000000 + 0x33000000; /* 3e-8 to 2e7 */
    const double middle = ((double)float_of(bits) + (double)float_of(bits + 1)) / 2;
    return (size_t)sprintf(out, "%s%.*f", random_below(2) ? "-" : "", (int)random_below(30),
                           middle);
}

/* A number of any kind that clients send: integers, fractions, exponents; short and long. */
static size_t put_number(char *out)
{
    size_t used = 0;
    if (random_below(16) == 0)
        return put_middle(out);
    if (random_below(2))
        out[used++] = '-';
    if (random_below(2))
        out[used++] = (char)('0' + random_below(10));
    else
        used += put_digits(out + used, 1 + random_below(random_below(4) ? 4 : 12), false);
    if (random_below(5)) {
        out[used++] = '.';
        used += put_digits(out + used, 1 + random_below(random_below(4) ? 10 : 24), true);
    }
    if (random_below(6) == 0)
        used += (size_t)sprintf(out + used, "%c%s%d", random_below(2) ? 'e' : 'E',
                                random_below(2)   ? "-"
                                : random_below(2) ? "+"
                                                  : "",
                                (int)random_below(random_below(3) ? 12 : 60));
    return used;
}

/* What the careful reader says of the bytes from text on: the end of the number, or NULL if
 * there is none. */
static const char *read_carefully(const char *text, const char *end, float *value)
{
    const size_t size = strspn(text, "+-.0123456789eE");
    char alone[NUMBER_BYTES_MAX];
    if (size >= sizeof alone || text + size > end)
        return NULL;
    memcpy(alone, text, size);
    const char *after = json_read_float(alone, alone + size, value);
    return after ? text + (after - alone) : NULL;
}

/* Reads on and compares each number with the careful reader. Returns how many were read. */
static size_t check_floats(const char *begin, const char **text, const char *end)
{
    static float values[VALUES_MAX];
    const char *p = *text;
    const size_t count = read_floats(begin, text, end, values);
    for (size_t i = 0; i < count; i++) {
        float expected = 0;
        const char *after = read_carefully(p, end, &expected);
        if (!after || bits_of(values[i]) != bits_of(expected)) {
            print_error("%.*s: got %a, want %a\n", 40, p, (double)values[i], (double)expected);
            fail();
        }
        assert_true(isfinite(values[i]));
        p = after;
        if (i + 1 < count) {
            assert_int_equal(*p, ',');
            p += 1 + strspn(p + 1, SPACE);
        }
    }
    assert_ptr_equal(p, *text);
    return count;
}

/* A row of numbers, then text that may stand behind one. The text ends where readable memory
 * ends. */
TEST(rows)
{
    struct guard_buffer guard = guard_alloc(ROW_MAX * (NUMBER_BYTES_MAX + SPACE_BYTES_MAX));
    char *const end = (char *)guard.data + ROW_MAX * (NUMBER_BYTES_MAX + SPACE_BYTES_MAX);
    size_t quick = 0, all = 0;
    for (int round = 0; round < 20000; round++) {
        char row[ROW_MAX * (NUMBER_BYTES_MAX + SPACE_BYTES_MAX)];
        const size_t count = 1 + random_below(ROW_MAX - 1);
        static const char *const SPACES[] = { "", "", " ", "\r\n", "\t", "\n        " };
        const char *space = SPACES[random_below(sizeof SPACES / sizeof SPACES[0])];
        size_t used = 0;
        for (size_t i = 0; i < count; i++) {
            used += put_number(row + used);
            row[used++] = i + 1 < count ? ',' : ']';
            used += (size_t)sprintf(row + used, "%s", space);
        }
        const char *p = end - used;
        memcpy(end - used, row, used);
        for (size_t i = 0; i < count;) {
            const size_t some = check_floats(end - used, &p, end);
            quick += some;
            i += some;
            if (some == 0) {
                float value;
                p = json_read_float(p, end, &value);
                assert_non_null(p);
                i++;
            }
            assert_int_equal(*p, i < count ? ',' : ']');
            p += 1 + strspn(p + 1, i < count ? SPACE : "");
        }
        all += count;
    }
    assert_true(quick * 10 > all * 7); /* the usual way, or this tests nothing */
    guard_free(&guard);
}

/* One byte of a row is wrong. Whatever that makes of the row, both readers agree. */
TEST(rows_with_a_wrong_byte)
{
    static const char BYTES[] = "0123456789+-.eE, ]x\"\t\n/:\xB0\xFF";
    for (int round = 0; round < 100000; round++) {
        char row[6 * NUMBER_BYTES_MAX + TAIL];
        size_t used = 0;
        for (int i = 0; i < 5; i++) {
            used += put_number(row + used);
            row[used++] = ',';
        }
        const size_t at = random_below(used);
        row[at] = BYTES[random_below(sizeof BYTES)]; /* its NUL too */
        memset(row + used, ']', TAIL);
        row[used + TAIL] = '\0';
        const char *p = row;
        check_floats(row, &p, row + used + TAIL);
    }
}

/* Every byte in every place of a few numbers, with short or long text before them. */
TEST(rows_with_any_byte)
{
    static const char *const ROWS[] = {
        "-0.12345678901234567,12.5, -3,0.25,1e-7,-0.30000000000000004,7,8.5e+2,",
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[0.5,0.25,-1.75,3,123456789.25,-0,1.5e3,0.1,",
    };
    for (size_t r = 0; r < sizeof ROWS / sizeof ROWS[0]; r++) {
        char row[128 + TAIL];
        const size_t size = strlen(ROWS[r]), before = strspn(ROWS[r], "[");
        memset(row, ']', sizeof row);
        memcpy(row, ROWS[r], size);
        for (size_t at = before; at < size; at++) {
            for (int byte = 0; byte < 256; byte++) {
                row[at] = (char)byte;
                const char *p = row + before;
                check_floats(row, &p, row + sizeof row);
            }
            row[at] = ROWS[r][at];
        }
    }
}

/* The second of two numbers ends around 64 bytes after the first began. It has an exponent or
 * not, and any byte may follow it. */
TEST(rows_with_a_far_second)
{
    static const char *const SECONDS[] = { "1.5555555555555555555555e-%0*d", "-0.25e+%0*d",
                                           "1.5e-%0*d", "7e%0*d", "0.%0*d" };
    for (size_t s = 0; s < sizeof SECONDS / sizeof SECONDS[0]; s++)
        for (int spaces = 0; spaces < 48; spaces++)
            for (int digits = 2; digits < 9; digits++)
                for (int byte = 0; byte < 256; byte++) {
                    char row[256];
                    memset(row, ' ', sizeof row);
                    int used = sprintf(row, "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,");
                    used += sprintf(row + used, "-0.12345678901234567890e-12,%*s", spaces, "");
                    used += sprintf(row + used, SECONDS[s], digits, 12);
                    row[used++] = (char)byte;
                    row[used] = '7'; /* and not the NUL of sprintf() */
                    const char *p = row;
                    check_floats(row, &p, row + sizeof row);
                }
}

/* The text begins behind an unreadable page and ends at another one. */
TEST(rows_between_pages)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct guard_buffer guard = guard_alloc(page);
    char *const begin = guard.data;
    for (size_t shift = 0; shift < 64; shift++) {
        size_t used = shift;
        memset(begin, '[', shift);
        while (page - used > NUMBER_BYTES_MAX) {
            used += (size_t)sprintf(begin + used, "%.*f", (int)(shift % 18), (double)shift / 7);
            begin[used++] = ',';
        }
        memset(begin + used, '1', page - used);
        const char *p = begin + shift;
        while (check_floats(begin, &p, begin + page) > 0)
            p++;
        assert_true(begin + page - p < 2 * NUMBER_BYTES_MAX + 64);
    }
    guard_free(&guard);
}

TEST(what_is_left_to_the_careful_reader)
{
    static const char *const TEXTS[] = {
        "",     "-",       "--1",     "+1",   ".5",  "-.5",  "1.",    "1.e5",      "01",
        "-01",  "00.5",    "1e",      "1e+",  "NaN", "null", "[1",    "Infinity",  "\"1\"",
        "1.5e", "1e1e400", "1.-5",    "-inf", " 1",  "x",    "1e400", "-1e999999", "1e-400",
        ",1",   "e5",      "-e5",     "/1",   ":1",  "1.e",  "0123",  "-0123",     "1e40",
        "- 1",  "1..5",    "1e-99x9", "]",    "{",   "tru",
    };
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        char text[256];
        float values[4];
        snprintf(text, sizeof text, "%s,%*s", TEXTS[i], TAIL, "");
        const char *p = text;
        const size_t count = read_floats(text, &p, text + strlen(text), values);
        /* The "1e1" of "1e1e400" and the like are numbers. The walk judges what follows. */
        const bool begins_well =
            strcmp(TEXTS[i], "1e1e400") == 0 || strcmp(TEXTS[i], "1e-99x9") == 0;
        assert_true(count == 0 || (begins_well && count == 1));
        if (count == 0)
            assert_ptr_equal(p, text);
    }
}

/* Every float, or a part of all floats: many are written at once and read back at once. */
TEST(there_and_back)
{
    enum { BLOCK = 1024 };
    const char *wish = getenv("ATTND_TEST_FLOATS");
    const uint64_t step = wish && strcmp(wish, "all") == 0 ? 1 : 4999;
    static char text[BLOCK * JSON_FLOAT_BYTES_MAX + TAIL];
    static float values[BLOCK], back[BLOCK];
    for (uint64_t bits = 0; bits < (1ULL << 32);) {
        size_t count = 0;
        for (; count < BLOCK && bits < (1ULL << 32); bits += step) {
            values[count] = float_of((uint32_t)bits);
            count += isfinite(values[count]) ? 1 : 0;
        }
        if (count == 0)
            continue;
        const size_t size = write_floats(text, values, count);
        assert_int_equal(text[size - 1], ',');
        memset(text + size, ' ', TAIL);
        const char *p = text;
        size_t read = 0;
        while (read < count) {
            const size_t some = read_floats(text, &p, text + size + TAIL, back + read);
            read += some;
            if (some == 0) {
                p = json_read_float(p, text + size + TAIL, &back[read]);
                assert_non_null(p);
                read++;
            }
            p += *p == ',';
        }
        assert_ptr_equal(p, text + size);
        if (memcmp(values, back, count * sizeof *values) != 0) {
            print_error("a float from %a to %a\n", (double)values[0], (double)values[count - 1]);
            fail();
        }
    }
}

/* Writing many at once gives the same as writing one after the other, with a comma behind each.
 * No byte is touched beyond the promised size. */
TEST(written_rows)
{
    for (size_t count = 0; count < 20; count++) {
        struct guard_buffer guard = guard_alloc(count * JSON_FLOAT_BYTES_MAX);
        for (int round = 0; round < 2000; round++) {
            float values[20];
            char expected[20 * JSON_FLOAT_BYTES_MAX];
            size_t used = 0;
            for (size_t i = 0; i < count; i++) {
                values[i] = float_of((uint32_t)random_next());
                if (round % 2)
                    values[i] = (float)(int32_t)random_next() / (float)(1 + random_below(1 << 20));
                if (round % 4 > 1 && random_below(2)) /* zeros, integers and powers of two */
                    values[i] = (float)(int32_t)random_below(5) / (float)(1 << random_below(3));
                char one[JSON_FLOAT_BYTES_MAX];
                const size_t size = json_write_float(one, values[i]);
                memcpy(expected + used, one, size);
                used += size;
                expected[used++] = ',';
            }
            assert_int_equal(write_floats(guard.data, values, count), used);
            assert_memory_equal(guard.data, expected, used);
        }
        guard_free(&guard);
    }
}

int main(void)
{
    int failed = 0;
    json_floats_writer *const *writer = json_floats_writers();
    for (json_floats_reader *const *reader = json_floats_readers(); *reader; reader++) {
        read_floats = *reader;
        write_floats = *writer++;
        failed += test_run(NULL);
    }
    return failed;
}
