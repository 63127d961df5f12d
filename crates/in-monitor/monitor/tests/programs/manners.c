/* Wrong arguments, errno, threads, signals, fork: how ttmon_monitor.h behaves in another program. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ttmon_monitor.h"

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, ttmon_monitor_last_error()); \
            _exit(1);                                                               \
        }                                                                           \
    } while (0)

static ttmon_monitor *monitor;
static pthread_t main_thread;
static int handled_elsewhere;

static void wrong_arguments(void) {
    ttmon_system_stats stats, before;
    ttmon_process_stats process = {.struct_size = sizeof process};
    ttmon_kind_stats kind = {.struct_size = sizeof kind};
    uint32_t count = 7, ids[1];

    memset(&stats, 0x5a, sizeof stats);
    stats.struct_size = sizeof stats;
    before = stats;
    CHECK(ttmon_monitor_system_stats(NULL, 0, &stats) == TTMON_MONITOR_BAD_ARGUMENT);
    CHECK(ttmon_monitor_system_stats(monitor, 0, NULL) == TTMON_MONITOR_BAD_ARGUMENT);
    CHECK(ttmon_monitor_system_stats(monitor, 4000, &stats) == TTMON_MONITOR_NOT_FOUND);
    CHECK(strcmp(ttmon_monitor_last_error(), "there is no device 4000") == 0);
    CHECK(memcmp(&stats, &before, sizeof stats) == 0);
    stats.struct_size = 4;
    CHECK(ttmon_monitor_system_stats(monitor, 0, &stats) == TTMON_MONITOR_BAD_ARGUMENT);
    stats.struct_size = sizeof stats + 16;
    CHECK(ttmon_monitor_system_stats(monitor, 0, &stats) == TTMON_MONITOR_BAD_ARGUMENT);
    stats.struct_size = sizeof stats;
    CHECK(ttmon_monitor_system_stats(monitor, 0, &stats) == TTMON_MONITOR_OK);
    CHECK(stats.struct_size == sizeof stats && stats.device == 0 && stats.dram_total.value > 0);

    CHECK(ttmon_monitor_process_stats(monitor, 0, 0, &process) == TTMON_MONITOR_BAD_ARGUMENT);
    CHECK(ttmon_monitor_process_stats(monitor, -1, 0, &process) == TTMON_MONITOR_BAD_ARGUMENT);
    CHECK(ttmon_monitor_process_stats(monitor, 1 << 30, 0, &process) == TTMON_MONITOR_NOT_FOUND);
    CHECK(ttmon_monitor_detailed_stats(monitor, 0, TTMON_KINDS, &kind) == TTMON_MONITOR_BAD_ARGUMENT);
    CHECK(ttmon_monitor_detailed_stats(monitor, 0, TTMON_KIND_DRAM, NULL) == TTMON_MONITOR_BAD_ARGUMENT);

    CHECK(ttmon_monitor_device_count(NULL, &count) == TTMON_MONITOR_BAD_ARGUMENT);
    CHECK(ttmon_monitor_device_count(monitor, NULL) == TTMON_MONITOR_BAD_ARGUMENT && count == 7);
    CHECK(ttmon_monitor_device_ids(monitor, NULL, 1, &count) == TTMON_MONITOR_BAD_ARGUMENT && count == 7);
    CHECK(ttmon_monitor_device_ids(monitor, NULL, 0, &count) == TTMON_MONITOR_OK && count == 3);
    CHECK(ttmon_monitor_device_ids(monitor, ids, 1, &count) == TTMON_MONITOR_OK && count == 3 && ids[0] == 0);
    CHECK(ttmon_monitor_process_ids(monitor, 4000, NULL, 0, &count) == TTMON_MONITOR_NOT_FOUND);
    CHECK(ttmon_monitor_set_max_age(NULL, 1) == TTMON_MONITOR_BAD_ARGUMENT);
    ttmon_monitor_close(NULL);

    CHECK(ttmon_monitor_open("/nonexistent") == NULL);
    CHECK(strstr(ttmon_monitor_last_error(), "/nonexistent") != NULL);
    CHECK(strcmp(ttmon_monitor_missing_name(TTMON_MISSING_NOT_TRACKED), "not_tracked") == 0);
    CHECK(strcmp(ttmon_monitor_missing_name(TTMON_PRESENT), "") == 0 && strcmp(ttmon_monitor_missing_name(-9), "") == 0);
    CHECK(strcmp(ttmon_monitor_kind_name(200), "") == 0);
}

static atomic_int calls;

static void *many_calls(void *unused) {
    CHECK(strcmp(ttmon_monitor_last_error(), "") == 0);
    for (int round = 0; round < 50; round++) {
        ttmon_system_stats stats = {.struct_size = sizeof stats};
        ttmon_kind_stats kind = {.struct_size = sizeof kind};
        CHECK(ttmon_monitor_system_stats(monitor, (uint32_t)round % 3, &stats) == TTMON_MONITOR_OK);
        CHECK(ttmon_monitor_detailed_stats(monitor, 0, TTMON_KIND_L1, &kind) == TTMON_MONITOR_OK);
        calls++;
    }
    CHECK(strcmp(ttmon_monitor_last_error(), "") == 0);
    return unused;
}

static void *calls_without_end(void *unused) {
    while (unused == NULL) {
        many_calls(unused);
        pthread_testcancel();
    }
    return unused;
}

/* It ends between two calls: in the middle of one the monitor would stay locked. */
static void a_cancelled_thread_leaves_nothing_behind(void) {
    for (int round = 0; round < 20; round++) {
        pthread_t thread;
        void *result = NULL;
        CHECK(pthread_create(&thread, NULL, calls_without_end, NULL) == 0);
        for (int enough = calls + 5 * round; calls < enough;) {
            sched_yield();
        }
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    }
    many_calls(NULL);
}

static void handle(int signal) {
    (void)signal;
    if (!pthread_equal(pthread_self(), main_thread)) {
        handled_elsewhere = 1;
    }
}

/* With the signal blocked here, the kernel searches another thread that would take it: there must be none. */
static void signals_are_the_programs(void) {
    struct sigaction action;
    sigset_t set, pending;
    memset(&action, 0, sizeof action);
    action.sa_handler = handle;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    many_calls(NULL);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1) == 1 && !handled_elsewhere);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
    CHECK(!handled_elsewhere);
}

static void a_fork_has_to_open_its_own(void) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        ttmon_system_stats stats = {.struct_size = sizeof stats};
        ttmon_monitor *own;
        alarm(20);
        CHECK(ttmon_monitor_system_stats(monitor, 0, &stats) == TTMON_MONITOR_FORKED);
        ttmon_monitor_close(monitor);
        own = ttmon_monitor_open(getenv("TREE"));
        CHECK(own != NULL && ttmon_monitor_system_stats(own, 0, &stats) == TTMON_MONITOR_OK);
        ttmon_monitor_close(own);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
    pthread_t threads[8];
    uint32_t count = 0;
    main_thread = pthread_self();
    monitor = ttmon_monitor_open(getenv("TREE"));
    CHECK(monitor != NULL);
    CHECK(ttmon_monitor_set_max_age(monitor, 0) == TTMON_MONITOR_OK);
    errno = 77;
    CHECK(ttmon_monitor_device_count(monitor, &count) == TTMON_MONITOR_OK && count == 3 && errno == 77);
    signals_are_the_programs();
    a_cancelled_thread_leaves_nothing_behind();
    wrong_arguments();
    CHECK(errno == 77);
    for (int index = 0; index < 8; index++) {
        CHECK(pthread_create(&threads[index], NULL, many_calls, NULL) == 0);
    }
    a_fork_has_to_open_its_own();
    for (int index = 0; index < 8; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
    ttmon_monitor_close(monitor);
    return 0;
}
