/* split.h - cutting pieces where something matches. */
#ifndef ATTND_SPLIT_H
#define ATTND_SPLIT_H

#include "tokenizer/pipeline.h"

/* What becomes of the matches: SplitDelimiterBehavior of the reference. For "-" in
 * "the-final--end":
 *
 *     removed                 the  final  end
 *     isolated                the - final - - end
 *     merged with previous    the- final- - end
 *     merged with next        the -final - -end
 *     contiguous              the - final -- end */
enum split_behavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS
};

/* One piece that is being cut. */
struct split {
    struct pieces *pieces;
    enum split_behavior behavior;
    uint32_t start, end; /* what is not cut yet, because it may be merged with what comes */
    bool is_open, was_match;
};

void split_begin(struct split *split, struct pieces *pieces, enum split_behavior behavior);

/* Appends the next segment of the piece, in order and without a gap: a match, or what lies between
 * two of them. */
void split_add(struct split *split, uint32_t start, uint32_t end, bool is_match);
void split_end(struct split *split);

/* Cuts every piece that is not an added token by a function that appends what it makes of piece i
 * to the pieces. */
typedef bool (*split_piece)(const void *state, struct pieces *pieces, const struct piece *piece,
                            struct fault *fault);
bool split_pieces(struct pieces *pieces, split_piece cut, const void *state, struct fault *fault);

/* Reads the field "behavior". An absent one leaves *behavior as it was unless it is required. */
bool split_read_behavior(struct pipeline_build *build, const cJSON *node, const char *where,
                         bool required, enum split_behavior *behavior);

/* The matches of a regular expression, or of a literal text where regex is NULL, as Split has them.
 * invert: what lies between the matches counts as matches, and the other way round. */
struct split_pattern {
    const struct regex *regex;
    const char *literal;
    enum split_behavior behavior;
    bool invert;
};

bool split_by_pattern(const struct split_pattern *pattern, struct pieces *pieces,
                      struct fault *fault);

/* The type Split. */
bool split_read(struct pipeline_build *build, const cJSON *node, void *step);

#endif
