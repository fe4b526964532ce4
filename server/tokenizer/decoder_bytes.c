/* decoder_bytes.c - ByteLevel and ByteFallback: tokens that stand for bytes become characters, and
 * bytes that are none become U+FFFD. */
#include "tokenizer/byte_level.h"
#include "tokenizer/decoder_texts.h"
#include "tokenizer/decoders.h"
#include "tokenizer/unicode.h"

#include "base/utf8.h"

#include <string.h>

static const char REPLACEMENT[] = "\xEF\xBF\xBD";
enum { REPLACEMENT_SIZE = sizeof REPLACEMENT - 1 };

/* How many bytes at text are the beginning of a character that is not complete or goes on wrong; 1
 * where none begins there. Each such piece becomes one U+FFFD (Unicode 15, section 3.9, "maximal
 * subpart"). */
static size_t broken_size(const unsigned char *text, size_t size)
{
    unsigned low = 0x80, high = 0xBF;
    size_t wanted = 0;
    if (text[0] >= 0xC2 && text[0] <= 0xDF)
        wanted = 1;
    else if (text[0] >= 0xE0 && text[0] <= 0xEF)
        wanted = 2;
    else if (text[0] >= 0xF0 && text[0] <= 0xF4)
        wanted = 3;
    if (text[0] == 0xE0)
        low = 0xA0;
    else if (text[0] == 0xED)
        high = 0x9F;
    else if (text[0] == 0xF0)
        low = 0x90;
    else if (text[0] == 0xF4)
        high = 0x8F;
    size_t have = 1;
    while (have <= wanted && have < size && text[have] >= low && text[have] <= high) {
        have++;
        low = 0x80;
        high = 0xBF;
    }
    return have;
}

/* The bytes as UTF-8. Data is NULL where there is no memory. */
static struct byte_slice repaired(struct byte_slice bytes, struct arena *arena)
{
    char *out = arena_alloc(arena, REPLACEMENT_SIZE * bytes.size);
    const char *text = bytes.data;
    size_t used = 0;
    for (size_t at = 0; out && at < bytes.size;) {
        const size_t size = utf8_character_size(text + at, bytes.size - at);
        memcpy(out + used, size > 0 ? text + at : REPLACEMENT, size > 0 ? size : REPLACEMENT_SIZE);
        used += size > 0 ? size : REPLACEMENT_SIZE;
        at += size > 0 ? size : broken_size((const unsigned char *)text + at, bytes.size - at);
    }
    return (struct byte_slice){ out, used };
}

/* ------------------------------------------------------------- byte level -- */

/* Writes the bytes of a token, or the token as it is where a character of it is not in the
 * alphabet. Returns how many bytes. */
static size_t write_bytes(char *out, struct byte_slice token)
{
    const char *text = token.data;
    size_t used = 0;
    for (size_t at = 0; at < token.size;) {
        uint32_t code;
        at += unicode_decode(text + at, &code);
        const int byte = byte_level_byte(code);
        if (byte < 0) {
            memcpy(out, text, token.size);
            return token.size;
        }
        out[used++] = (char)byte;
    }
    return used;
}

static bool byte_level_decode(const void *state, struct decoder_texts *texts, struct fault *fault)
{
    (void)state;
    size_t size = 0;
    for (int64_t i = 0; i < texts->count; i++)
        size += texts->texts[i].size;
    char *bytes = arena_alloc(texts->arena, size);
    struct byte_slice *one = arena_alloc(texts->arena, sizeof *one);
    if (!bytes || !one)
        return fault_no_memory(fault);
    size_t used = 0;
    for (int64_t i = 0; i < texts->count; i++)
        used += write_bytes(bytes + used, texts->texts[i]);
    *one = repaired((struct byte_slice){ bytes, used }, texts->arena);
    texts->texts = one;
    texts->count = 1;
    return one->data || fault_no_memory(fault);
}

bool decoder_byte_level_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    (void)build, (void)node;
    *(struct decoder *)step = (struct decoder){ byte_level_decode, NULL };
    return true;
}

/* ---------------------------------------------------------- byte fallback -- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte of a token "<0x41>"; -1: it is none. As in the reference "+" may stand for the first
 * digit. */
static int token_byte(struct byte_slice token)
{
    const char *text = token.data;
    if (token.size != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    const int high = text[3] == '+' ? 0 : hex_digit(text[3]), low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
}

static bool is_utf8(const char *text, size_t size)
{
    for (size_t at = 0, step; at < size; at += step)
        if ((step = utf8_character_size(text + at, size - at)) == 0)
            return false;
    return true;
}

/* The text of a run of bytes: all of it is UTF-8, or each byte becomes U+FFFD. */
static struct byte_slice run_text(char *bytes, size_t size, struct arena *arena)
{
    if (is_utf8(bytes, size))
        return (struct byte_slice){ bytes, size };
    char *out = arena_alloc(arena, REPLACEMENT_SIZE * size);
    for (size_t i = 0; out && i < size; i++)
        memcpy(out + REPLACEMENT_SIZE * i, REPLACEMENT, REPLACEMENT_SIZE);
    return (struct byte_slice){ out, REPLACEMENT_SIZE * size };
}

static bool byte_fallback_decode(const void *state, struct decoder_texts *texts,
                                 struct fault *fault)
{
    (void)state;
    char *bytes = arena_alloc(texts->arena, (size_t)texts->count);
    if (!bytes)
        return fault_no_memory(fault);
    int64_t count = 0;
    for (int64_t i = 0; i < texts->count;) {
        size_t run = 0;
        for (int byte; i < texts->count && (byte = token_byte(texts->texts[i])) >= 0; i++)
            bytes[run++] = (char)byte;
        if (run > 0) {
            texts->texts[count] = run_text(bytes, run, texts->arena);
            if (!texts->texts[count++].data)
                return fault_no_memory(fault);
            bytes += run;
        } else {
            texts->texts[count++] = texts->texts[i++];
        }
    }
    texts->count = count;
    return true;
}

bool decoder_byte_fallback_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    (void)build, (void)node;
    *(struct decoder *)step = (struct decoder){ byte_fallback_decode, NULL };
    return true;
}
