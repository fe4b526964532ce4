/* added_tokens.c - see added_tokens.h. */
#include "tokenizer/added_tokens.h"

#include "tokenizer/trie.h"
#include "tokenizer/unicode.h"

#include <string.h>

enum {
    NORMALIZED_ARENA_BYTES_MAX = 16 << 20, /* to normalize a token */
    NORMALIZED_STEPS_MAX = 1 << 30         /* to normalize all tokens of a file */
};

struct added_token {
    const char *content;
    struct byte_slice searched; /* the text that it is searched by */
    int32_t id;
    bool single_word, left_strip, right_strip, normalized, special;
};

/* The tokens of a kind. */
struct search {
    struct trie trie; /* of indices of tokens */
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
static const struct added_token *match(const struct added_tokens *added,
                                       const struct search *search, const char *bytes, uint32_t at,
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
            longest = &added->tokens[index];
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

static void cut_piece(const struct added_tokens *added, const struct search *search,
                      struct pieces *pieces, const struct piece *piece)
{
    const char *bytes = pieces->bytes;
    uint32_t cut = piece->start;         /* all before it is cut */
    uint32_t spaces = 0, spaces_end = 0; /* the last spaces that a token took from behind it */
    for (uint32_t at = piece->start; at < piece->end && !pieces->limit->is_stopped;) {
        uint32_t end;
        const struct added_token *token =
            search->first_bytes[(unsigned char)bytes[at]]
                ? match(added, search, bytes, at, piece->end, &end, pieces->limit)
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
        pieces_cut_token(pieces, start, end, token->id);
        cut = end;
    }
    pieces_cut(pieces, cut, piece->end);
}

/* Whether a cut changes anything: an empty piece is to be dropped, one whose first characters a
 * normalizer deleted begins behind them in the original text, and others may have tokens. */
static bool is_cut(const struct added_tokens *added, const struct search *search,
                   const struct pieces *pieces)
{
    for (int64_t i = 0; i < pieces->count; i++) {
        const struct piece *piece = &pieces->list[i];
        uint32_t end;
        if (piece->id >= 0)
            continue;
        if (piece->start == piece->end
            || pieces_span(pieces, piece->start, piece->end).start != piece->origin)
            return true;
        for (uint32_t at = piece->start; at < piece->end; at++)
            if (search->first_bytes[(unsigned char)pieces->bytes[at]]
                && (match(added, search, pieces->bytes, at, piece->end, &end, pieces->limit)
                    || pieces->limit->is_stopped))
                return true;
    }
    return false;
}

bool added_tokens_cut(const struct added_tokens *added, bool normalized, struct pieces *pieces,
                      struct fault *fault)
{
    const struct search *search = &added->searches[normalized];
    if (!is_cut(added, search, pieces))
        return true;
    pieces_begin_cut(pieces);
    for (int64_t i = 0; i < pieces->count; i++)
        if (pieces->list[i].id >= 0)
            pieces_keep(pieces, i);
        else
            cut_piece(added, search, pieces, &pieces->list[i]);
    return pieces_end(pieces, fault);
}

/* ----------------------------------------------------------------- reading -- */

static bool read_token(struct pipeline_build *build, const cJSON *node, struct added_token *token,
                       int64_t *id)
{
    static const char WHERE[] = "added_tokens";
    if (!cJSON_IsObject(node))
        return pipeline_fail(build, WHERE, "a token is %s; expected an object",
                             json_kind(build->document, node));
    const char *content = NULL;
    if (!pipeline_string(build, node, WHERE, "content", true, &content)
        || !pipeline_integer(build, node, WHERE, "id", true, 0, VOCABULARY_ID_MAX, id)
        || !pipeline_bool(build, node, WHERE, "single_word", true, &token->single_word)
        || !pipeline_bool(build, node, WHERE, "lstrip", true, &token->left_strip)
        || !pipeline_bool(build, node, WHERE, "rstrip", true, &token->right_strip)
        || !pipeline_bool(build, node, WHERE, "normalized", true, &token->normalized)
        || !pipeline_bool(build, node, WHERE, "special", true, &token->special))
        return false;
    if (strlen(content) > ADDED_TOKEN_BYTES_MAX)
        return pipeline_fail(build, WHERE, "the token '%.40s' has %zu bytes; expected at most %d",
                             content, strlen(content), ADDED_TOKEN_BYTES_MAX);
    token->content = pipeline_strdup(build, content);
    return token->content != NULL;
}

/* Gives the token its id, and the vocabulary the token where it has none of its text. The
 * reference implementation numbers new tokens by itself, from *next on. */
static bool settle_id(struct pipeline_build *build, struct added_token *token, int64_t id,
                      int64_t *next)
{
    static const char WHERE[] = "added_tokens";
    const int32_t known =
        vocabulary_find(build->vocabulary, token->content, strlen(token->content));
    token->id = (int32_t)id;
    if (known != VOCABULARY_NONE)
        return known == id
               || pipeline_fail(build, WHERE,
                                "the token '%.40s' has id %lld; the model has it as %d",
                                token->content, (long long)id, known);
    if (id != *next)
        return pipeline_fail(build, WHERE,
                             "the token '%.40s' has id %lld; it is not in the model, and the next "
                             "free id is %lld",
                             token->content, (long long)id, (long long)*next);
    ++*next;
    return vocabulary_add(build->vocabulary, token->content, strlen(token->content), id,
                          build->fault);
}

/* Normalizes a token's text, whose result is copied into the build's arena. */
static bool normalize(struct pipeline_build *build, const struct normalizer *normalizer,
                      struct work_limit *limit, struct arena *arena, struct byte_slice *text)
{
    struct pieces pieces;
    if (!pieces_init(&pieces, text->data, (int64_t)text->size, limit, arena, build->fault)
        || !normalizer->normalize(normalizer->state, &pieces, build->fault))
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
                        const struct normalizer *normalizer, struct work_limit *limit,
                        struct byte_slice *text)
{
    *text = (struct byte_slice){ token->content, strlen(token->content) };
    if (!token->normalized || !normalizer->normalize)
        return true;
    struct arena arena;
    arena_init(&arena, NORMALIZED_ARENA_BYTES_MAX);
    const bool is_fine = normalize(build, normalizer, limit, &arena, text);
    const bool is_large = arena.used > NORMALIZED_ARENA_BYTES_MAX / 8;
    arena_free(&arena);
    if (is_fine)
        return true;
    if (limit->is_stopped)
        return pipeline_fail(build, "added_tokens", "the normalizer takes too long on the tokens");
    return is_large && build->fault->code == FAULT_MEMORY
               ? pipeline_fail(build, "added_tokens",
                               "the normalizer makes the token '%.40s' too long", token->content)
               : false;
}

/* What normalizing the tokens of a file may take: so many questions. */
static bool is_used_up(void *questions)
{
    return --*(int64_t *)questions < 0;
}

static bool build_search(struct pipeline_build *build, struct added_tokens *added,
                         const struct normalizer *normalizer, bool normalized)
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
                       const struct normalizer *normalizer, struct added_tokens **added)
{
    struct added_tokens *list = *added = pipeline_alloc(build, 1, sizeof *list);
    if (!list)
        return false;
    list->tokens = pipeline_alloc(build, (size_t)cJSON_GetArraySize(node), sizeof *list->tokens);
    if (!list->tokens)
        return false;
    int64_t next = build->vocabulary->count;
    const cJSON *child;
    cJSON_ArrayForEach(child, node)
    {
        struct added_token token = { .content = "" };
        int64_t id;
        if (!read_token(build, child, &token, &id))
            return false;
        if (token.content[0] == '\0') /* the reference leaves it out */
            continue;
        if (!settle_id(build, &token, id, &next))
            return false;
        list->tokens[list->count++] = token;
    }
    return index_tokens(build, list) && build_search(build, list, normalizer, false)
           && build_search(build, list, normalizer, true);
}
