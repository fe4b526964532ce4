/* split.c - cuts by regular expressions and literal texts. */
#include "tokenizer/split.h"

#include <string.h>

void split_begin(struct split *split, struct pieces *pieces, enum split_behavior behavior)
{
    *split = (struct split){ .pieces = pieces, .behavior = behavior };
}

/* Whether a segment joins the open one. */
static bool joins(const struct split *split, bool is_match)
{
    if (!split->is_open)
        return false;
    if (split->behavior == SPLIT_CONTIGUOUS)
        return is_match == split->was_match;
    if (split->behavior == SPLIT_MERGED_WITH_PREVIOUS)
        return is_match && !split->was_match;
    return !is_match && split->was_match;
}

void split_add(struct split *split, uint32_t start, uint32_t end, bool is_match)
{
    if (split->behavior == SPLIT_ISOLATED || (split->behavior == SPLIT_REMOVED && !is_match))
        pieces_cut(split->pieces, start, end);
    if (split->behavior == SPLIT_ISOLATED || split->behavior == SPLIT_REMOVED)
        return;
    if (!joins(split, is_match)) {
        split_end(split);
        split->start = start;
        split->is_open = true;
    }
    split->end = end;
    split->was_match = is_match;
}

void split_end(struct split *split)
{
    if (split->is_open)
        pieces_cut(split->pieces, split->start, split->end);
    split->is_open = false;
}

bool split_pieces(struct pieces *pieces, split_piece cut, const void *state, struct fault *fault)
{
    pieces_begin_cut(pieces);
    for (int64_t i = 0; i < pieces->count; i++) {
        if (pieces->list[i].id >= 0)
            pieces_keep(pieces, i);
        else if (!cut(state, pieces, &pieces->list[i], fault))
            return false;
    }
    return pieces_end(pieces, fault);
}

/* -------------------------------------------------------------- patterns -- */

static void split_by_literal(const struct split_pattern *pattern, struct pieces *pieces,
                             const struct piece *piece)
{
    struct split split;
    split_begin(&split, pieces, pattern->behavior);
    const size_t literal_size = strlen(pattern->literal);
    const char *text = pieces->bytes;
    uint32_t at = piece->start;
    while (at < piece->end) {
        const char *found = memmem(text + at, piece->end - at, pattern->literal, literal_size);
        const uint32_t start = found ? (uint32_t)(found - text) : piece->end;
        if (start > at)
            split_add(&split, at, start, pattern->invert);
        if (found)
            split_add(&split, start, start + (uint32_t)literal_size, !pattern->invert);
        at = found ? start + (uint32_t)literal_size : piece->end;
    }
    split_end(&split);
}

static bool split_by_regex(const struct split_pattern *pattern, struct regex_scan *scan,
                           struct pieces *pieces, const struct piece *piece, struct fault *fault)
{
    struct split split;
    split_begin(&split, pieces, pattern->behavior);
    regex_scan_restart(scan, pieces->bytes + piece->start, piece->end - piece->start);
    int64_t start, end;
    uint32_t at = piece->start;
    for (bool found;;) {
        if (!regex_scan_next(scan, &found, &start, &end, fault))
            return false;
        if (!found)
            break;
        const uint32_t from = piece->start + (uint32_t)start, to = piece->start + (uint32_t)end;
        if (from != at)
            split_add(&split, at, from, pattern->invert);
        split_add(&split, from, to, !pattern->invert);
        at = to;
    }
    if (at != piece->end)
        split_add(&split, at, piece->end, pattern->invert);
    split_end(&split);
    return true;
}

struct pattern_scan {
    const struct split_pattern *pattern;
    struct regex_scan *scan;
};

static bool cut_by_pattern(const void *state, struct pieces *pieces, const struct piece *piece,
                           struct fault *fault)
{
    const struct pattern_scan *cut = state;
    if (cut->pattern->regex)
        return split_by_regex(cut->pattern, cut->scan, pieces, piece, fault);
    split_by_literal(cut->pattern, pieces, piece);
    return true;
}

bool split_by_pattern(const struct split_pattern *pattern, struct pieces *pieces,
                      struct fault *fault)
{
    struct regex_scan scan;
    regex_scan_init(&scan, pattern->regex, "", 0, pieces->limit);
    const struct pattern_scan cut = { pattern, &scan };
    const bool ok = split_pieces(pieces, cut_by_pattern, &cut, fault);
    regex_scan_free(&scan);
    return ok;
}

/* --------------------------------------------------------------- reading -- */

bool split_read_behavior(struct pipeline_build *build, const cJSON *node, const char *where,
                         bool required, enum split_behavior *behavior)
{
    static const char *const names[] = {
        [SPLIT_REMOVED] = "Removed",
        [SPLIT_ISOLATED] = "Isolated",
        [SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
        [SPLIT_CONTIGUOUS] = "Contiguous",
    };
    const char *name = NULL;
    if (!pipeline_string(build, node, where, "behavior", required, &name))
        return false;
    if (!name)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) {
            *behavior = (enum split_behavior)i;
            return true;
        }
    return pipeline_fail(build, where,
                         "behavior is '%.40s'; expected Removed, Isolated, MergedWithPrevious, "
                         "MergedWithNext or Contiguous",
                         name);
}

static bool split_run(const void *state, struct pieces *pieces, struct fault *fault)
{
    return split_by_pattern(state, pieces, fault);
}

bool split_read(struct pipeline_build *build, const cJSON *node, void *step)
{
    static const char where[] = "pre_tokenizer Split";
    struct pre_tokenizer *pre_tokenizer = step;
    struct split_pattern *pattern = pipeline_alloc(build, 1, sizeof *pattern);
    if (!pattern
        || !pipeline_pattern(build, node, where, "pattern", &pattern->literal, &pattern->regex)
        || !split_read_behavior(build, node, where, true, &pattern->behavior)
        || !pipeline_bool(build, node, where, "invert", true, &pattern->invert))
        return false;
    /* An empty text matches between all characters, which an empty expression does too. */
    if (pattern->literal && !*pattern->literal && !(pattern->regex = pipeline_regex(build, "", 0)))
        return false;
    *pre_tokenizer = (struct pre_tokenizer){ split_run, pattern };
    return true;
}
