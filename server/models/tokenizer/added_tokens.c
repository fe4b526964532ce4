/* SPDX-License-Identifier: Apache-2.0 */
/* added_tokens.c - finds added tokens by two tries: of those that are normalized, and of the
 * others. */
#include "models/tokenizer/added_tokens.h"

#include "models/tokenizer/trie.h"
#include "models/tokenizer/unicode.h"

#include <string.h>

enum {
    NORMALIZED_ARENA_BYTES_MAX = 16 << 20, /* to normalize a token */
    NORMALIZED_STEPS_MAX = 1 << 30         /* to normalize all tokens of a file */
};

#define WHERE "added_tokens"

struct added_token {
    struct byte_slice content;
    struct byte_slice searched; /* the text that it is searched by */
    int64_t id;
    bool single_word, left_strip, right_strip, normalized, special;
};

/* The tokens of a kind. */
struct search {
    const struct added_token *tokens; /* all */
    struct trie trie;                 /* of indices of tokens of the kind */
    bool first_bytes[256];
};

struct added_tokens {
    struct added_token *tokens;
    int64_t count;
    int32_t *by_id; /* [id_end]: indices; -1: no added token */
    int64_t id_end;
    struct search searches[2]; /* by `normalized` */
};

bool added_tokens_has(const struct added_tokens *added, int32_t id)
{
    return id >= 0 && id < added->id_end && added->by_id[id] >= 0;
}

bool added_tokens_is_special(const struct added_tokens *added, int32_t id)
{
    return added_tokens_has(added, id) && added->tokens[added->by_id[id]].special;
}

struct byte_slice added_tokens_text(const struct added_tokens *added, int32_t id, bool *strips)
{
    const struct added_token *token = &added->tokens[added->by_id[id]];
    *strips = token->left_strip || token->right_strip;
    return token->searched;
}

/* ------------------------------------------------------------------ search -- */

/* The longest token that begins at `at`; NULL: none does, or the work is stopped. */
static const struct added_token *match(const struct search *search, const char *bytes, uint32_t at,
                                       uint32_t end, uint32_t *match_end, struct work_limit *limit)
{
    const struct added_token *longest = NULL;
    const uint32_t start = at;
    int32_t node = TRIE_ROOT;
    while (at < end) {
        node = trie_step(&search->trie, node, (unsigned char)bytes[at++]);
        if (node == TRIE_NONE)
            break;
        const int32_t index = search->trie.nodes[node].value;
        if (index >= 0) {
            longest = &search->tokens[index];
            *match_end = at;
        }
    }
    return work_limit_spend(limit, at - start) ? longest : NULL;
}

static bool is_within_word(const char *bytes, const struct piece *piece, uint32_t start,
                           uint32_t end)
{
    uint32_t code;
    if (start > piece->start) {
        unicode_before(bytes, start, &code);
        if (unicode_is_word(code))
            return true;
    }
    if (end == piece->end)
        return false;
    unicode_decode(bytes + end, &code);
    return unicode_is_word(code);
}

static uint32_t space_start(const char *bytes, uint32_t first, uint32_t at)
{
    while (at > first) {
        uint32_t code;
        const uint32_t before = unicode_before(bytes, at, &code);
        if (!unicode_is_whitespace(code))
            break;
        at = before;
    }
    return at;
}

static uint32_t space_end(const char *bytes, uint32_t at, uint32_t end)
{
    while (at < end) {
        uint32_t code;
        const uint32_t size = unicode_decode(bytes + at, &code);
        if (!unicode_is_whitespace(code))
            break;
        at += size;
    }
    return at;
}

static bool cut_piece(const void *state, struct pieces *pieces, const struct piece *piece,
                      struct fault *fault)
{
    (void)fault;
    const struct search *search = state;
    const char *bytes = pieces->bytes;
    uint32_t cut = piece->start;         /* all before it is cut */
    uint32_t spaces = 0, spaces_end = 0; /* the last spaces that a token took from behind it */
    for (uint32_t at = piece->start; at < piece->end && !pieces->limit->is_stopped;) {
        uint32_t end;
        const struct added_token *token =
            search->first_bytes[(unsigned char)bytes[at]]
                ? match(search, bytes, at, piece->end, &end, pieces->limit)
                : NULL;
        if (!token) {
            at++;
            continue;
        }
        uint32_t start = at;
        at = end; /* the search goes on here, also where a token takes the spaces behind it */
        if (token->single_word && is_within_word(bytes, piece, start, end))
            continue;
        if (token->left_strip)
            start = space_start(bytes, cut < start ? cut : start, start);
        if (token->right_strip) {
            if (end < spaces
                || end >= spaces_end) { /* else they are known: a token may be a space */
                spaces = end;
                spaces_end = space_end(bytes, end, piece->end);
            }
            end = spaces_end;
        }
        if (start < cut && token->left_strip)
            start = cut;
        if (start >= end)
            continue;
        pieces_cut(pieces, cut, start);
        pieces_cut_token(pieces, start, end, (int32_t)token->id);
        cut = end;
    }
    pieces_cut(pieces, cut, piece->end);
    return true;
}

/* Whether a cut changes a piece: an empty one is to be dropped, one whose first characters a
 * normalizer deleted begins behind them in the original text, and others may have tokens. */
static bool is_cut(const void *state, const struct pieces *pieces, const struct piece *piece)
{
    const struct search *search = state;
    uint32_t end;
    if (piece->start == piece->end
        || pieces_span(pieces, piece->start, piece->end).start != piece->origin)
        return true;
    for (uint32_t at = piece->start; at < piece->end; at++)
        if (search->first_bytes[(unsigned char)pieces->bytes[at]]
            && (match(search, pieces->bytes, at, piece->end, &end, pieces->limit)
                || pieces->limit->is_stopped))
            return true;
    return false;
}

bool added_tokens_cut(const struct added_tokens *added, bool normalized, struct pieces *pieces,
                      struct fault *fault)
{
    return pieces_split(pieces, is_cut, cut_piece, &added->searches[normalized], fault);
}

/* ----------------------------------------------------------------- reading -- */

static const struct step_field FIELDS[] = {
    { STEP_FIELD("content", STEP_STRING, struct added_token, content) },
    { STEP_FIELD("id", STEP_INTEGER, struct added_token, id), .most = VOCABULARY_ID_MAX },
    { STEP_FIELD("single_word", STEP_BOOL, struct added_token, single_word) },
    { STEP_FIELD("lstrip", STEP_BOOL, struct added_token, left_strip) },
    { STEP_FIELD("rstrip", STEP_BOOL, struct added_token, right_strip) },
    { STEP_FIELD("normalized", STEP_BOOL, struct added_token, normalized) },
    { STEP_FIELD("special", STEP_BOOL, struct added_token, special) },
};

static bool read_token(struct pipeline_build *build, const cJSON *node, struct added_token *token)
{
    if (!cJSON_IsObject(node))
        return pipeline_fail(build, WHERE, "a token is %s; expected an object",
                             json_kind(build->document, node));
    return pipeline_fields(build, node, WHERE, FIELDS, sizeof FIELDS / sizeof *FIELDS, token)
           && (token->content.size <= ADDED_TOKEN_BYTES_MAX
               || pipeline_fail(
                   build, WHERE, "the token '%.40s' has %zu bytes; expected at most %d",
                   (const char *)token->content.data, token->content.size, ADDED_TOKEN_BYTES_MAX));
}

/* Gives the vocabulary the token where it has none of its text. The reference implementation
 * numbers new tokens by itself, from *next on. */
static bool check_id(struct pipeline_build *build, const struct added_token *token, int64_t *next)
{
    const char *text = token->content.data;
    const int32_t known = vocabulary_find(build->vocabulary, text, token->content.size);
    if (known != VOCABULARY_NONE)
        return known == token->id
               || pipeline_fail(build, WHERE,
                                "the token '%.40s' has id %lld; the model has it as %d", text,
                                (long long)token->id, known);
    if (token->id != *next)
        return pipeline_fail(build, WHERE,
                             "the token '%.40s' has id %lld; it is not in the model, and the next "
                             "free id is %lld",
                             text, (long long)token->id, (long long)*next);
    ++*next;
    return vocabulary_add(build->vocabulary, text, token->content.size, token->id, build->fault);
}

/* Normalizes a token's text, whose result is copied into the build's arena. */
static bool normalize(struct pipeline_build *build, const struct step *normalizer,
                      struct work_limit *limit, struct arena *arena, struct byte_slice *text)
{
    struct pieces pieces;
    if (!pieces_init(&pieces, text->data, (int64_t)text->size, limit, arena, build->fault)
        || !pipeline_run(normalizer, &pieces, build->fault))
        return false;
    *text = (struct byte_slice){ "", 0 };
    if (pieces.count == 0)
        return true;
    const size_t size = pieces.list->end - pieces.list->start;
    char *copy = pipeline_alloc(build, size, 1);
    if (!copy)
        return false;
    if (size > 0)
        memcpy(copy, pieces.bytes + pieces.list->start, size);
    *text = (struct byte_slice){ copy, size };
    return true;
}

/* The text that a token is searched by. */
static bool search_text(struct pipeline_build *build, const struct added_token *token,
                        const struct step *normalizer, struct work_limit *limit,
                        struct byte_slice *text)
{
    *text = token->content;
    if (!token->normalized || !normalizer->type)
        return true;
    struct arena arena;
    arena_init(&arena, NORMALIZED_ARENA_BYTES_MAX);
    const bool is_fine = normalize(build, normalizer, limit, &arena, text);
    const bool is_large = arena.used > NORMALIZED_ARENA_BYTES_MAX / 8;
    arena_free(&arena);
    if (is_fine)
        return true;
    if (limit->is_stopped)
        return pipeline_fail(build, WHERE, "the normalizer takes too long on the tokens");
    return is_large && build->fault->code == FAULT_MEMORY
               ? pipeline_fail(build, "added_tokens",
                               "the normalizer makes the token '%.40s' too long",
                               (const char *)token->content.data)
               : false;
}

/* What normalizing the tokens of a file may take: so many questions. */
static bool is_used_up(void *questions)
{
    return --*(int64_t *)questions < 0;
}

static bool build_search(struct pipeline_build *build, struct added_tokens *added,
                         const struct step *normalizer, bool normalized)
{
    struct search *search = &added->searches[normalized];
    struct trie_entry *entries = pipeline_alloc(build, (size_t)added->count, sizeof *entries);
    if (!entries)
        return false;
    int64_t count = 0, questions = NORMALIZED_STEPS_MAX / WORK_LIMIT_STEPS;
    const struct tokenizer_stop stop = { is_used_up, &questions };
    struct work_limit limit;
    work_limit_init(&limit, &stop);
    for (int64_t i = 0; i < added->count; i++) {
        struct trie_entry entry = { .value = (int32_t)i };
        if (added->tokens[i].normalized != normalized)
            continue;
        if (!search_text(build, &added->tokens[i], normalizer, &limit, &entry.string))
            return false;
        added->tokens[i].searched = entry.string;
        if (entry.string.size == 0) /* an empty text matches nothing */
            continue;
        search->first_bytes[*(const unsigned char *)entry.string.data] = true;
        entries[count++] = entry;
    }
    search->tokens = added->tokens;
    return trie_build(&search->trie, entries, count, build->arena, build->fault);
}

static bool index_tokens(struct pipeline_build *build, struct added_tokens *added)
{
    added->id_end = build->vocabulary->id_end;
    added->by_id = pipeline_alloc(build, (size_t)added->id_end, sizeof *added->by_id);
    if (!added->by_id)
        return false;
    for (int64_t id = 0; id < added->id_end; id++)
        added->by_id[id] = -1;
    for (int64_t i = 0; i < added->count; i++)
        added->by_id[added->tokens[i].id] = (int32_t)i;
    return true;
}

bool added_tokens_read(struct pipeline_build *build, const cJSON *node,
                       const struct step *normalizer, struct added_tokens **added)
{
    struct added_tokens *list = *added = pipeline_alloc(build, 1, sizeof *list);
    if (!list)
        return false;
    list->tokens = pipeline_alloc(build, (size_t)cJSON_GetArraySize(node), sizeof *list->tokens);
    if (!list->tokens)
        return false;
    int64_t next = build->vocabulary->count;
    const cJSON *child;
    cJSON_ArrayForEach(child, node) {
        struct added_token token = { .id = 0 };
        if (!read_token(build, child, &token))
            return false;
        if (token.content.size == 0) /* the reference leaves it out */
            continue;
        if (!check_id(build, &token, &next))
            return false;
        list->tokens[list->count++] = token;
    }
    return index_tokens(build, list) && build_search(build, list, normalizer, false)
           && build_search(build, list, normalizer, true);
}
