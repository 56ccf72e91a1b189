/* One file of a GGUF set: opened, measured, read at offsets. Internal to csrc/engine/gguf*.c. */
#ifndef KIPU_ENGINE_GGUF_FILE_H
#define KIPU_ENGINE_GGUF_FILE_H

#include <stdint.h>
#include "base/error.h"

typedef struct kipu_file {
    int fd;                    /* -1: not open */
    uint64_t size;
    char *path;
} kipu_file;

/* Regular files only: a directory, FIFO or device is KIPU_E_IO. */
kipu_status kipu_file_open(kipu_file *f, const char *path, kipu_error *err);
void kipu_file_close(kipu_file *f);
/* Exactly `size` bytes at `offset`; KIPU_E_IO if the file ends before. Any thread. */
kipu_status kipu_file_read(const kipu_file *f, uint64_t offset, uint64_t size, void *dst, kipu_error *err);

#endif
