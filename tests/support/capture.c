/* SPDX-License-Identifier: Apache-2.0 */
/* capture.c - see capture.h.
 *
 * This diverts the descriptor itself, not the FILE, so it catches both printf() and write(). */
#include "capture.h"
#include "test.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void capture_begin(struct capture *capture, int descriptor)
{
    fflush(NULL);
    capture->descriptor = descriptor;
    capture->saved = dup(descriptor);
    capture->file = memfd_create("capture", MFD_CLOEXEC);
    assert_true(capture->saved >= 0 && capture->file >= 0);
    assert_int_equal(dup2(capture->file, descriptor), descriptor);
}

char *capture_end(struct capture *capture, size_t *size)
{
    struct stat status;
    fflush(NULL);
    assert_int_equal(dup2(capture->saved, capture->descriptor), capture->descriptor);
    close(capture->saved);
    assert_int_equal(fstat(capture->file, &status), 0);
    char *bytes = calloc(1, (size_t)status.st_size + 1);
    assert_non_null(bytes);
    assert_int_equal(pread(capture->file, bytes, (size_t)status.st_size, 0), status.st_size);
    close(capture->file);
    if (size)
        *size = (size_t)status.st_size;
    return bytes;
}
