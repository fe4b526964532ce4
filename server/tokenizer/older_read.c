/* older_read.c - the vocabularies that are text: vocab.txt, and vocab.json with merges.txt. */
#include "text/json.h"
#include "tokenizer/older.h"

#include "base/grow.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <string.h>

/* Where a line ends: at "\n", "\r" or "\r\n", as Python's text files have it. */
static size_t line_size(const char *text, size_t size)
{
    size_t at = 0;
    while (at < size && text[at] != '\n' && text[at] != '\r')
        at++;
    return at;
}

static size_t line_break_size(const char *text, size_t size)
{
    if (size == 0)
        return 0;
    return size > 1 && text[0] == '\r' && text[1] == '\n' ? 2 : 1;
}

static bool is_utf8(const char *text, size_t size)
{
    for (size_t at = 0, step; at < size; at += step) {
        step = utf8_character_size(text + at, size - at);
        if (step == 0)
            return false;
    }
    return true;
}

/* One token a line; the line's number, from 0, is the id. Of equal tokens the last one counts. */
bool older_read_lines(struct older *older)
{
    const char *text = older->vocabulary_file;
    size_t left = older->vocabulary_size;
    for (int64_t id = 0; left > 0; id++) {
        const size_t size = line_size(text, left);
        if (!is_utf8(text, size))
            return fault_set(older->fault, FAULT_FIELD, "line %" PRId64 " is not UTF-8", id + 1);
        if (!vocabulary_add(&older->vocabulary, text, size, id, older->fault))
            return false;
        const size_t step = size + line_break_size(text + size, left - size);
        text += step;
        left -= step;
    }
    return true;
}

/* Two tokens with one space between them a line. A line that begins with "#version" is none. */
static bool read_merges(struct older *older)
{
    char *text = older->merges_file;
    size_t left = older->merges_size;
    for (int64_t number = 1; left > 0; number++) {
        const size_t size = line_size(text, left);
        const size_t step = size + line_break_size(text + size, left - size);
        text[size] = '\0';
        const char *space = memchr(text, ' ', size);
        const bool is_merge = size > 0 && strncmp(text, "#version", 8) != 0;
        if (is_merge && (!space || strchr(space + 1, ' ') || strlen(text) != size))
            return fault_set(older->fault, FAULT_FIELD,
                             "merges.txt: line %" PRId64 " is not two tokens", number);
        if (is_merge && !is_utf8(text, size))
            return fault_set(older->fault, FAULT_FIELD, "merges.txt: line %" PRId64 " is not UTF-8",
                             number);
        if (is_merge) {
            const char **merges = array_with_room(older->merges, older->merge_count,
                                                  &older->merge_capacity, sizeof *merges);
            if (!merges)
                return fault_no_memory(older->fault);
            older->merges = merges;
            merges[older->merge_count++] = text;
        }
        text += step;
        left -= step;
    }
    return true;
}

static bool add_tokens(struct older *older, const struct json_document *document)
{
    if (!cJSON_IsObject(document->root))
        return fault_set(older->fault, FAULT_TYPE, "the file is %s; expected an object of ids",
                         json_kind(document, document->root));
    const cJSON *token;
    cJSON_ArrayForEach(token, document->root)
    {
        struct byte_slice text;
        if (!json_string_read(token->string, &older->arena, &text))
            return fault_no_memory(older->fault);
        const double id = cJSON_IsNumber(token) ? token->valuedouble : -1;
        if (!(id >= 0 && id <= VOCABULARY_ID_MAX) || id != (double)(int64_t)id)
            return fault_set(older->fault, FAULT_FIELD, "%s is %s; expected an id", token->string,
                             json_kind(document, token));
        if (!vocabulary_add(&older->vocabulary, text.data, text.size, (int64_t)id, older->fault))
            return false;
    }
    return true;
}

bool older_read_pairs(struct older *older)
{
    if (!older->merges_file)
        return fault_set(older->fault, FAULT_OPTION, "there is no merges.txt beside it");
    const struct json_options options = { .nul_is_kept = true };
    struct json_document document;
    if (!json_read(&document, older->vocabulary_file, older->vocabulary_size, &options,
                   older->fault))
        return false;
    const bool good = add_tokens(older, &document);
    json_free(&document);
    return good && read_merges(older);
}
