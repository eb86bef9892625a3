/* The result of every csrc function that can fail. */
#ifndef LS_STATUS_H
#define LS_STATUS_H

typedef enum {
    LS_OK = 0,
    /* Stored bytes that contradict themselves: the caller raises CorruptionError. */
    LS_TRUNCATED,    /* a length or offset points past the end of its region */
    LS_BAD_VARINT,   /* more groups than the type can hold */
    LS_BAD_HEADER,   /* flag, count or record size of a block is impossible */
    LS_BAD_POSITION, /* a position is not ascending or does not start a record */
    LS_BAD_RECORD,   /* a record does not end where the next one starts */
    LS_BAD_ORDER,    /* stored keys are not in key order */
    LS_BAD_KEY,      /* a key cannot belong to the file's key order */
    LS_BAD_ROW,      /* row or key bytes do not fit the schema */
    /* Bad arguments: the caller raises ValueError. */
    LS_OUT_OF_ORDER, /* a key passed to a writer is smaller than the one before */
    LS_REPEATED,     /* a key passed to a writer equals the one before */
    LS_NULL,         /* a null where a value is required */
    LS_BAD_COLUMN,   /* Arrow offsets outside of their data buffer */
    LS_TOO_LARGE,    /* a record or block beyond 2^31 - 1 bytes */
    /* Not failures. */
    LS_NO_SPACE,   /* the caller's buffer is too small: grow it and call again */
    LS_BLOCK_FULL, /* the block has reached its size: finish it and call again */
} ls_status;

#endif
