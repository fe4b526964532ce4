/* byte_level.c - ByteLevel: cuts as GPT-2 does, and writes each byte as a visible
 * character. */
#include "tokenizer/byte_level.h"
#include "tokenizer/pre_tokenizer_types.h"
#include "tokenizer/split.h"

#include "base/utf8.h"

struct byte_level {
    bool adds_prefix_space;
    struct split_pattern words; /* regex is NULL where it is not used */
    struct pieces_mapped alphabet[256];
};

static void byte_level_alphabet(struct pieces_mapped alphabet[256])
{
    for (int byte = 0; byte < 256; byte++) {
        char bytes[4];
        const size_t size = utf8_encode(bytes, byte_level_character((uint8_t)byte));
        alphabet[byte] = (struct pieces_mapped){ .bytes = { bytes[0], size > 1 ? bytes[1] : 0 },
                                                 .size = (uint8_t)size };
    }
}

static bool add_prefix_space(struct pieces *pieces, struct fault *fault)
{
    pieces_begin_rewrite(pieces);
    for (int64_t i = 0; i < pieces->count; i++) {
        const struct piece piece = pieces->list[i];
        if (piece.id >= 0) {
            pieces_keep(pieces, i);
            continue;
        }
        pieces_open(pieces);
        if (piece.start < piece.end && pieces->bytes[piece.start] != ' ')
            pieces_put(pieces, " ", 1, pieces_span(pieces, piece.start, piece.start + 1));
        pieces_copy(pieces, piece.start, piece.end);
        pieces_close(pieces, i);
    }
    return pieces_end(pieces, fault);
}

static bool byte_level_run(const void *state, struct pieces *pieces, struct fault *fault)
{
    const struct byte_level *level = state;
    if (level->adds_prefix_space && !add_prefix_space(pieces, fault))
        return false;
    if (level->words.regex && !split_by_pattern(&level->words, pieces, fault))
        return false;
    pieces_begin_rewrite(pieces);
    for (int64_t i = 0; i < pieces->count; i++) {
        const struct piece *piece = &pieces->list[i];
        if (piece->id >= 0) {
            pieces_keep(pieces, i);
            continue;
        }
        pieces_open(pieces);
        pieces_map(pieces, piece->start, piece->end, level->alphabet);
        pieces_close(pieces, i);
    }
    return pieces_end(pieces, fault);
}

bool byte_level_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    static const char where[] = "pre_tokenizer ByteLevel";
    static const char words[] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    bool uses_regex = true, trims_offsets = true;
    struct byte_level *level = pipeline_alloc(build, 1, sizeof *level);
    if (!level
        || !pipeline_bool(build, node, where, "add_prefix_space", true, &level->adds_prefix_space)
        || !pipeline_bool(build, node, where, "trim_offsets", true, &trims_offsets)
        || !pipeline_bool(build, node, where, "use_regex", false, &uses_regex))
        return false;
    level->words.behavior = SPLIT_ISOLATED;
    if (uses_regex && !(level->words.regex = pipeline_regex(build, words, sizeof words - 1)))
        return false;
    byte_level_alphabet(level->alphabet);
    *(struct pre_tokenizer *)step = (struct pre_tokenizer){ byte_level_run, level };
    return true;
}
