/* SPDX-License-Identifier: Apache-2.0 */
/* framing_message.c - see framing_message.h. */
#include "framing_message.h"
#include "test.h"

#include "manifest.h"

static void add(struct framing_message *message, const char *bytes, size_t size)
{
    message->bytes = realloc(message->bytes, message->size + size + 1);
    assert_non_null(message->bytes);
    memcpy(message->bytes + message->size, bytes, size);
    message->size += size;
}

static void add_text(struct framing_message *message, const char *text)
{
    add(message, text, strlen(text));
}

static void add_bytes(struct framing_message *message, const char *text, const char *end);

/* Adds "a*100", a hundred times a. Returns false if it is none. */
static bool add_repeated(struct framing_message *message, const char *text, size_t size)
{
    size_t star = size;
    while (star > 0 && text[star - 1] != '*')
        star--;
    const long count = star > 0 ? strtol(text + star, NULL, 10) : 0;
    for (long i = 0; i < count; i++)
        add_bytes(message, text, text + star - 1);
    return count > 0;
}

/* Adds what stands in braces. Returns false if the name is not known. */
static bool add_named(struct framing_message *message, const char *name, size_t size)
{
    char target[128], hidden[256], number[24];
    snprintf(target, sizeof(target), "/t/%s/", message->name);
    const int length = snprintf(hidden, sizeof(hidden),
                                "POST /hidden/%s/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
                                message->name);
    snprintf(number, sizeof(number), size == 1 && name[0] == 'x' ? "%x" : "%d", length);
    if (size == 1 && name[0] == 't') {
        add_text(message, target);
    } else if (size == 1 && (name[0] == 'n' || name[0] == 'x')) {
        add_text(message, number);
    } else if (size == 6 && memcmp(name, "hidden", 6) == 0) {
        add_text(message, hidden);
    } else if (size == 7 && memcmp(name, "chunked", 7) == 0) {
        add_text(message, "Transfer-Encoding: chunked\r\n");
    } else if ((size == 3 && memcmp(name, "get", 3) == 0)
               || (size == 4 && memcmp(name, "post", 4) == 0)) {
        add_text(message, size == 3 ? "GET " : "POST ");
        add_text(message, target);
        add_text(message, " HTTP/1.1\r\nHost: x\r\n");
    } else {
        return add_repeated(message, name, size);
    }
    return true;
}

/* Adds one of C's escapes; text is behind the backslash. Returns the first character behind the
 * escape. */
static const char *add_escaped(struct framing_message *message, const char *text)
{
    static const char letters[] = "rnt0\"\\", bytes[] = "\r\n\t\0\"\\";
    const char *letter = strchr(letters, *text);
    if (letter) {
        add(message, &bytes[letter - letters], 1);
        return text + 1;
    }
    unsigned byte = 0;
    if (sscanf(text, "x%2x", &byte) != 1)
        fail_msg("%s: \\%s is no escape", message->name, text);
    add(message, &(char){ (char)byte }, 1);
    return text + 3;
}

static void add_bytes(struct framing_message *message, const char *text, const char *end)
{
    while (text < end) {
        const char *brace = *text == '{' ? strchr(text, '}') : NULL;
        if (*text == '\\') {
            text = add_escaped(message, text + 1);
        } else if (brace && add_named(message, text + 1, (size_t)(brace - text) - 1)) {
            text = brace + 1;
        } else {
            add(message, text++, 1);
        }
    }
}

static void read_line(struct framing_messages *messages, const char *line, const char *file)
{
    struct framing_message read = { 0 };
    char name[64];
    int used = 0;
    if (sscanf(line, "%63s %15s %47s %n", name, read.section, read.made_of_it, &used) != 3
        || !line[used])
        fail_msg("%s: %s", file, line);
    messages->items =
        realloc(messages->items, (size_t)(messages->count + 1) * sizeof(messages->items[0]));
    assert_non_null(messages->items);
    struct framing_message *message = &messages->items[messages->count++];
    *message = read;
    message->name = strdup(name);
    add_bytes(message, line + used, line + strlen(line));
}

void framing_messages_read_file(struct framing_messages *messages, const char *file)
{
    *messages = (struct framing_messages){ 0 };
    char *text = manifest_file_text(file), *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));)
        if (line[0] && line[0] != '#')
            read_line(messages, line, file);
    free(text);
}

void framing_messages_read(struct framing_messages *messages)
{
    framing_messages_read_file(messages, "tests/http/framing_messages.txt");
    for (int i = 0; i < messages->count; i++) {
        struct framing_message *message = &messages->items[i];
        const long number = strtol(message->made_of_it, NULL, 10);
        if (message->made_of_it[0] == '*')
            message->taken = -1;
        else if (number < 100)
            message->taken = (int)number;
        else
            message->refused = number;
    }
}

void framing_messages_free(struct framing_messages *messages)
{
    for (int i = 0; i < messages->count; i++) {
        free(messages->items[i].name);
        free(messages->items[i].bytes);
    }
    free(messages->items);
    *messages = (struct framing_messages){ 0 };
}

int framing_message_count(const struct framing_message *message, const char *target,
                          const char *log)
{
    char wanted[128];
    snprintf(wanted, sizeof(wanted), "/%s/%s/", target, message->name);
    int count = 0;
    for (const char *at = log; (at = strstr(at, wanted)); at += strlen(wanted))
        count++;
    return count;
}
