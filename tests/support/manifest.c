/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.c - see manifest.h.
 *
 * A stack of the keys above a line, each with its indent, gives the path of the line. "- " opens
 * a member of a list; the keys of the member are indented by two more columns. */
#include "manifest.h"
#include "test.h"

enum { DEPTH_MAX = 32, PATH_BYTES = 512 };

struct level {
    int indent;
    int index;       /* of a member of a list; -1: a key */
    const char *key; /* points into the text */
};

struct reader {
    struct manifest *manifest;
    const char *file;
    char *rest; /* the lines that are not read yet */
    int line;
    struct level levels[DEPTH_MAX];
    int depth;
};

char *manifest_file_text(const char *file)
{
    FILE *stream = fopen(file, "r");
    if (!stream)
        fail_msg("%s cannot be opened (tests run from the root of the repository)", file);
    char *text = NULL;
    size_t size = 0;
    if (getdelim(&text, &size, '\0', stream) < 0)
        fail_msg("%s is empty", file);
    fclose(stream);
    return text;
}

static void push(struct reader *reader, struct level level)
{
    if (reader->depth == DEPTH_MAX)
        fail_msg("%s:%d: too deep", reader->file, reader->line);
    reader->levels[reader->depth++] = level;
}

static void pop_to(struct reader *reader, int indent)
{
    while (reader->depth > 0 && reader->levels[reader->depth - 1].indent >= indent)
        reader->depth--;
}

static cJSON *json_scalar(const char *text, bool quoted)
{
    char *end;
    const double number = strtod(text, &end);
    if (quoted)
        return cJSON_CreateString(text);
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return cJSON_CreateBool(*text == 't');
    if (strcmp(text, "{}") == 0)
        return cJSON_CreateObject();
    if (strcmp(text, "[]") == 0)
        return cJSON_CreateArray();
    return end > text && *end == '\0' ? cJSON_CreateNumber(number) : cJSON_CreateString(text);
}

/* The member of parent that level names; made of what comes below it where it is not there. */
static cJSON *enter(cJSON *parent, const struct level *level, cJSON *made)
{
    cJSON *found = level->index >= 0 ? cJSON_GetArrayItem(parent, level->index)
                                     : cJSON_GetObjectItemCaseSensitive(parent, level->key);
    if (found) {
        cJSON_Delete(made);
        return found;
    }
    if (level->index >= 0)
        cJSON_AddItemToArray(parent, made);
    else
        cJSON_AddItemToObject(parent, level->key, made);
    return made;
}

static cJSON *container(const struct level *inner)
{
    return inner->index >= 0 ? cJSON_CreateArray() : cJSON_CreateObject();
}

static void add_to_tree(struct reader *reader, cJSON *value)
{
    struct manifest *manifest = reader->manifest;
    if (!manifest->tree)
        manifest->tree = container(&reader->levels[0]);
    cJSON *node = manifest->tree;
    for (int i = 0; i < reader->depth; i++) {
        const bool last = i + 1 == reader->depth;
        node = enter(node, &reader->levels[i], last ? value : container(&reader->levels[i + 1]));
    }
}

static void add_value(struct reader *reader, char *value)
{
    char path[PATH_BYTES] = "";
    size_t used = 0;
    for (int i = 0; i < reader->depth; i++) {
        const struct level *level = &reader->levels[i];
        const char *dot = i > 0 ? "." : "";
        const int more = level->index >= 0
                             ? snprintf(path + used, sizeof path - used, "%s%d", dot, level->index)
                             : snprintf(path + used, sizeof path - used, "%s%s", dot, level->key);
        used += (size_t)more;
        assert_true(used < sizeof path);
    }
    size_t length = strlen(value);
    const bool quoted =
        length >= 2 && (*value == '"' || *value == '\'') && value[length - 1] == *value;
    if (quoted) {
        value[length - 1] = '\0';
        value++;
    }
    add_to_tree(reader, json_scalar(value, quoted || strchr(value, '\n')));
    struct manifest *manifest = reader->manifest;
    manifest->entries =
        realloc(manifest->entries, (size_t)(manifest->count + 1) * sizeof *manifest->entries);
    assert_non_null(manifest->entries);
    manifest->entries[manifest->count++] =
        (struct manifest_entry){ .path = strdup(path), .value = strdup(value) };
}

/* The colon that ends a key, or NULL. "a: b" and "a:" have one, "--listen=0.0.0.0:80" does not. A
 * key in quotes loses them; a value in quotes has no colon behind it. */
static char *find_colon(char **key)
{
    char *text = *key;
    if (*text == '"' || *text == '\'') {
        char *end = strchr(text + 1, *text);
        if (!end || end[1] != ':' || (end[2] != ' ' && end[2] != '\0'))
            return NULL;
        *end = '\0';
        *key = text + 1;
        return end + 1;
    }
    for (char *c = text; (c = strchr(c, ':')); c++)
        if (c[1] == ' ' || c[1] == '\0')
            return c;
    return NULL;
}

static void open_member(struct reader *reader, int indent)
{
    pop_to(reader, indent + 1);
    struct level *top = reader->depth > 0 ? &reader->levels[reader->depth - 1] : NULL;
    if (top && top->indent == indent && top->index >= 0)
        top->index++;
    else
        push(reader, (struct level){ .indent = indent, .index = 0 });
}

/* The lines after "|", which are indented by more than the key, without that indent, in place. */
static char *block_text(struct reader *reader, int indent)
{
    char *text = reader->rest, *end = text;
    int own = -1;
    while (reader->rest) {
        char *line = reader->rest;
        const int blanks = (int)strspn(line, " ");
        const size_t length = strcspn(line, "\n");
        if (line[blanks] != '\n' && blanks <= indent)
            break;
        if (own < 0)
            own = blanks;
        const size_t cut = (size_t)(blanks < own ? blanks : own);
        memmove(end, line + cut, length - cut);
        end += length - cut;
        reader->rest = line[length] ? line + length + 1 : NULL;
        *end++ = '\n';
        reader->line++;
    }
    char *copy = strndup(text ? text : "", text ? (size_t)(end - text) : 0);
    assert_non_null(copy);
    return copy;
}

static void read_line(struct reader *reader, char *line)
{
    int indent = (int)strspn(line, " ");
    char *text = line + indent;
    if (*text == '\0' || *text == '#')
        return;
    if (strncmp(text, "- ", 2) == 0) {
        open_member(reader, indent);
        indent += 2;
        text += 2;
    }
    char *colon = find_colon(&text);
    if (colon) {
        *colon = '\0';
        pop_to(reader, indent);
        push(reader, (struct level){ .indent = indent, .index = -1, .key = text });
        text = colon + 1 + strspn(colon + 1, " ");
    } else if (reader->depth == 0 || reader->levels[reader->depth - 1].index < 0) {
        fail_msg("%s:%d: neither a key nor a member of a list", reader->file, reader->line);
    }
    if (strcmp(text, "|") == 0) {
        char *block = block_text(reader, indent);
        add_value(reader, block);
        free(block);
    } else if (*text) {
        add_value(reader, text);
    }
}

void manifest_read_text(struct manifest *manifest, const char *name, char *text)
{
    *manifest = (struct manifest){ 0 };
    struct reader reader = { .manifest = manifest, .file = name, .rest = text };
    for (char *line; (line = strsep(&reader.rest, "\n"));) {
        reader.line++;
        read_line(&reader, line);
    }
}

void manifest_read(struct manifest *manifest, const char *file)
{
    char *text = manifest_file_text(file);
    manifest_read_text(manifest, file, text);
    free(text);
}

void manifest_free(struct manifest *manifest)
{
    for (int i = 0; i < manifest->count; i++) {
        free(manifest->entries[i].path);
        free(manifest->entries[i].value);
    }
    free(manifest->entries);
    cJSON_Delete(manifest->tree);
    *manifest = (struct manifest){ 0 };
}

const char *manifest_find(const struct manifest *manifest, const char *path)
{
    for (int i = 0; i < manifest->count; i++)
        if (strcmp(manifest->entries[i].path, path) == 0)
            return manifest->entries[i].value;
    return NULL;
}

const char *manifest_get(const struct manifest *manifest, const char *path)
{
    const char *value = manifest_find(manifest, path);
    if (!value)
        fail_msg("there is no %s", path);
    return value;
}
