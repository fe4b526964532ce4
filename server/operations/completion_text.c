/* SPDX-License-Identifier: Apache-2.0 */
/* completion_text.c - the answer of a completion: texts, and tokens with their strings, places and
 * log-probs. It is written here and by no writer, for texts may have U+0000. */
#include "operations/completion.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What is written, and memory for it. */
struct saying {
    const struct completion *job;
    const struct tokenizer *tokenizer; /* NULL: the model has none */
    struct text *out;
    struct arena *arena; /* of one token of the answer */
    struct fault *fault;
};

/* ------------------------------------------------------------- strings of tokens -- */

static bool has_piece(const struct saying *saying, int64_t id)
{
    return saying->tokenizer && id < tokenizer_id_end(saying->tokenizer)
           && tokenizer_token_text(saying->tokenizer, (int32_t)id);
}

static struct byte_slice numbered(const struct saying *saying, int64_t id)
{
    char *name = arena_alloc(saying->arena, 32);
    return (struct byte_slice){ name,
                                name ? (size_t)snprintf(name, 32, "token_id:%" PRId64, id) : 0 };
}

static bool is_utf8(struct byte_slice bytes)
{
    const char *text = bytes.data;
    for (size_t at = 0, size; at < bytes.size; at += size)
        if ((size = utf8_character_size(text + at, bytes.size - at)) == 0)
            return false;
    return true;
}

/* "bytes:\xe2\x80": visible characters of ASCII, and the space, stand as they are. */
static struct byte_slice spelled(const struct saying *saying, struct byte_slice bytes)
{
    char *out = arena_alloc(saying->arena, 7 + 4 * bytes.size);
    const unsigned char *text = bytes.data;
    size_t used = 6;
    if (!out)
        return (struct byte_slice){ NULL, 0 };
    memcpy(out, "bytes:", sizeof "bytes:");
    for (size_t i = 0; i < bytes.size; i++) {
        if (text[i] >= 0x20 && text[i] < 0x7F)
            out[used++] = (char)text[i];
        else
            used += (size_t)snprintf(out + used, 5, "\\x%02x", text[i]);
    }
    return (struct byte_slice){ out, used };
}

/* The string of a token behind the token before; data NULL, with the fault: no memory. */
static struct byte_slice string_of(const struct saying *saying, int32_t before, int64_t id)
{
    struct token_piece piece;
    struct byte_slice string = { NULL, 0 };
    if (!has_piece(saying, id))
        string = numbered(saying, id);
    else if (tokenizer_piece(saying->tokenizer, before, (int32_t)id, saying->arena, &piece,
                             saying->fault))
        string = is_utf8(piece.bytes) ? piece.bytes : spelled(saying, piece.bytes);
    if (!string.data && saying->fault->code == FAULT_NONE)
        fault_no_memory(saying->fault);
    return string;
}

/* ------------------------------------------------------------------------- texts -- */

/* Pieces on their way to a text. Of tokenizers that fall back to bytes a run of these is UTF-8 as a
 * whole, or each becomes U+FFFD. */
struct joint {
    struct text bytes, run;
};

static void end_run(struct joint *joint)
{
    const struct byte_slice run = { joint->run.data, joint->run.used };
    if (is_utf8(run))
        text_bytes(&joint->bytes, run.data ? run.data : "", run.size);
    else
        for (size_t i = 0; i < run.size; i++)
            text_raw(&joint->bytes, "\xEF\xBF\xBD");
    joint->run.used = 0;
}

static void join(struct joint *joint, const char *bytes, size_t size, bool is_byte)
{
    if (!is_byte)
        end_run(joint);
    if (size > 0)
        text_bytes(is_byte ? &joint->run : &joint->bytes, bytes, size);
}

/* The prompt's tokens, as decoding them gives them. */
static bool join_prompt(const struct saying *saying, const struct completion_choice *choice,
                        struct joint *joint)
{
    const struct token_list *tokens = &choice->item->streams[0].tokens;
    int32_t before = -1;
    for (int64_t i = 0; i < tokens->count; i++) {
        struct token_piece piece;
        const int32_t id = tokens->tokens[i].id;
        if (!has_piece(saying, id))
            continue;
        const bool good =
            tokenizer_piece(saying->tokenizer, before, id, saying->arena, &piece, saying->fault);
        if (good && !piece.is_special) {
            join(joint, piece.bytes.data, piece.bytes.size, piece.is_byte);
            before = id;
        }
        arena_free(saying->arena);
        if (!good)
            return false;
    }
    return true;
}

static bool join_all(const struct saying *saying, const struct completion_choice *choice,
                     struct joint *joint)
{
    const struct completion_asked *asked = &saying->job->asked;
    const struct byte_slice text = asked->prompts.list[choice - saying->job->choices].text;
    size_t at = 0;
    if (asked->echo && text.data)
        join(joint, text.data, text.size, false);
    else if (asked->echo && !join_prompt(saying, choice, joint))
        return false;
    for (int64_t i = 0; i < choice->count && at < choice->text_end; i++) {
        const struct completion_token *token = &choice->tokens[i];
        const size_t end = token->end < choice->text_end ? token->end : choice->text_end;
        if (end > at)
            join(joint, choice->text.data + at, end - at, token->is_byte);
        at = end;
    }
    end_run(joint);
    return text_finish(&joint->bytes, saying->fault) && text_finish(&joint->run, saying->fault);
}

static bool say_text(const struct saying *saying, const struct completion_choice *choice)
{
    struct joint joint;
    text_init(&joint.bytes, SIZE_MAX);
    text_init(&joint.run, SIZE_MAX);
    bool good = join_all(saying, choice, &joint);
    if (good) {
        const struct byte_slice text = tokenizer_repair(
            (struct byte_slice){ joint.bytes.data ? joint.bytes.data : "", joint.bytes.used },
            saying->arena);
        good = text.data || fault_no_memory(saying->fault);
        if (good)
            text_string_bytes(saying->out, text.data, text.size);
        arena_free(saying->arena);
    }
    text_free(&joint.bytes);
    text_free(&joint.run);
    return good;
}

/* ------------------------------------------------------------------------ places -- */

/* Counts code points as bytes come. A character counts when it is whole, and bytes that begin none
 * as one. */
struct counter {
    char pending[4];
    size_t size;
    int64_t count;
};

static bool may_go_on(const char *bytes, size_t size)
{
    const unsigned char first = (unsigned char)bytes[0];
    const size_t wanted = first >= 0xF0 && first <= 0xF4   ? 4
                          : first >= 0xE0 && first <= 0xEF ? 3
                          : first >= 0xC2 && first <= 0xDF ? 2
                                                           : 1;
    for (size_t i = 1; i < size; i++)
        if (((unsigned char)bytes[i] & 0xC0) != 0x80)
            return false;
    return size < wanted;
}

static void count_bytes(struct counter *counter, struct byte_slice bytes)
{
    const char *text = bytes.data;
    for (size_t i = 0; i < bytes.size; i++) {
        counter->pending[counter->size++] = text[i];
        while (counter->size > 0) {
            const size_t whole = utf8_character_size(counter->pending, counter->size);
            const size_t gone = whole > 0                                    ? whole
                                : may_go_on(counter->pending, counter->size) ? 0
                                                                             : 1;
            if (gone == 0)
                break;
            counter->count++;
            counter->size -= gone;
            memmove(counter->pending, counter->pending + gone, counter->size);
        }
    }
}

static int64_t count_points(struct byte_slice text, int64_t size)
{
    struct counter counter = { .size = 0 };
    if ((size_t)size < text.size)
        text.size = (size_t)size;
    count_bytes(&counter, text);
    return counter.count;
}

/* Where each token of the prompt begins, and behind them where the first one generated does: by
 * what the tokens add, or where that is not the text as it came, by what they stand for in it. */
static int64_t *find_offsets(const struct saying *saying, const struct completion_choice *choice,
                             struct arena *arena, struct counter *counter)
{
    const struct byte_slice text =
        saying->job->asked.prompts.list[choice - saying->job->choices].text;
    const struct token_list *tokens = &choice->item->streams[0].tokens;
    int64_t *offsets = arena_calloc(arena, (size_t)tokens->count + 1, sizeof *offsets);
    int32_t before = -1;
    if (!offsets)
        fault_no_memory(saying->fault);
    for (int64_t i = 0; offsets && saying->tokenizer && i < tokens->count; i++) {
        const struct token *token = &tokens->tokens[i];
        struct token_piece piece;
        offsets[i] = counter->count;
        if (!has_piece(saying, token->id))
            continue;
        if (!tokenizer_piece(saying->tokenizer, before, token->id, saying->arena, &piece,
                             saying->fault))
            return NULL;
        if (!piece.is_special || (token->is_of_text && token->end > token->start))
            count_bytes(counter, piece.bytes);
        before = piece.is_special ? before : token->id;
        arena_free(saying->arena);
    }
    if (!offsets || !saying->tokenizer)
        return offsets;
    offsets[tokens->count] = counter->count;
    const int64_t points = text.data ? count_points(text, INT64_MAX) : counter->count;
    if (points == counter->count)
        return offsets;
    *counter = (struct counter){ .count = points };
    offsets[tokens->count] = points;
    for (int64_t i = 0; i < tokens->count; i++)
        offsets[i] = tokens->tokens[i].is_of_text ? count_points(text, tokens->tokens[i].start)
                     : i > 0                      ? offsets[i - 1]
                                                  : 0;
    return offsets;
}

/* --------------------------------------------------------------------- log-probs -- */

/* A token of the lists, in the place of which `candidates` others are. */
struct listed {
    int64_t id;
    int32_t before;
    bool has_logprob; /* false: the prompt's first */
    float logprob;
    const int64_t *ids; /* [candidates], the most probable first */
    const float *logprobs;
    int64_t candidates;
    int64_t rank; /* 0: not known */
};

static bool is_same(struct byte_slice a, struct byte_slice b)
{
    return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

/* {"a": -0.1, ...}. Of two tokens with one string the more probable has it. */
static bool say_top(const struct saying *saying, const struct listed *listed)
{
    struct byte_slice *names =
        arena_calloc(saying->arena, (size_t)listed->candidates + 1, sizeof *names);
    bool has_own = false;
    int64_t count = 0;
    if (!names)
        return fault_no_memory(saying->fault);
    text_raw(saying->out, "{");
    for (int64_t k = 0; k <= listed->candidates; k++) {
        const bool is_own = k == listed->candidates;
        const int64_t id = is_own ? listed->id : listed->ids[k];
        if (is_own && has_own)
            break;
        has_own = has_own || id == listed->id;
        names[count] = string_of(saying, listed->before, id);
        for (int64_t i = 0; names[count].data && i < count; i++)
            if (is_same(names[i], names[count]))
                names[count] = numbered(saying, id);
        if (!names[count].data)
            return fault_no_memory(saying->fault);
        text_raw(saying->out, count > 0 ? "," : "");
        text_string_bytes(saying->out, names[count].data, names[count].size);
        text_raw(saying->out, ":");
        text_float(saying->out, is_own || id == listed->id ? listed->logprob : listed->logprobs[k]);
        count++;
    }
    text_raw(saying->out, "}");
    return true;
}

/* {"ID": {"logprob", "rank", "decoded_token"}, ...} */
static bool say_ranked(const struct saying *saying, const struct listed *listed)
{
    bool has_own = false;
    text_raw(saying->out, "{");
    for (int64_t k = 0; k <= listed->candidates; k++) {
        const bool is_own = k == listed->candidates;
        const int64_t id = is_own ? listed->id : listed->ids[k];
        if (is_own && has_own)
            break;
        has_own = has_own || id == listed->id;
        const struct byte_slice name = string_of(saying, listed->before, id);
        if (!name.data)
            return false;
        text_format(saying->out, "%s\"%" PRId64 "\":{\"logprob\":", k > 0 ? "," : "", id);
        text_float(saying->out, is_own || id == listed->id ? listed->logprob : listed->logprobs[k]);
        text_format(saying->out,
                    ",\"rank\":%" PRId64 ",\"decoded_token\":", is_own ? listed->rank : k + 1);
        text_string_bytes(saying->out, name.data, name.size);
        text_raw(saying->out, "}");
    }
    text_raw(saying->out, "}");
    return true;
}

/* Token i of the prompt's and of those generated; *before is the one before it that is text. */
static struct listed listed_at(const struct saying *saying, const struct completion_choice *choice,
                               int64_t i, int64_t candidates, int32_t *before)
{
    const struct trace_item *item = choice->item;
    const int64_t prompt = item->streams[0].tokens.count;
    const struct trace_predictions *tokens = &item->logprobs.tokens;
    struct listed listed = { .before = *before, .candidates = candidates };
    if (i >= prompt) {
        const int64_t at = (i - prompt) * saying->job->candidates;
        listed.id = choice->tokens[i - prompt].id;
        listed.has_logprob = true;
        listed.logprob = choice->tokens[i - prompt].logprob;
        listed.ids = choice->ids + at;
        listed.logprobs = choice->logprobs + at;
    } else {
        listed.id = item->streams[0].tokens.tokens[i].id;
        listed.has_logprob = i > 0 && item->logprobs.count > 0;
        if (listed.has_logprob) {
            const struct trace_score *score = &item->scores[item->logprobs.first + i - 1];
            listed.logprob = score->logprob;
            listed.rank = score->rank;
            listed.ids = tokens->ids + (i - 1) * tokens->candidates;
            listed.logprobs = tokens->logprobs + (i - 1) * tokens->candidates;
            listed.candidates = candidates < tokens->candidates ? candidates : tokens->candidates;
        }
    }
    if (has_piece(saying, listed.id)
        && !tokenizer_is_special(saying->tokenizer, (int32_t)listed.id))
        *before = (int32_t)listed.id;
    return listed;
}

/* One of the four lists, or prompt_logprobs. */
enum list { TOKENS, TOKEN_LOGPROBS, TOP_LOGPROBS, PROMPT_LOGPROBS };

static bool say_listed(const struct saying *saying, enum list list, const struct listed *listed)
{
    if (list == TOKENS) {
        const struct byte_slice name = string_of(saying, listed->before, listed->id);
        if (name.data)
            text_string_bytes(saying->out, name.data, name.size);
        return name.data != NULL;
    }
    if (!listed->has_logprob) {
        text_raw(saying->out, "null");
        return true;
    }
    if (list == TOKEN_LOGPROBS) {
        text_float(saying->out, listed->logprob);
        return true;
    }
    return list == TOP_LOGPROBS ? say_top(saying, listed) : say_ranked(saying, listed);
}

/* The list of tokens from first to end. */
static bool say_list(const struct saying *saying, const struct completion_choice *choice,
                     enum list list, int64_t first, int64_t end)
{
    const struct completion_asked *asked = &saying->job->asked;
    const int64_t candidates =
        list == PROMPT_LOGPROBS ? asked->prompt_logprobs : saying->job->candidates;
    int32_t before = -1;
    text_raw(saying->out, "[");
    for (int64_t i = 0; i < end; i++) {
        const struct listed listed = listed_at(saying, choice, i, candidates, &before);
        if (i < first)
            continue;
        text_raw(saying->out, i > first ? "," : "");
        const bool good = say_listed(saying, list, &listed);
        arena_free(saying->arena);
        if (!good)
            return false;
    }
    text_raw(saying->out, "]");
    return true;
}

static bool say_offsets(const struct saying *saying, const struct completion_choice *choice,
                        int64_t first)
{
    const int64_t prompt = choice->item->streams[0].tokens.count;
    struct counter counter = { .size = 0 };
    struct arena arena;
    arena_init(&arena, SIZE_MAX);
    const int64_t *offsets = find_offsets(saying, choice, &arena, &counter);
    size_t at = 0;
    text_raw(saying->out, "[");
    for (int64_t i = first; offsets && i < prompt + choice->count; i++) {
        text_raw(saying->out, i > first ? "," : "");
        text_integer(saying->out, i < prompt ? offsets[i] : counter.count);
        if (i < prompt)
            continue;
        const size_t end = choice->tokens[i - prompt].end;
        if (end > at)
            count_bytes(&counter, (struct byte_slice){ (char *)choice->text.data + at, end - at });
        at = end;
    }
    text_raw(saying->out, "]");
    arena_free(&arena);
    return offsets != NULL;
}

static bool say_logprobs(const struct saying *saying, const struct completion_choice *choice)
{
    static const char *const NAMES[] = { "{\"tokens\":", ",\"token_logprobs\":",
                                         ",\"top_logprobs\":" };
    const int64_t prompt = choice->item->streams[0].tokens.count;
    const int64_t first = saying->job->asked.echo ? 0 : prompt;
    for (int list = TOKENS; list <= TOP_LOGPROBS; list++) {
        text_raw(saying->out, NAMES[list]);
        if (!say_list(saying, choice, (enum list)list, first, prompt + choice->count))
            return false;
    }
    text_raw(saying->out, ",\"text_offset\":");
    if (!say_offsets(saying, choice, first))
        return false;
    text_raw(saying->out, "}");
    return true;
}

/* -------------------------------------------------------------------- the answer -- */

static bool say_choice(const struct saying *saying, int64_t i)
{
    const struct completion_asked *asked = &saying->job->asked;
    const struct completion_choice *choice = &saying->job->choices[i];
    text_format(saying->out, "%s{\"index\":%" PRId64 ",\"text\":", i > 0 ? "," : "", i);
    if (!say_text(saying, choice))
        return false;
    text_raw(saying->out,
             choice->is_stopped ? ",\"finish_reason\":\"stop\"" : ",\"finish_reason\":\"length\"");
    if (asked->has_prompt_logprobs) {
        text_raw(saying->out, ",\"prompt_logprobs\":");
        if (!say_list(saying, choice, PROMPT_LOGPROBS, 0, choice->item->streams[0].tokens.count))
            return false;
    }
    text_raw(saying->out, ",\"logprobs\":");
    if (asked->has_logprobs && !say_logprobs(saying, choice))
        return false;
    text_raw(saying->out, asked->has_logprobs ? "}" : "null}");
    return true;
}

bool completion_write(struct call *call, struct fault *fault)
{
    const struct completion *job = completion_of(call);
    struct arena arena;
    arena_init(&arena, SIZE_MAX);
    const struct saying saying = { job, job->model->tokenizer, &call->text, &arena, fault };
    int64_t prompt_tokens = 0, completion_tokens = 0;
    text_format(&call->text,
                "{\"id\":\"cmpl-%016" PRIx64
                "\",\"object\":\"text_completion\",\"created\":%" PRId64 ",\"model\":",
                call_unique(call, -1), call_time_s(call));
    text_string(&call->text, job->model->name);
    text_raw(&call->text, ",\"choices\":[");
    bool good = true;
    for (int64_t i = 0; good && i < job->asked.prompts.count; i++) {
        good = say_choice(&saying, i);
        prompt_tokens += job->choices[i].item->streams[0].tokens.count;
        completion_tokens += job->choices[i].count;
    }
    arena_free(&arena);
    text_format(&call->text,
                "],\"usage\":{\"prompt_tokens\":%" PRId64 ",\"completion_tokens\":%" PRId64
                ",\"total_tokens\":%" PRId64 "}}\n",
                prompt_tokens, completion_tokens, prompt_tokens + completion_tokens);
    return good && text_finish(&call->text, fault);
}
