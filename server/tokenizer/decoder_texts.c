/* decoder_texts.c - replacing and joining texts of tokens. */
#include "tokenizer/decoder_texts.h"

#include "base/utf8.h"

#include <string.h>

enum { STEPS_MATCH = 8 };

struct byte_slice decoder_texts_slice(const char *string)
{
    return (struct byte_slice){ string, strlen(string) };
}

bool decoder_texts_begins(struct byte_slice text, struct byte_slice prefix)
{
    return text.size >= prefix.size
           && (prefix.size == 0 || memcmp(text.data, prefix.data, prefix.size) == 0);
}

/* The next occurrence at `at` or behind; SIZE_MAX: none. */
static size_t find(struct byte_slice text, size_t at, struct byte_slice what)
{
    if (at > text.size)
        return SIZE_MAX;
    if (what.size == 0)
        return at;
    const char *bytes = text.data;
    const char *found = memmem(bytes + at, text.size - at, what.data, what.size);
    return found ? (size_t)(found - bytes) : SIZE_MAX;
}

/* Where the search goes on behind an occurrence. */
static size_t behind(struct byte_slice text, size_t found, size_t size)
{
    if (size > 0)
        return found + size;
    const size_t step = utf8_character_size((const char *)text.data + found, text.size - found);
    return found + (step > 0 ? step : 1);
}

struct byte_slice decoder_texts_replace(struct byte_slice text, struct byte_slice from,
                                        struct byte_slice to, const struct decoder_texts *texts)
{
    size_t count = 0;
    for (size_t at = 0; (at = find(text, at, from)) != SIZE_MAX; count++) {
        if (!work_limit_spend(texts->limit, STEPS_MATCH))
            return (struct byte_slice){ NULL, 0 };
        at = behind(text, at, from.size);
    }
    if (count == 0)
        return text;
    char *out = arena_alloc(texts->arena, text.size + count * to.size);
    if (!out)
        return (struct byte_slice){ NULL, 0 };
    const char *bytes = text.data;
    size_t used = 0, copied = 0, found;
    for (size_t at = 0; (found = find(text, at, from)) != SIZE_MAX;) {
        if (!work_limit_spend(texts->limit, STEPS_MATCH))
            return (struct byte_slice){ NULL, 0 };
        memcpy(out + used, bytes + copied, found - copied);
        used += found - copied;
        memcpy(out + used, to.data, to.size);
        used += to.size;
        copied = found + from.size;
        at = behind(text, found, from.size);
    }
    memcpy(out + used, bytes + copied, text.size - copied);
    return (struct byte_slice){ out, used + text.size - copied };
}

struct byte_slice decoder_texts_join(struct byte_slice first, struct byte_slice second,
                                     struct arena *arena)
{
    char *out = arena_alloc(arena, first.size + second.size);
    if (!out)
        return (struct byte_slice){ NULL, 0 };
    memcpy(out, first.data, first.size);
    memcpy(out + first.size, second.data, second.size);
    return (struct byte_slice){ out, first.size + second.size };
}

bool decoder_texts_fuse(struct decoder_texts *texts, struct fault *fault)
{
    size_t size = 0;
    for (int64_t i = 0; i < texts->count; i++)
        size += texts->texts[i].size;
    char *all = arena_alloc(texts->arena, size);
    struct byte_slice *one = arena_alloc(texts->arena, sizeof *one);
    if (!all || !one)
        return fault_no_memory(fault);
    *one = (struct byte_slice){ all, size };
    for (int64_t i = 0; i < texts->count; i++) {
        memcpy(all, texts->texts[i].data, texts->texts[i].size);
        all += texts->texts[i].size;
    }
    texts->texts = one;
    texts->count = 1;
    return true;
}

bool decoder_texts_each(struct decoder_texts *texts, decoder_texts_change change, const void *state,
                        struct fault *fault)
{
    for (int64_t i = 0; i < texts->count; i++) {
        texts->texts[i] = change(state, texts->texts[i], i, texts);
        if (!texts->texts[i].data || !work_limit_spend(texts->limit, (int64_t)texts->texts[i].size))
            return decoder_texts_fault(texts, fault);
    }
    return true;
}

bool decoder_texts_fault(const struct decoder_texts *texts, struct fault *fault)
{
    return texts->limit->is_stopped ? work_limit_fault(fault) : fault_no_memory(fault);
}
