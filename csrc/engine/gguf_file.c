#define _GNU_SOURCE   /* O_CLOEXEC, pread */
#include "engine/gguf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/memory_alloc.h"

static const char *kind_of(mode_t mode) {
    if (S_ISDIR(mode)) return "a directory";
    if (S_ISFIFO(mode)) return "a pipe";
    return S_ISCHR(mode) || S_ISBLK(mode) ? "a device" : "of another kind";
}

/* Non-blocking, so that a pipe without a writer does not hang; it makes no difference to regular files. */
static int open_again(const char *path) {
    int fd;
    do fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static char *copy_string(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = kipu_alloc(size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

kipu_status kipu_file_open(kipu_file *f, const char *path, kipu_error *err) {
    struct stat s;
    *f = (kipu_file){.fd = open_again(path)};
    KIPU_REQUIRE(f->fd >= 0, err, KIPU_E_IO, "cannot open '%.160s': %s", path, strerror(errno));
    f->path = copy_string(path);
    kipu_status status = KIPU_OK;
    if (fstat(f->fd, &s)) status = kipu_fail(err, KIPU_E_IO, "cannot examine '%.160s': %s", path, strerror(errno));
    else if (!S_ISREG(s.st_mode)) status = kipu_fail(err, KIPU_E_IO, "'%.160s' is %s, expected a regular file", path, kind_of(s.st_mode));
    else if (!f->path) status = kipu_fail(err, KIPU_E_MEMORY, "no memory to open '%.160s'", path);
    if (status != KIPU_OK) kipu_file_close(f);
    else f->size = (uint64_t)s.st_size;
    return status;
}

void kipu_file_close(kipu_file *f) {
    if (f->fd >= 0) close(f->fd);
    kipu_free(f->path);
    *f = (kipu_file){.fd = -1};
}

kipu_status kipu_file_read(const kipu_file *f, uint64_t offset, uint64_t size, void *dst, kipu_error *err) {
    char *at = dst;
    while (size > 0) {
        ssize_t n = pread(f->fd, at, size < (1u << 30) ? size : (1u << 30), (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        KIPU_REQUIRE(n >= 0, err, KIPU_E_IO, "cannot read '%.160s': %s", f->path, strerror(errno));
        KIPU_REQUIRE(n > 0, err, KIPU_E_IO, "'%.160s' ends at byte %llu, %llu more were expected", f->path, (unsigned long long)offset,
                     (unsigned long long)size);
        at += n, offset += (uint64_t)n, size -= (uint64_t)n;
    }
    return KIPU_OK;
}
