/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c - see fault.h.
 *
 * A message is composed in a separate buffer and copied at the end, so that an argument may point
 * into the fault that is being set: a caller can put words before the message that a callee set. */
#include "base/fault.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct fault_row {
    const char *name;
    int http_status;
};

static const struct fault_row FAULTS[] = { [FAULT_NONE] = { "none", 200 },
#define X(name, code, http) [FAULT_##name] = { code, http },
                                           FAULT_MAP(X)
#undef X
};

/* What fault.h tells the analyzer in place of these. */
#undef fault_set
#undef fault_set_at
#undef fault_name_file
#undef fault_no_memory

enum { FAULT_COUNT = sizeof FAULTS / sizeof FAULTS[0] };

int fault_http_status(enum fault_code code)
{
    return (unsigned)code < FAULT_COUNT ? FAULTS[code].http_status : 500;
}

const char *fault_code_name(enum fault_code code)
{
    return (unsigned)code < FAULT_COUNT ? FAULTS[code].name : "unknown";
}

int fault_retry_after_s(int status, int retry_after_s)
{
    const bool is_for_later = status == 429 || status == 503 || status == 504;
    return is_for_later && retry_after_s == 0 ? 1 : retry_after_s;
}

/* text was cut after size bytes. Drops its last character unless all bytes of that character are
 * there. */
static void cut_at_character(char *text, size_t size)
{
    size_t lead = size;
    while (lead > 0 && size - lead < 4) {
        const unsigned char byte = (unsigned char)text[--lead];
        if ((byte & 0xC0) == 0x80)
            continue;
        const size_t length = byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
        if (lead + length > size)
            text[lead] = '\0';
        return;
    }
}

static void set_message(struct fault *fault, enum fault_code code, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

static void set_message(struct fault *fault, enum fault_code code, const char *format, va_list args)
{
    char message[FAULT_MESSAGE_MAX] = "";
    const int length = vsnprintf(message, sizeof message, format, args);
    if (length >= FAULT_MESSAGE_MAX)
        cut_at_character(message, sizeof message - 1);
    fault->code = code;
    fault->retry_after_s = 0;
    fault->place = NULL;
    memcpy(fault->message, message, sizeof message);
}

/* A pointer that is too long is replaced by the pointer of the nearest enclosing value that fits:
 * less exact, but never wrong. */
static void set_pointer(struct fault *fault, const char *prefix, const char *rest)
{
    char pointer[FAULT_POINTER_MAX] = "";
    const int length = snprintf(pointer, sizeof pointer, "%s%s", prefix, rest);
    if (length >= FAULT_POINTER_MAX) {
        char *slash = strrchr(pointer, '/');
        if (slash)
            *slash = '\0';
        else
            pointer[0] = '\0';
    }
    memcpy(fault->pointer, pointer, sizeof pointer);
}

bool fault_set(struct fault *fault, enum fault_code code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set_message(fault, code, format, args);
    va_end(args);
    fault->pointer[0] = '\0';
    return false;
}

bool fault_set_at(struct fault *fault, const char *pointer, enum fault_code code,
                  const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set_message(fault, code, format, args);
    va_end(args);
    set_pointer(fault, pointer, "");
    return false;
}

void fault_prefix_pointer(struct fault *fault, const char *prefix)
{
    set_pointer(fault, prefix, fault->pointer);
}

bool fault_name_file(struct fault *fault, const char *name)
{
    return fault->code == FAULT_MEMORY
               ? false
               : fault_set_at(fault, fault->pointer, fault->code, "%s: %s", name, fault->message);
}

size_t fault_pointer_append(char pointer[FAULT_POINTER_MAX], size_t used, const char *key)
{
    size_t end = used;
    if (end + 1 < FAULT_POINTER_MAX)
        pointer[end++] = '/';
    for (; *key && end + 2 < FAULT_POINTER_MAX; key++) {
        const bool is_escaped = *key == '~' || *key == '/';
        pointer[end++] = is_escaped ? '~' : *key;
        if (is_escaped)
            pointer[end++] = *key == '~' ? '0' : '1';
    }
    if (*key || end == used)
        end = used;
    pointer[end] = '\0';
    return end;
}

bool fault_no_memory(struct fault *fault)
{
    return fault_set(fault, FAULT_MEMORY, "not enough memory for this request; try again later");
}

bool fault_from_shortage(struct fault *fault, int error)
{
    if (error == ENOMEM)
        fault_no_memory(fault);
    else if (error == EMFILE || error == ENFILE)
        fault_set(fault, FAULT_MEMORY,
                  "the daemon has as many files open as it may; try again, or raise its limit of "
                  "open files");
    else
        return false;
    return true;
}

bool fault_from_attn(struct fault *fault, enum attn_status status, const char *where)
{
    enum fault_code code = FAULT_SHAPE; /* ATTN_ERR_SHAPE, ATTN_ERR_HEADS, ATTN_ERR_STRIDE */
    if (status == ATTN_ERR_NO_DATA)
        code = FAULT_FIELD;
    else if (status == ATTN_ERR_DTYPE)
        code = FAULT_DTYPE;
    else if (status == ATTN_ERR_LENGTH)
        code = FAULT_LENGTH;
    else if (status == ATTN_ERR_OPTION)
        code = FAULT_OPTION;
    else if (status == ATTN_ERR_TOO_LARGE)
        code = FAULT_TOO_LARGE;
    return fault_set(fault, code, "%s: %s", where, attn_status_message(status));
}
