/* tokenizer_file.c - see tokenizer_file.h. */
#include "tokenizer/tokenizer_file.h"

#include "formats/foreign_form.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool read_all(int file, const char *name, char *bytes, size_t size, struct fault *fault)
{
    size_t used = 0;
    while (used < size) {
        const ssize_t count = read(file, bytes + used, size - used);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return fault_set(fault, FAULT_STORAGE, "%s: cannot be read: %s", name,
                             count < 0 ? strerror(errno) : "it became shorter");
        used += (size_t)count;
    }
    return true;
}

static bool read_file(int file, const char *name, char **bytes, size_t *size, struct fault *fault)
{
    struct stat state;
    if (fstat(file, &state) != 0 || !S_ISREG(state.st_mode))
        return fault_set(fault, FAULT_STORAGE, "%s: is not a regular file", name);
    if (state.st_size > TOKENIZER_FILE_BYTES_MAX)
        return fault_set(fault, FAULT_TOO_LARGE, "%s: has %lld bytes; expected at most %d", name,
                         (long long)state.st_size, TOKENIZER_FILE_BYTES_MAX);
    *size = (size_t)state.st_size;
    *bytes = malloc(*size + 1);
    if (!*bytes)
        return fault_no_memory(fault);
    (*bytes)[*size] = '\0';
    struct foreign_form foreign;
    if (read_all(file, name, *bytes, *size, fault)
        && (!foreign_form_of_bytes(*bytes, *size, &foreign)
            || fault_set(fault, FAULT_BINARY, "%s: is %s: %s", name, foreign.form, foreign.advice)))
        return true;
    free(*bytes);
    *bytes = NULL;
    return false;
}

bool tokenizer_file_read(const char *directory, const char *name, char **bytes, size_t *size,
                         struct fault *fault)
{
    *bytes = NULL;
    *size = 0;
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        return fault_set(fault, FAULT_STORAGE, "%s: the path is too long", name);
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return errno == ENOENT || errno == ENOTDIR
               || (!fault_from_shortage(fault, errno)
                   && fault_set(fault, FAULT_STORAGE, "%s: cannot be opened: %s", name,
                                strerror(errno)));
    const bool is_fine = read_file(file, name, bytes, size, fault);
    close(file);
    return is_fine;
}
