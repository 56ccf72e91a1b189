/* What the parts of the GGUF reader share. Internal to csrc/engine/gguf*.c. */
#ifndef KIPU_ENGINE_GGUF_PARTS_H
#define KIPU_ENGINE_GGUF_PARTS_H

#include "engine/gguf.h"
#include "engine/gguf_file.h"

/* The head of one file: header, metadata and directory, held in memory as it lies in the file.
 *
 *     | "GGUF" | u32 version | u64 n_tensors | u64 n_values | values ... | tensor infos ... | padding | data ... |
 */
typedef struct kipu_head {
    char *bytes;               /* room for `reserved`, filled up to `filled`; grows in place, so views stay valid */
    uint64_t reserved, filled, at;
} kipu_head;

typedef struct kipu_part {
    kipu_file file;
    kipu_head head;
    uint32_t version;
    uint64_t alignment, data_start;
    kipu_gguf_value *values;
    kipu_gguf_tensor *tensors;
    int64_t n_values, n_tensors;
    int32_t *by_key;           /* values sorted by key */
} kipu_part;

kipu_status kipu_part_open(kipu_part *p, const char *path, kipu_error *err);
void kipu_part_close(kipu_part *p);
/* Keeps file and tensors alone: parts behind the first are not asked for metadata once their split.* keys were checked. */
void kipu_part_forget_values(kipu_part *p);
const kipu_gguf_value *kipu_part_find(const kipu_part *p, const char *key, size_t size);

/* Little-endian items of the head; KIPU_E_FORMAT "ends at byte" when the file is too short. */
kipu_status kipu_head_take(kipu_part *p, uint64_t size, const char **bytes, const char *what, kipu_error *err);
kipu_status kipu_head_u32(kipu_part *p, uint32_t *out, const char *what, kipu_error *err);
kipu_status kipu_head_u64(kipu_part *p, uint64_t *out, const char *what, kipu_error *err);
kipu_status kipu_head_text(kipu_part *p, kipu_text *out, const char *what, kipu_error *err);
/* Forwards `status`; puts "what 'name': " in front of a failure's message. */
kipu_status kipu_head_name_failure(kipu_status status, const char *what, kipu_text name, kipu_error *err);
/* Bytes of the file behind the cursor. */
uint64_t kipu_head_left(const kipu_part *p);

/* The two sections. */
kipu_status kipu_part_read_values(kipu_part *p, kipu_error *err);
kipu_status kipu_part_read_tensors(kipu_part *p, kipu_error *err);

bool kipu_value_integer(const kipu_gguf_value *v, int64_t *out);
/* "u32", "string"; "unknown" for a number that is no type. Static storage. */
const char *kipu_value_type_name(int type);
/* An integer under `key`: *out is untouched if there is none, KIPU_E_FORMAT if it is of another type or beyond int64. */
kipu_status kipu_part_integer(const kipu_part *p, const char *key, int64_t *out, kipu_error *err);

#endif
