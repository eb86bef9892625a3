/* Tests of csrc: built alone with sanitizers, run in seconds. `test_csrc SEED` repeats a run. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "made.h"
#include "tests.h"

int main(int argc, char **argv) {
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)time(NULL);
    state = seed;
    test_bytes();
    test_csv();
    test_json();
    test_utf8();
    test_varints();
    test_columns();
    test_hashes();
    test_orders();
    test_block_bytes();
    test_malformed_blocks();
    test_blocks();
    test_long_keys_of_one_size();
    test_adding_columns();
    test_adding_many();
    test_loads();
    test_gather();
    test_filters();
    test_sort();
    test_merge();
    test_scatter();
    test_slots();
    test_full_buckets();
    test_repeated_keys();
    test_malformed_slots();
    test_places();
    test_places_of_repeated_keys();
    test_crowded_places();
    test_marks_of_a_bucket();
    test_changes();
    test_fences();
    test_deep_fences();
    test_shared_fences();
    test_malformed_fences();
    test_changed_fences();
    test_batches();
    test_batches_of_many_files();
    test_batches_of_places();
    test_batch_failures();
    test_batches_of_runs();
    test_batches_of_candidates();
    test_batches_beside_a_cache();
    test_file_ranges();
    test_shared_file_ranges();
    test_batches_of_file_ranges();
    test_owners();
    test_crowded_owners();
    test_damaged_owners();
    test_keys();
    test_rows();
    test_short_lists();
    test_short_keys();
    test_hadoop_blooms();
    test_key_ranges();
    test_md5();
    test_key_tables();
    test_page_headers();
    test_row_groups();
    test_malformed_row_groups();
    test_claims_of_chunks();
    test_longest_values();
    test_replaced_values();
    test_texts();
    test_ranges_of_floats();
    test_runs();
    test_lengths_that_are_none();
    test_signed_numbers();
    test_runs_of_bytes();
    test_sizes_of_lz4();
    test_curves();
    test_ranks();
    test_compacted_rows();
    test_row_orders();
    test_row_fences();
    printf("csrc: %zu checks hold, seed %llu\n", checks, (unsigned long long)seed);
    return 0;
}
