#include "ls_merge.h"

#include "ls_order.h"

/* Sets *is_inside to whether a key of a run is not after the bound. */
static ls_status compare_key(const ls_column *run, size_t row, ls_slice bound, int *is_inside) {
    ls_slice key;
    ls_status status = ls_column_get(run, row, &key);
    if (status == LS_OK)
        *is_inside = ls_compare_bytes(key, bound) <= 0;
    return status;
}

/* Ranges are short compared with runs: steps double from the start of the range. */
static ls_status cut_run(const ls_column *run, size_t start, size_t end, ls_slice bound,
                         int64_t *stop) {
    size_t low = start, high = start, step = 1; /* all before low are inside, none from high on */
    while (high < end) {
        int is_inside;
        ls_status status = compare_key(run, high, bound, &is_inside);
        if (status != LS_OK)
            return status;
        if (!is_inside)
            break;
        low = high + 1;
        high = step < end - high ? high + step : end;
        step *= 2;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int is_inside;
        ls_status status = compare_key(run, middle, bound, &is_inside);
        if (status != LS_OK)
            return status;
        if (is_inside)
            low = middle + 1;
        else
            high = middle;
    }
    *stop = (int64_t)low;
    return LS_OK;
}

ls_status ls_merge_cut(const ls_column *runs, const int64_t *starts, const int64_t *ends,
                       size_t count, ls_slice bound, int64_t *stops) {
    for (size_t r = 0; r < count; r++) {
        ls_status status = cut_run(&runs[r], (size_t)starts[r], (size_t)ends[r], bound, &stops[r]);
        if (status != LS_OK)
            return status;
    }
    return LS_OK;
}

ls_status ls_merge_slices(const ls_column *runs, const int64_t *starts, const int64_t *stops,
                          size_t count, ls_slice *slices, uint64_t *bytes) {
    *bytes = 0;
    for (size_t r = 0; r < count; r++) {
        for (size_t row = (size_t)starts[r]; row < (size_t)stops[r]; row++, slices++) {
            ls_status status = ls_column_get(&runs[r], row, slices);
            if (status != LS_OK)
                return status;
            *bytes += slices->size;
        }
    }
    return LS_OK;
}
