/* Sorting and selecting candidates by logit, descending. Linear; equal logits keep their order; NaN counts as the lowest value. */
#ifndef KIPU_SAMPLE_ORDER_H
#define KIPU_SAMPLE_ORDER_H

#include "sample/sampler.h"

/* Works in place where there is no memory for a second array (then equal logits may change their order). */
void kipu_sort_descending(kipu_token_data *data, size_t n);
/* Moves the k largest to the front, sorted. k <= n; what is behind them is undefined. */
void kipu_select_largest(kipu_token_data *data, size_t n, size_t k);

#endif
