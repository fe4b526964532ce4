/* normalizer_replace.c - Replace: every match of a string or of a regular expression by a text. */
#include "tokenizer/normalizers.h"

#include <string.h>

struct replace {
    const char *literal; /* NULL: the regex */
    size_t literal_size;
    const struct regex *regex;
    const char *content;
    size_t content_size;
};

/* A match has the span of its last character; an empty one that of the character before it. */
static void replace_match(const struct replace *replace, struct pieces *pieces,
                          const struct piece *piece, uint32_t end)
{
    struct pieces_span span = { piece->origin, piece->origin };
    if (end > piece->start)
        span = pieces_span(pieces, end - 1, end);
    pieces_put(pieces, replace->content, replace->content_size, span);
}

static void replace_literal(const struct replace *replace, struct pieces *pieces,
                            const struct piece *piece)
{
    uint32_t at = piece->start;
    while (at < piece->end && !pieces->failed) {
        const char *found =
            memmem(pieces->bytes + at, piece->end - at, replace->literal, replace->literal_size);
        if (!found)
            break;
        const uint32_t start = (uint32_t)(found - pieces->bytes);
        pieces_copy(pieces, at, start);
        at = start + (uint32_t)replace->literal_size;
        replace_match(replace, pieces, piece, at);
    }
    pieces_copy(pieces, at, piece->end);
}

static bool replace_regex(const struct replace *replace, struct pieces *pieces,
                          const struct piece *piece, struct fault *fault)
{
    struct regex_scan scan;
    regex_scan_init(&scan, replace->regex, pieces->bytes + piece->start, piece->end - piece->start,
                    pieces->limit);
    uint32_t at = piece->start;
    bool found = true, is_fine = true;
    while (is_fine && found && !pieces->failed) {
        int64_t start, end;
        is_fine = regex_scan_next(&scan, &found, &start, &end, fault);
        if (!is_fine || !found)
            break;
        pieces_copy(pieces, at, piece->start + (uint32_t)start);
        at = piece->start + (uint32_t)end;
        replace_match(replace, pieces, piece, at);
    }
    regex_scan_free(&scan);
    pieces_copy(pieces, at, piece->end);
    return is_fine;
}

static bool has_literal(const struct replace *replace, const struct pieces *pieces)
{
    for (int64_t i = 0; i < pieces->count; i++) {
        const struct piece *piece = &pieces->list[i];
        if (piece->id < 0
            && memmem(pieces->bytes + piece->start, piece->end - piece->start, replace->literal,
                      replace->literal_size))
            return true;
    }
    return false;
}

static bool run(const void *state, struct pieces *pieces, struct fault *fault)
{
    const struct replace *replace = state;
    if (replace->literal && !has_literal(replace, pieces))
        return true;
    pieces_begin_rewrite(pieces);
    for (int64_t i = 0; i < pieces->count; i++) {
        const struct piece *piece = &pieces->list[i];
        if (piece->id >= 0) {
            pieces_keep(pieces, i);
            continue;
        }
        pieces_open(pieces);
        if (replace->literal)
            replace_literal(replace, pieces, piece);
        else if (piece->start < piece->end && !replace_regex(replace, pieces, piece, fault))
            return false;
        pieces_close(pieces, i);
    }
    return pieces_end(pieces, fault);
}

bool normalizer_replace_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    static const char WHERE[] = "normalizer Replace";
    struct replace *replace = pipeline_alloc(build, 1, sizeof *replace);
    const char *content = NULL;
    if (!replace
        || !pipeline_pattern(build, node, WHERE, "pattern", &replace->literal, &replace->regex)
        || !pipeline_string(build, node, WHERE, "content", true, &content))
        return false;
    if (replace->literal && replace->literal[0] == '\0') { /* matches between all characters */
        replace->literal = NULL;
        replace->regex = pipeline_regex(build, "", 0);
        if (!replace->regex)
            return false;
    }
    replace->literal_size = replace->literal ? strlen(replace->literal) : 0;
    replace->content = pipeline_strdup(build, content);
    replace->content_size = strlen(content);
    *(struct normalizer *)step = (struct normalizer){ run, replace };
    return replace->content != NULL;
}
