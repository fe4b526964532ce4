/* SPDX-License-Identifier: Apache-2.0 */
/* unicode.c - properties from utf8proc, corrected to the versions of Unicode of the reference.
 *
 * Tokens must be the reference's, and it takes each property from a table of another version of
 * Unicode: normal forms and marks from 9, categories from older ones, characters of words from 16,
 * case and numbers from 16 and 17. The tables hold the differences. They were found by asking the
 * reference implementation, tokenizers 0.22.2, for every character, for categories by a regular
 * expression, and utf8proc 2.8.0 (Unicode 15) for the same. */
#include "models/tokenizer/unicode.h"

#include "base/utf8.h"

#include <string.h>
#include <utf8proc.h>

/* ---------------------------------------------------------- differences -- */

struct range {
    uint32_t first, last;
};

/* "Later than": utf8proc says that the character has the property and the reference does not know
 * it yet, or the other way round for words, numbers and case. */

/* Categories M* and combining classes: later than Unicode 9. */
static const struct range MARKS[] = {
    { 0x7FD, 0x7FD },     { 0x898, 0x89F },     { 0x8CA, 0x8D3 },     { 0x9FE, 0x9FE },
    { 0xAFA, 0xAFF },     { 0xB55, 0xB55 },     { 0xC04, 0xC04 },     { 0xC3C, 0xC3C },
    { 0xCF3, 0xCF3 },     { 0xD00, 0xD00 },     { 0xD3B, 0xD3C },     { 0xD81, 0xD81 },
    { 0xEBA, 0xEBA },     { 0xECE, 0xECE },     { 0x1715, 0x1715 },   { 0x180F, 0x180F },
    { 0x1ABF, 0x1ACE },   { 0x1CF7, 0x1CF7 },   { 0x1DF6, 0x1DFA },   { 0xA82C, 0xA82C },
    { 0xA8FF, 0xA8FF },   { 0x10D24, 0x10D27 }, { 0x10EAB, 0x10EAC }, { 0x10EFD, 0x10EFF },
    { 0x10F46, 0x10F50 }, { 0x10F82, 0x10F85 }, { 0x11070, 0x11070 }, { 0x11073, 0x11074 },
    { 0x110C2, 0x110C2 }, { 0x11145, 0x11146 }, { 0x111C9, 0x111C9 }, { 0x111CE, 0x111CF },
    { 0x11241, 0x11241 }, { 0x1133B, 0x1133B }, { 0x1145E, 0x1145E }, { 0x1182C, 0x1183A },
    { 0x11930, 0x11935 }, { 0x11937, 0x11938 }, { 0x1193B, 0x1193E }, { 0x11940, 0x11940 },
    { 0x11942, 0x11943 }, { 0x119D1, 0x119D7 }, { 0x119DA, 0x119E0 }, { 0x119E4, 0x119E4 },
    { 0x11A01, 0x11A0A }, { 0x11A33, 0x11A39 }, { 0x11A3B, 0x11A3E }, { 0x11A47, 0x11A47 },
    { 0x11A51, 0x11A5B }, { 0x11A8A, 0x11A99 }, { 0x11D31, 0x11D36 }, { 0x11D3A, 0x11D3A },
    { 0x11D3C, 0x11D3D }, { 0x11D3F, 0x11D45 }, { 0x11D47, 0x11D47 }, { 0x11D8A, 0x11D8E },
    { 0x11D90, 0x11D91 }, { 0x11D93, 0x11D97 }, { 0x11EF3, 0x11EF6 }, { 0x11F00, 0x11F01 },
    { 0x11F03, 0x11F03 }, { 0x11F34, 0x11F3A }, { 0x11F3E, 0x11F42 }, { 0x13440, 0x13440 },
    { 0x13447, 0x13455 }, { 0x16F4F, 0x16F4F }, { 0x16F7F, 0x16F87 }, { 0x16FE4, 0x16FE4 },
    { 0x16FF0, 0x16FF1 }, { 0x1CF00, 0x1CF2D }, { 0x1CF30, 0x1CF46 }, { 0x1E08F, 0x1E08F },
    { 0x1E130, 0x1E136 }, { 0x1E2AE, 0x1E2AE }, { 0x1E2EC, 0x1E2EF }, { 0x1E4EC, 0x1E4EF },
};

/* Category Mn: later than Unicode 8. */
static const struct range NONSPACING[] = {
    { 0x7FD, 0x7FD },     { 0x898, 0x89F },     { 0x8CA, 0x8E1 },     { 0x9FE, 0x9FE },
    { 0xAFA, 0xAFF },     { 0xB55, 0xB55 },     { 0xC04, 0xC04 },     { 0xC3C, 0xC3C },
    { 0xD00, 0xD00 },     { 0xD3B, 0xD3C },     { 0xD81, 0xD81 },     { 0xEBA, 0xEBA },
    { 0xECE, 0xECE },     { 0x180F, 0x180F },   { 0x1885, 0x1886 },   { 0x1ABF, 0x1ACE },
    { 0x1DF6, 0x1DFB },   { 0xA82C, 0xA82C },   { 0xA8C5, 0xA8C5 },   { 0xA8FF, 0xA8FF },
    { 0xA9BD, 0xA9BD },   { 0x10D24, 0x10D27 }, { 0x10EAB, 0x10EAC }, { 0x10EFD, 0x10EFF },
    { 0x10F46, 0x10F50 }, { 0x10F82, 0x10F85 }, { 0x11070, 0x11070 }, { 0x11073, 0x11074 },
    { 0x110C2, 0x110C2 }, { 0x111C9, 0x111C9 }, { 0x111CF, 0x111CF }, { 0x1123E, 0x1123E },
    { 0x11241, 0x11241 }, { 0x1133B, 0x1133B }, { 0x11438, 0x1143F }, { 0x11442, 0x11444 },
    { 0x11446, 0x11446 }, { 0x1145E, 0x1145E }, { 0x1182F, 0x11837 }, { 0x11839, 0x1183A },
    { 0x1193B, 0x1193C }, { 0x1193E, 0x1193E }, { 0x11943, 0x11943 }, { 0x119D4, 0x119D7 },
    { 0x119DA, 0x119DB }, { 0x119E0, 0x119E0 }, { 0x11A01, 0x11A0A }, { 0x11A33, 0x11A38 },
    { 0x11A3B, 0x11A3E }, { 0x11A47, 0x11A47 }, { 0x11A51, 0x11A56 }, { 0x11A59, 0x11A5B },
    { 0x11A8A, 0x11A96 }, { 0x11A98, 0x11A99 }, { 0x11C30, 0x11C36 }, { 0x11C38, 0x11C3D },
    { 0x11C3F, 0x11C3F }, { 0x11C92, 0x11CA7 }, { 0x11CAA, 0x11CB0 }, { 0x11CB2, 0x11CB3 },
    { 0x11CB5, 0x11CB6 }, { 0x11D31, 0x11D36 }, { 0x11D3A, 0x11D3A }, { 0x11D3C, 0x11D3D },
    { 0x11D3F, 0x11D45 }, { 0x11D47, 0x11D47 }, { 0x11D90, 0x11D91 }, { 0x11D95, 0x11D95 },
    { 0x11D97, 0x11D97 }, { 0x11EF3, 0x11EF4 }, { 0x11F00, 0x11F01 }, { 0x11F36, 0x11F3A },
    { 0x11F40, 0x11F40 }, { 0x11F42, 0x11F42 }, { 0x13440, 0x13440 }, { 0x13447, 0x13455 },
    { 0x16F4F, 0x16F4F }, { 0x16FE4, 0x16FE4 }, { 0x1CF00, 0x1CF2D }, { 0x1CF30, 0x1CF46 },
    { 0x1E000, 0x1E006 }, { 0x1E008, 0x1E018 }, { 0x1E01B, 0x1E021 }, { 0x1E023, 0x1E024 },
    { 0x1E026, 0x1E02A }, { 0x1E08F, 0x1E08F }, { 0x1E130, 0x1E136 }, { 0x1E2AE, 0x1E2AE },
    { 0x1E2EC, 0x1E2EF }, { 0x1E4EC, 0x1E4EF }, { 0x1E944, 0x1E94A },
};

/* Category Cf: later than Unicode 6. */
static const struct range OTHER[] = {
    { 0x890, 0x891 },
    { 0x8E2, 0x8E2 },
    { 0x110CD, 0x110CD },
    { 0x13430, 0x1343F },
};

/* Categories P*: later than Unicode 6. */
static const struct range PUNCTUATION[] = {
    { 0x61D, 0x61D },     { 0x9FD, 0x9FD },     { 0xA76, 0xA76 },     { 0xC77, 0xC77 },
    { 0xC84, 0xC84 },     { 0x1B7D, 0x1B7E },   { 0x2E43, 0x2E4F },   { 0x2E52, 0x2E5D },
    { 0x10EAD, 0x10EAD }, { 0x10F55, 0x10F59 }, { 0x10F86, 0x10F89 }, { 0x1144B, 0x1144F },
    { 0x1145A, 0x1145B }, { 0x1145D, 0x1145D }, { 0x11660, 0x1166C }, { 0x116B9, 0x116B9 },
    { 0x1183B, 0x1183B }, { 0x11944, 0x11946 }, { 0x119E2, 0x119E2 }, { 0x11A3F, 0x11A46 },
    { 0x11A9A, 0x11A9C }, { 0x11A9E, 0x11AA2 }, { 0x11B00, 0x11B09 }, { 0x11C41, 0x11C45 },
    { 0x11C70, 0x11C71 }, { 0x11EF7, 0x11EF8 }, { 0x11F43, 0x11F4F }, { 0x11FFF, 0x11FFF },
    { 0x12FF1, 0x12FF2 }, { 0x16E97, 0x16E9A }, { 0x16FE2, 0x16FE2 }, { 0x1E95E, 0x1E95F },
};

/* Decompositions: later than Unicode 9. */
static const struct range DECOMPOSITIONS[] = {
    { 0x32FF, 0x32FF },   { 0xA7F2, 0xA7F4 },   { 0xAB69, 0xAB69 },   { 0x10781, 0x10785 },
    { 0x10787, 0x107B0 }, { 0x107B2, 0x107BA }, { 0x11938, 0x11938 }, { 0x1E030, 0x1E06D },
    { 0x1F16C, 0x1F16C }, { 0x1FBF0, 0x1FBF9 },
};

/* Categories N*: later than Unicode 15. */
static const struct range NUMERIC[] = {
    { 0x10D40, 0x10D49 }, { 0x116D0, 0x116E3 }, { 0x11BF0, 0x11BF9 },
    { 0x11DE0, 0x11DE9 }, { 0x16130, 0x16139 }, { 0x16D70, 0x16D79 },
    { 0x16FF4, 0x16FF6 }, { 0x1CCF0, 0x1CCF9 }, { 0x1E5F1, 0x1E5FA },
};

/* Characters of words: later than Unicode 15, up to 16. */
static const struct range WORDS[] = {
    { 0x897, 0x897 },     { 0x1C89, 0x1C8A },   { 0xA7CB, 0xA7CD },   { 0xA7DA, 0xA7DC },
    { 0x105C0, 0x105F3 }, { 0x10D40, 0x10D65 }, { 0x10D69, 0x10D6D }, { 0x10D6F, 0x10D85 },
    { 0x10EC2, 0x10EC4 }, { 0x10EFC, 0x10EFC }, { 0x11380, 0x11389 }, { 0x1138B, 0x1138B },
    { 0x1138E, 0x1138E }, { 0x11390, 0x113B5 }, { 0x113B7, 0x113C0 }, { 0x113C2, 0x113C2 },
    { 0x113C5, 0x113C5 }, { 0x113C7, 0x113CA }, { 0x113CC, 0x113D3 }, { 0x113E1, 0x113E2 },
    { 0x116D0, 0x116E3 }, { 0x11BC0, 0x11BE0 }, { 0x11BF0, 0x11BF9 }, { 0x11F5A, 0x11F5A },
    { 0x13460, 0x143FA }, { 0x16100, 0x16139 }, { 0x16D40, 0x16D6C }, { 0x16D70, 0x16D79 },
    { 0x18CFF, 0x18CFF }, { 0x1CCF0, 0x1CCF9 }, { 0x1E5D0, 0x1E5FA }, { 0x2EBF0, 0x2EE5D },
};

/* Marks of Unicode 9 that are letters now. */
static const struct range FORMER_MARKS[] = {
    { 0x1CF2, 0x1CF3 },
};

/* Category Mn in Unicode 8, and another now. */
static const struct range FORMER_NONSPACING[] = {
    { 0x1734, 0x1734 },
};

/* Categories P* then, and another now. */
static const struct range FORMER_PUNCTUATION[] = {
    { 0x166D, 0x166D },
    { 0x111C9, 0x111C9 },
};

/* Lower case: later than Unicode 15. */
static const struct lowercase {
    struct range codes;
    uint32_t lower; /* of the first */
} LOWERCASE[] = {
    { { 0x1C89, 0x1C89 }, 0x1C8A },    { { 0xA7CB, 0xA7CB }, 0x264 },
    { { 0xA7CC, 0xA7CC }, 0xA7CD },    { { 0xA7CE, 0xA7CE }, 0xA7CF },
    { { 0xA7D2, 0xA7D2 }, 0xA7D3 },    { { 0xA7D4, 0xA7D4 }, 0xA7D5 },
    { { 0xA7DA, 0xA7DA }, 0xA7DB },    { { 0xA7DC, 0xA7DC }, 0x19B },
    { { 0x10D50, 0x10D65 }, 0x10D70 }, { { 0x16EA0, 0x16EB8 }, 0x16EBB },
};

/* The categories of characters that Unicode 16 has and 15 has not. */
static const struct category {
    struct range codes;
    char name[3];
} CATEGORIES[] = {
    { { 0x897, 0x897 }, "Mn" },     { { 0x1B4E, 0x1B4F }, "Po" },   { { 0x1B7F, 0x1B7F }, "Po" },
    { { 0x1C89, 0x1C89 }, "Lu" },   { { 0x1C8A, 0x1C8A }, "Ll" },   { { 0x2427, 0x2429 }, "So" },
    { { 0x2FFC, 0x2FFF }, "So" },   { { 0x31E4, 0x31E5 }, "So" },   { { 0x31EF, 0x31EF }, "So" },
    { { 0xA7CB, 0xA7CC }, "Lu" },   { { 0xA7CD, 0xA7CD }, "Ll" },   { { 0xA7DA, 0xA7DA }, "Lu" },
    { { 0xA7DB, 0xA7DB }, "Ll" },   { { 0xA7DC, 0xA7DC }, "Lu" },   { { 0x105C0, 0x105F3 }, "Lo" },
    { { 0x10D40, 0x10D49 }, "Nd" }, { { 0x10D4A, 0x10D4D }, "Lo" }, { { 0x10D4E, 0x10D4E }, "Lm" },
    { { 0x10D4F, 0x10D4F }, "Lo" }, { { 0x10D50, 0x10D65 }, "Lu" }, { { 0x10D69, 0x10D6D }, "Mn" },
    { { 0x10D6E, 0x10D6E }, "Pd" }, { { 0x10D6F, 0x10D6F }, "Lm" }, { { 0x10D70, 0x10D85 }, "Ll" },
    { { 0x10D8E, 0x10D8F }, "Sm" }, { { 0x10EC2, 0x10EC4 }, "Lo" }, { { 0x10EFC, 0x10EFC }, "Mn" },
    { { 0x11380, 0x11389 }, "Lo" }, { { 0x1138B, 0x1138B }, "Lo" }, { { 0x1138E, 0x1138E }, "Lo" },
    { { 0x11390, 0x113B5 }, "Lo" }, { { 0x113B7, 0x113B7 }, "Lo" }, { { 0x113B8, 0x113BA }, "Mc" },
    { { 0x113BB, 0x113C0 }, "Mn" }, { { 0x113C2, 0x113C2 }, "Mc" }, { { 0x113C5, 0x113C5 }, "Mc" },
    { { 0x113C7, 0x113CA }, "Mc" }, { { 0x113CC, 0x113CD }, "Mc" }, { { 0x113CE, 0x113CE }, "Mn" },
    { { 0x113CF, 0x113CF }, "Mc" }, { { 0x113D0, 0x113D0 }, "Mn" }, { { 0x113D1, 0x113D1 }, "Lo" },
    { { 0x113D2, 0x113D2 }, "Mn" }, { { 0x113D3, 0x113D3 }, "Lo" }, { { 0x113D4, 0x113D5 }, "Po" },
    { { 0x113D7, 0x113D8 }, "Po" }, { { 0x113E1, 0x113E2 }, "Mn" }, { { 0x116D0, 0x116E3 }, "Nd" },
    { { 0x1171E, 0x1171E }, "Mc" }, { { 0x11BC0, 0x11BE0 }, "Lo" }, { { 0x11BE1, 0x11BE1 }, "Po" },
    { { 0x11BF0, 0x11BF9 }, "Nd" }, { { 0x11F5A, 0x11F5A }, "Mn" }, { { 0x13460, 0x143FA }, "Lo" },
    { { 0x16100, 0x1611D }, "Lo" }, { { 0x1611E, 0x16129 }, "Mn" }, { { 0x1612A, 0x1612C }, "Mc" },
    { { 0x1612D, 0x1612F }, "Mn" }, { { 0x16130, 0x16139 }, "Nd" }, { { 0x16D40, 0x16D42 }, "Lm" },
    { { 0x16D43, 0x16D6A }, "Lo" }, { { 0x16D6B, 0x16D6C }, "Lm" }, { { 0x16D6D, 0x16D6F }, "Po" },
    { { 0x16D70, 0x16D79 }, "Nd" }, { { 0x18CFF, 0x18CFF }, "Lo" }, { { 0x1CC00, 0x1CCEF }, "So" },
    { { 0x1CCF0, 0x1CCF9 }, "Nd" }, { { 0x1CD00, 0x1CEB3 }, "So" }, { { 0x1E5D0, 0x1E5ED }, "Lo" },
    { { 0x1E5EE, 0x1E5EF }, "Mn" }, { { 0x1E5F0, 0x1E5F0 }, "Lo" }, { { 0x1E5F1, 0x1E5FA }, "Nd" },
    { { 0x1E5FF, 0x1E5FF }, "Po" }, { { 0x1F8B2, 0x1F8BB }, "So" }, { { 0x1F8C0, 0x1F8C1 }, "So" },
    { { 0x1FA89, 0x1FA89 }, "So" }, { { 0x1FA8F, 0x1FA8F }, "So" }, { { 0x1FABE, 0x1FABE }, "So" },
    { { 0x1FAC6, 0x1FAC6 }, "So" }, { { 0x1FADC, 0x1FADC }, "So" }, { { 0x1FADF, 0x1FADF }, "So" },
    { { 0x1FAE9, 0x1FAE9 }, "So" }, { { 0x1FBCB, 0x1FBEF }, "So" }, { { 0x2EBF0, 0x2EE5D }, "Lo" },
};

/* The row whose range, its first member, has the code; NULL: none has it. Rows are in order. */
static inline const void *find_row(const void *rows, size_t count, size_t row_size, uint32_t code)
{
    const char *first = rows;
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (code > ((const struct range *)(first + middle * row_size))->last)
            low = middle + 1;
        else
            high = middle;
    }
    const struct range *found = (const struct range *)(first + low * row_size);
    return low < count && code >= found->first ? found : NULL;
}

#define HAS(ranges, code)                                                                          \
    (find_row(ranges, sizeof(ranges) / sizeof(ranges)[0], sizeof(struct range), code) != NULL)

/* The lower case of a character whose lower case is later; the character itself for all others. */
static uint32_t delta_lowercase(uint32_t code)
{
    const struct lowercase *row =
        find_row(LOWERCASE, sizeof LOWERCASE / sizeof *LOWERCASE, sizeof *row, code);
    return row ? row->lower + (code - row->codes.first) : code;
}

/* The category in Unicode 16, "Lu", of a character that has another one in Unicode 15; NULL for all
 * others. */
static const char *delta_category(uint32_t code)
{
    const struct category *row =
        find_row(CATEGORIES, sizeof CATEGORIES / sizeof *CATEGORIES, sizeof *row, code);
    return row ? row->name : NULL;
}

/* ---------------------------------------------------------- properties -- */

static utf8proc_category_t category(uint32_t code)
{
    return utf8proc_category((utf8proc_int32_t)code);
}

static bool has_category(uint32_t code, utf8proc_category_t first, utf8proc_category_t last)
{
    const utf8proc_category_t own = category(code);
    return own >= first && own <= last;
}

const char *unicode_category(uint32_t code)
{
    const char *later = delta_category(code);
    return later ? later : utf8proc_category_string((utf8proc_int32_t)code);
}

bool unicode_is_whitespace(uint32_t code)
{
    if (code < 0x80)
        return code == ' ' || (code >= '\t' && code <= '\r');
    return code == 0x85 || has_category(code, UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZP);
}

bool unicode_is_other(uint32_t code)
{
    return has_category(code, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CO) && !HAS(OTHER, code);
}

bool unicode_is_punctuation(uint32_t code)
{
    if (has_category(code, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO))
        return code < 0x80 || !HAS(PUNCTUATION, code);
    return code >= 0x80 && HAS(FORMER_PUNCTUATION, code);
}

bool unicode_is_mark(uint32_t code)
{
    if (code < 0x300)
        return false;
    return has_category(code, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME) ? !HAS(MARKS, code)
                                                                          : HAS(FORMER_MARKS, code);
}

bool unicode_is_nonspacing(uint32_t code)
{
    if (code < 0x300)
        return false;
    return category(code) == UTF8PROC_CATEGORY_MN ? !HAS(NONSPACING, code)
                                                  : HAS(FORMER_NONSPACING, code);
}

bool unicode_is_numeric(uint32_t code)
{
    return has_category(code, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO)
           || (code >= 0x10D40 && HAS(NUMERIC, code));
}

bool unicode_is_word(uint32_t code)
{
    if (code < 0x80)
        return code == '_' || (code >= '0' && code <= '9')
               || ((code | 32) >= 'a' && (code | 32) <= 'z');
    const utf8proc_category_t own = category(code);
    return (own >= UTF8PROC_CATEGORY_LU && own <= UTF8PROC_CATEGORY_NL)
           || own == UTF8PROC_CATEGORY_PC || code == 0x200C || code == 0x200D
           || (code >= 0x24B6 && code <= 0x24E9) /* the circled and squared letters */
           || (code >= 0x1F130 && code <= 0x1F149) || (code >= 0x1F150 && code <= 0x1F169)
           || (code >= 0x1F170 && code <= 0x1F189) || HAS(WORDS, code);
}

size_t unicode_lowercase(uint32_t code, uint32_t lower[3])
{
    if (code == 0x130) { /* the only character whose lower case is two (SpecialCasing.txt) */
        lower[0] = 'i';
        lower[1] = 0x307;
        return 2;
    }
    if (code < 0x80)
        lower[0] = code >= 'A' && code <= 'Z' ? code + 32 : code;
    else
        lower[0] = delta_lowercase((uint32_t)utf8proc_tolower((utf8proc_int32_t)code));
    return 1;
}

bool unicode_grapheme_ends(uint32_t before, uint32_t after, int32_t *state)
{
    return utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)after,
                                            state);
}

size_t unicode_find_invalid(const char *text, size_t size)
{
    size_t at = 0;
    while (at < size) {
        uint64_t word;
        for (; size - at >= sizeof word; at += sizeof word) {
            memcpy(&word, text + at, sizeof word);
            if (word & 0x8080808080808080u)
                break;
        }
        const size_t length = utf8_character_size(text + at, size - at);
        if (length == 0)
            break;
        at += length;
    }
    return at;
}

/* ------------------------------------------------------------ normal forms -- */

uint8_t unicode_combining_class(uint32_t code)
{
    if (code < 0x300 || HAS(MARKS, code))
        return 0;
    return (uint8_t)utf8proc_get_property((utf8proc_int32_t)code)->combining_class;
}

size_t unicode_decompose(uint32_t code, bool compatible, uint32_t out[UNICODE_DECOMPOSED_MAX])
{
    out[0] = code;
    if (code < 0xA0 || HAS(DECOMPOSITIONS, code))
        return 1;
    const int options = UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
    int state = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char((utf8proc_int32_t)code, (utf8proc_int32_t *)out,
                                UNICODE_DECOMPOSED_MAX, (utf8proc_option_t)options, &state);
    return count > 0 && count <= UNICODE_DECOMPOSED_MAX ? (size_t)count : (out[0] = code, 1);
}

uint32_t unicode_compose(uint32_t first, uint32_t second)
{
    utf8proc_int32_t pair[3] = { (utf8proc_int32_t)first, (utf8proc_int32_t)second };
    const utf8proc_ssize_t count =
        utf8proc_normalize_utf32(pair, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    return count == 1 && !HAS(DECOMPOSITIONS, (uint32_t)pair[0]) ? (uint32_t)pair[0] : 0;
}

bool unicode_composes_behind(uint32_t code)
{
    if (code < 0x300)
        return false;
    if (code >= 0x1100 && code < 0x1200) /* Hangul's vowels and final consonants */
        return true;
    const utf8proc_property_t *property = utf8proc_get_property((utf8proc_int32_t)code);
    return property->comb_index != UINT16_MAX && property->comb_index >= 0x8000;
}
