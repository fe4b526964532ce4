/* metaspace.c - Metaspace: a visible character in place of each space, as in
 * SentencePiece, and a cut before each of them. */
#include "tokenizer/metaspace.h"
#include "tokenizer/pre_tokenizer_types.h"
#include "tokenizer/split.h"

#include "base/utf8.h"

#include <string.h>

bool metaspace_options_read(struct pipeline_build *build, const cJSON *node, const char *where,
                            struct metaspace_options *options)
{
    static const char *const schemes[] = {
        [METASPACE_ALWAYS] = "always",
        [METASPACE_FIRST] = "first",
        [METASPACE_NEVER] = "never",
    };
    const char *scheme = NULL;
    bool adds_prefix = true;
    *options = (struct metaspace_options){ .splits = true };
    uint32_t code;
    if (!pipeline_character(build, node, where, "replacement", &code)
        || !pipeline_string(build, node, where, "prepend_scheme", false, &scheme)
        || !pipeline_bool(build, node, where, "add_prefix_space", false, &adds_prefix)
        || !pipeline_bool(build, node, where, "split", false, &options->splits))
        return false;
    options->replacement[utf8_encode(options->replacement, code)] = 0;
    /* Files from before prepend_scheme have add_prefix_space alone. */
    if (!scheme) {
        options->scheme = adds_prefix ? METASPACE_ALWAYS : METASPACE_NEVER;
        return true;
    }
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strcmp(schemes[i], scheme) == 0) {
            options->scheme = (enum metaspace_scheme)i;
            return adds_prefix || options->scheme == METASPACE_NEVER
                   || pipeline_fail(build, where,
                                    "add_prefix_space is false, but prepend_scheme is %s", scheme);
        }
    return pipeline_fail(build, where, "prepend_scheme is '%.40s'; expected always, first or never",
                         scheme);
}

struct metaspace {
    struct metaspace_options options;
    struct split_pattern split;
};

static bool wants_prefix(const struct metaspace_options *options, const char *text,
                         const struct piece *piece)
{
    if (piece->start == piece->end || options->scheme == METASPACE_NEVER
        || (options->scheme == METASPACE_FIRST && piece->origin != 0))
        return false;
    const size_t size = strlen(options->replacement);
    return text[piece->start] != ' '
           && (piece->end - piece->start < size
               || memcmp(text + piece->start, options->replacement, size) != 0);
}

static void rewrite(const struct metaspace_options *options, struct pieces *pieces, int64_t i)
{
    const struct piece *piece = &pieces->list[i];
    const char *text = pieces->bytes;
    const size_t size = strlen(options->replacement);
    pieces_open(pieces);
    if (wants_prefix(options, text, piece))
        pieces_put(pieces, options->replacement, size,
                   pieces_span(pieces, piece->start, piece->start + 1));
    for (uint32_t at = piece->start; at < piece->end;) {
        const char *space = memchr(text + at, ' ', piece->end - at);
        const uint32_t to = space ? (uint32_t)(space - text) : piece->end;
        pieces_copy(pieces, at, to);
        if (space)
            pieces_put(pieces, options->replacement, size, pieces_span(pieces, to, to + 1));
        at = to + 1;
    }
    pieces_close(pieces, i);
}

static bool metaspace_run(const void *state, struct pieces *pieces, struct fault *fault)
{
    const struct metaspace *metaspace = state;
    pieces_begin_rewrite(pieces);
    for (int64_t i = 0; i < pieces->count; i++) {
        if (pieces->list[i].id >= 0)
            pieces_keep(pieces, i);
        else
            rewrite(&metaspace->options, pieces, i);
    }
    return pieces_end(pieces, fault)
           && (!metaspace->options.splits || split_by_pattern(&metaspace->split, pieces, fault));
}

bool metaspace_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    struct metaspace *metaspace = pipeline_alloc(build, 1, sizeof *metaspace);
    if (!metaspace
        || !metaspace_options_read(build, node, "pre_tokenizer Metaspace", &metaspace->options))
        return false;
    metaspace->split = (struct split_pattern){ .literal = metaspace->options.replacement,
                                               .behavior = SPLIT_MERGED_WITH_NEXT };
    *(struct pre_tokenizer *)step = (struct pre_tokenizer){ metaspace_run, metaspace };
    return true;
}
