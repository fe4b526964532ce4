/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_guard.c - the table of watched mappings, and memory faults outside them.
 * test_model.c shows what the guard is for. */
#include "models/model/model_guard.h"
#include "test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Any other SIGBUS still ends the process, as it would without the handler. */
TEST(other_faults)
{
    fflush(NULL);
    model_guard_install();
    const pid_t child = fork();
    if (child == 0) {
        raise(SIGBUS);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

TEST(guard_table)
{
    static struct model_guard *guards[MODEL_GUARD_MAPPINGS_MAX];
    static char bytes[16];
    for (int i = 0; i < MODEL_GUARD_MAPPINGS_MAX; i++) {
        guards[i] = model_guard_add(bytes, sizeof bytes);
        assert_non_null(guards[i]);
    }
    assert_null(model_guard_add(bytes, sizeof bytes));
    model_guard_remove(guards[7]);
    assert_ptr_equal(model_guard_add(bytes, sizeof bytes), guards[7]);
    for (int i = 0; i < MODEL_GUARD_MAPPINGS_MAX; i++)
        model_guard_remove(guards[i]);
    model_guard_remove(NULL);
}
