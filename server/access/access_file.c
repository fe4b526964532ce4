/* access_file.c - see access_file.h. */
#include "access/access_file.h"

#include "watch/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_SHOWN = 160 };

static bool refuse(const char *path, struct fault *fault, const char *reason)
{
    return fault_set(fault, FAULT_OPTION, "%.*s: %s", PATH_SHOWN, path, reason);
}

/* The mode is that of the open file, so nobody can change files in between. */
static bool check_file(int descriptor, const char *path, struct fault *fault)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        return refuse(path, fault, strerror(errno));
    const unsigned mode = status.st_mode & 07777;
    if (!S_ISREG(status.st_mode))
        return refuse(path, fault, "is not a regular file; expected a file of keys");
    if (mode & S_IWOTH)
        return fault_set(fault, FAULT_OPTION,
                         "%.*s: others may write it (mode %04o); expected none to, chmod o-w",
                         PATH_SHOWN, path, mode);
    if (mode & S_IROTH)
        log_line(LOG_WARNING, "keys readable by others", LOG_STRING("file", path),
                 LOG_STRING("advice", "chmod o-r"));
    return true;
}

/* Reads up to one byte more than a file may have. */
static bool read_bytes(int descriptor, const char *path, char *text, size_t *size,
                       struct fault *fault)
{
    *size = 0;
    while (*size <= ACCESS_FILE_BYTES_MAX) {
        const ssize_t got = read(descriptor, text + *size, ACCESS_FILE_BYTES_MAX + 1 - *size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return refuse(path, fault, strerror(errno));
        if (got == 0)
            return true;
        *size += (size_t)got;
    }
    return fault_set(fault, FAULT_OPTION, "%.*s: has more than %d bytes; expected at most as many",
                     PATH_SHOWN, path, ACCESS_FILE_BYTES_MAX);
}

bool access_file_read(const char *path, char **text, size_t *size, struct fault *fault)
{
    *text = NULL;
    /* O_NONBLOCK: a pipe without a writer must not hold up the start. */
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return refuse(path, fault, strerror(errno));
    bool good = check_file(descriptor, path, fault);
    if (good)
        *text = malloc(ACCESS_FILE_BYTES_MAX + 1);
    good = good && (*text || fault_no_memory(fault))
           && read_bytes(descriptor, path, *text, size, fault);
    close(descriptor);
    if (!good) {
        free(*text);
        *text = NULL;
    }
    return good;
}
