/* regex_properties.c - ranges of characters from the categories of all of them. */
#include "tokenizer/regex_properties.h"

#include "tokenizer/unicode.h"

#include <string.h>

enum { CODE_END = 0x110000, HAN = REGEX_PROPERTY_COUNT - 1 };

/* A name is a category, or the first letter of several. Categories that are the same in all
 * versions from 14 on are left to the engine, which takes no more than 20 properties. */
static struct regex_property PROPERTIES[REGEX_PROPERTY_COUNT] = {
    { .name = "L" },  { .name = "Lu" }, { .name = "Ll" }, { .name = "Lm" },  { .name = "Lo" },
    { .name = "M" },  { .name = "Mn" }, { .name = "Mc" }, { .name = "N" },   { .name = "Nd" },
    { .name = "P" },  { .name = "Pd" }, { .name = "Po" }, { .name = "S" },   { .name = "Sm" },
    { .name = "So" }, { .name = "C" },  { .name = "Cn" }, { .name = "Han" },
};

/* Scripts.txt of Unicode 16. */
static const uint32_t HAN_RANGES[] = {
    0x2E80,  0x2E99,  0x2E9B,  0x2EF3,  0x2F00,  0x2FD5,  0x3005,  0x3005,  0x3007,
    0x3007,  0x3021,  0x3029,  0x3038,  0x303B,  0x3400,  0x4DBF,  0x4E00,  0x9FFF,
    0xF900,  0xFA6D,  0xFA70,  0xFAD9,  0x16FE2, 0x16FE3, 0x16FF0, 0x16FF1, 0x20000,
    0x2A6DF, 0x2A700, 0x2B739, 0x2B740, 0x2B81D, 0x2B820, 0x2CEA1, 0x2CEB0, 0x2EBE0,
    0x2EBF0, 0x2EE5D, 0x2F800, 0x2FA1D, 0x30000, 0x3134A, 0x31350, 0x323AF
};

static bool has(const char *name, const char *category)
{
    return name[0] == category[0] && (!name[1] || name[1] == category[1]);
}

/* Appends a character that is behind all others. */
static void add(uint32_t *ranges, uint32_t code)
{
    uint32_t *last = &ranges[2 * (size_t)ranges[0]];
    if (ranges[0] > 0 && *last + 1 == code) {
        *last = code;
    } else if (ranges[0] < REGEX_PROPERTY_RANGES_MAX) {
        last[1] = last[2] = code;
        ranges[0]++;
    }
}

struct regex_property *regex_properties(void)
{
    for (int i = 0; i < HAN; i++)
        PROPERTIES[i].ranges[0] = 0;
    for (uint32_t code = 0; code < CODE_END; code++) {
        const char *category = unicode_category(code);
        for (int i = 0; i < HAN; i++)
            if (has(PROPERTIES[i].name, category))
                add(PROPERTIES[i].ranges, code);
    }
    PROPERTIES[HAN].ranges[0] = sizeof HAN_RANGES / sizeof *HAN_RANGES / 2;
    memcpy(PROPERTIES[HAN].ranges + 1, HAN_RANGES, sizeof HAN_RANGES);
    return PROPERTIES;
}
