/* reset KIND [DEVICE]: calls the reset ioctl of the driver. KIND: restore, link, config, user, asic, dmc, post.
 * In C because the rest of the project contains no unsafe code for an ioctl. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#define TENSTORRENT_IOCTL_RESET_DEVICE 0xFA06

int main(int argc, char **argv) {
    static const char *const kinds[] = {"restore", "link", "config", "user", "asic", "dmc", "post"};
    struct { uint32_t output_size, flags, returned_size, result; } block = {8, 0, 0, 0};
    const uint32_t count = sizeof(kinds) / sizeof(*kinds);
    char path[64];
    while (argc > 1 && block.flags < count && strcmp(argv[1], kinds[block.flags])) {
        block.flags++;
    }
    if (argc < 2 || block.flags == count) {
        fprintf(stderr, "usage: reset restore|link|config|user|asic|dmc|post [DEVICE]\n");
        return 2;
    }
    snprintf(path, sizeof(path), "/dev/tenstorrent/%s", argc > 2 ? argv[2] : "0");
    int fd = open(path, O_RDWR | O_CLOEXEC | O_APPEND);
    if (fd < 0 || ioctl(fd, TENSTORRENT_IOCTL_RESET_DEVICE, &block) < 0) {
        fprintf(stderr, "reset %s: %s: %s\n", argv[1], path, strerror(errno));
        return 1;
    }
    if (block.result != 0) {
        fprintf(stderr, "reset %s: %s: the driver returned %u\n", argv[1], path, block.result);
        return 1;
    }
    return 0;
}
