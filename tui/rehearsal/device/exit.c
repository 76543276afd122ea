/* Threads that outlive the interpreter. Before Python 3.14, a thread that asks for the interpreter's
 * lock while it ends is itself ended by pthread_exit. A thread of torch's autograd may do so below a
 * destructor, through which it must not be unwound: the process aborts, and its exit code is lost. A
 * real device keeps the main thread busy long enough; here it must be made to wait, as Python 3.14 does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static int interpreter_ends(void) {
    static const char *const NAMES[] = { "Py_IsFinalizing", "_Py_IsFinalizing" };
    for (int i = 0; i < 2; i++) {
        int (*ends)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, NAMES[i]);
        if (ends) return ends();
    }
    return 0;
}

__attribute__((noreturn)) void pthread_exit(void *value) {
    void (*leave)(void *) = (void (*)(void *))dlsym(RTLD_NEXT, "pthread_exit");
    if (getpid() != (pid_t)syscall(SYS_gettid) && interpreter_ends()) for (;;) pause();
    leave(value);
    abort(); /* it does not come here */
}
