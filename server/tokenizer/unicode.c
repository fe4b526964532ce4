/* unicode.c - properties from utf8proc, corrected to the versions of the reference. */
#include "tokenizer/unicode.h"

#include "base/utf8.h"
#include "tokenizer/unicode_delta.h"

#include <string.h>
#include <utf8proc.h>

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
    const char *later = unicode_delta_category(code);
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
    return has_category(code, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CO)
           && !unicode_delta_has(UNICODE_LATER_OTHER, code);
}

bool unicode_is_punctuation(uint32_t code)
{
    if (has_category(code, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO))
        return code < 0x80 || !unicode_delta_has(UNICODE_LATER_PUNCTUATION, code);
    return code >= 0x80 && unicode_delta_has(UNICODE_FORMER_PUNCTUATION, code);
}

bool unicode_is_mark(uint32_t code)
{
    if (code < 0x300)
        return false;
    return has_category(code, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME)
               ? !unicode_delta_has(UNICODE_LATER_MARK, code)
               : unicode_delta_has(UNICODE_FORMER_MARK, code);
}

bool unicode_is_nonspacing(uint32_t code)
{
    if (code < 0x300)
        return false;
    return category(code) == UTF8PROC_CATEGORY_MN
               ? !unicode_delta_has(UNICODE_LATER_NONSPACING, code)
               : unicode_delta_has(UNICODE_FORMER_NONSPACING, code);
}

bool unicode_is_numeric(uint32_t code)
{
    return has_category(code, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO)
           || (code >= 0x10D40 && unicode_delta_has(UNICODE_LATER_NUMERIC, code));
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
           || (code >= 0x1F170 && code <= 0x1F189) || unicode_delta_has(UNICODE_LATER_WORD, code);
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
        lower[0] = unicode_delta_lowercase((uint32_t)utf8proc_tolower((utf8proc_int32_t)code));
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
    if (code < 0x300 || unicode_delta_has(UNICODE_LATER_MARK, code))
        return 0;
    return (uint8_t)utf8proc_get_property((utf8proc_int32_t)code)->combining_class;
}

size_t unicode_decompose(uint32_t code, bool compatible, uint32_t out[UNICODE_DECOMPOSED_MAX])
{
    out[0] = code;
    if (code < 0xA0 || unicode_delta_has(UNICODE_LATER_DECOMPOSITION, code))
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
    return count == 1 && !unicode_delta_has(UNICODE_LATER_DECOMPOSITION, (uint32_t)pair[0])
               ? (uint32_t)pair[0]
               : 0;
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
