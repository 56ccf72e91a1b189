#define _GNU_SOURCE
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CANARY = 0xa5 };

check_buffer check_alloc(size_t size, check_place place) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), inner = (size + page - 1) / page * page;
    if (inner == 0) inner = page;
    char *map = mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || mprotect(map + page, inner, PROT_READ | PROT_WRITE)) {
        printf("no memory for %zu bytes\n", size);
        exit(3);
    }
    memset(map + page, CANARY, inner);
    return (check_buffer){map + page + (place == CHECK_AT_END ? inner - size : 0), size, map + page, inner};
}

void check_read_only(const check_buffer *b) {
    if (mprotect(b->pages, b->pages_size, PROT_READ)) exit(3);
}

bool check_canary(const char *what, const check_buffer *b) {
    const char *data = b->data;
    for (const char *c = b->pages; c < b->pages + b->pages_size; c++) {
        if (c == data) c += b->size;
        if (c == b->pages + b->pages_size) break;
        if ((unsigned char)*c == CANARY) continue;
        ptrdiff_t before = data - c, behind = c - data - (ptrdiff_t)b->size + 1;
        printf("  %s: wrote %td bytes %s its buffer\n", what, before > 0 ? before : behind, before > 0 ? "before" : "behind");
        return false;
    }
    return true;
}

void check_free(check_buffer *b) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    munmap(b->pages - page, b->pages_size + 2 * page);
    b->data = NULL;
}
