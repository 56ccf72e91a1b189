/* The public function table (src/kipu/include/kipu.h) over the engine. */
#ifndef KIPU_ENGINE_API_TABLE_H
#define KIPU_ENGINE_API_TABLE_H

#include <kipu.h>

/* Everything but the three ..._of functions, which know Python and are filled in by the face. Static storage. */
kipu_api *kipu_api_table(void);

#endif
