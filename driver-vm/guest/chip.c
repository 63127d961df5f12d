/* chip write DEVICE X Y ADDRESS WORD...   writes words into a chip, as a program of TT-Metal does
 * chip windows DEVICE SIZE               takes all windows of SIZE bytes, prints their number, and keeps them until its input ends
 * In C because the rest of the project contains no unsafe code for an ioctl. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

struct allocate { uint64_t size, reserved; uint32_t id, reserved0; uint64_t uncached, combined, reserved1; };
struct configure {
    uint32_t id, reserved;
    uint64_t address;
    uint16_t x_end, y_end, x_start, y_start;
    uint8_t noc, mcast, ordering, linked, static_vc, reserved0[3];
    uint32_t reserved1[2];
    uint64_t reserved2;
};

static int fail(const char *what) {
    fprintf(stderr, "chip: %s: %s\n", what, strerror(errno));
    return 1;
}

static int allocate(int fd, uint64_t size, struct allocate *window) {
    *window = (struct allocate){.size = size};
    return ioctl(fd, 0xFA0B, window);
}

int main(int argc, char **argv) {
    char path[64];
    struct allocate window;
    if (argc < 4) {
        fprintf(stderr, "usage: chip write DEVICE X Y ADDRESS WORD... | chip windows DEVICE SIZE\n");
        return 2;
    }
    snprintf(path, sizeof(path), "/dev/tenstorrent/%s", argv[2]);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_APPEND);
    if (fd < 0) {
        return fail(path);
    }
    if (!strcmp(argv[1], "windows")) {
        int count = 0;
        while (allocate(fd, strtoull(argv[3], NULL, 0), &window) == 0) {
            count++;
        }
        printf("%d\n", count);
        fflush(stdout);
        return read(0, path, 1) < 0;
    }
    uint64_t address = strtoull(argv[5], NULL, 0), size = 2 << 20;
    if (allocate(fd, size, &window) < 0) {
        return fail("allocate");
    }
    struct configure target = {.id = window.id, .address = address & ~(size - 1), .x_end = atoi(argv[3]), .y_end = atoi(argv[4])};
    if (ioctl(fd, 0xFA0D, &target) < 0) {
        return fail("configure");
    }
    char *start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, window.uncached);
    if (start == MAP_FAILED) {
        return fail("mmap");
    }
    volatile uint32_t *words = (volatile uint32_t *)(start + (address & (size - 1)));
    for (int i = 6; i < argc; i++) {
        *words++ = strtoul(argv[i], NULL, 0);
    }
    return 0;
}
