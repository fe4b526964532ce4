/* fatal_signal.c - see fatal_signal.h.
 *
 * The handler itself writes nothing. It waits while the log's thread, which runs on, gathers lines
 * for a few milliseconds and writes them. The wait has a limit: the signal may have hit that very
 * thread, its mutex may stay locked, or nobody may read standard error. */
#include "watch/fatal_signal.h"

#include "watch/log_writer.h"

#include <signal.h>
#include <stddef.h>

enum { SETTLE_MS_MAX = 200 };

void fatal_signal_end(int signal_number)
{
    log_writer_settle(SETTLE_MS_MAX);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

void fatal_signal_install(void)
{
    static const int SIGNALS[] = { SIGSEGV, SIGABRT, SIGFPE, SIGILL };
    const struct sigaction action = { .sa_handler = fatal_signal_end };
    for (size_t i = 0; i < sizeof SIGNALS / sizeof SIGNALS[0]; i++) {
        struct sigaction before;
        if (sigaction(SIGNALS[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(SIGNALS[i], &action, NULL);
    }
}
