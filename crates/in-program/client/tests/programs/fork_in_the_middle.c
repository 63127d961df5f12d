/* A child after fork has an empty ledger of its own; its parent's stays unchanged. Tags from before the fork are not used. */
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"
#include "ttmon.h"

static pid_t fork_by_hand(void) {
    return (pid_t)syscall(SYS_clone, 17 /* SIGCHLD */, NULL, NULL, NULL, NULL);
}

static void child(void) {
    EQUAL(ttmon_report_allocation(0, 7, TTMON_DRAM, 0x7000), TTMON_RECORDED);
    EQUAL(word(LIVE_ENTRIES), 1);
    EQUAL(word(LIVE_BYTES), 7);
    EQUAL(ttmon_tag_push("of the child"), TTMON_RECORDED);
    EQUAL(ttmon_tag_pop(), TTMON_RECORDED);
    EQUAL(ttmon_tag_pop(), TTMON_RECORDED);
    EQUAL(ttmon_tag_pop(), TTMON_BAD_ARGUMENT);
    EQUAL(ttmon_report_deallocation(0, 0x1000), TTMON_RECORDED);
    EQUAL(word(LOST_UNKNOWN_FREE), 1);
    _exit(0);
}

int main(void) {
    pid_t (*ways[2])(void) = {fork, fork_by_hand};
    int way;
    EQUAL(ttmon_tag_push("of the parent"), TTMON_RECORDED);
    for (way = 0; way < 2; way++) {
        pid_t pid;
        int status;
        EQUAL(ttmon_report_allocation(0, 100, TTMON_DRAM, 0x1000 + (uint64_t)way), TTMON_RECORDED);
        pid = ways[way]();
        CHECK(pid >= 0);
        if (pid == 0) {
            child();
        }
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        EQUAL(word(LIVE_ENTRIES), way + 1);
        EQUAL(word(LOST_UNKNOWN_FREE), 0);
    }
    return 0;
}
