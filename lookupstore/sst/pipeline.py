"""Compress finished blocks in several threads, and write them to the file in their order."""

from __future__ import annotations

import atexit
import os
import queue
import threading
from collections import Counter, deque

from lookupstore.errors import ClosedError
from lookupstore.sst._block import BlockBuilder
from lookupstore.sst._written import add_handles
from lookupstore.sst.codec import CODECS, Compressor, Packed
from lookupstore.sst.format import Dialect
from lookupstore.storage.output import Output

# Bytes of blocks that are passed to a thread at once: passing them costs as much as a small block.
LOAD = 256 << 10
# Number of loads per thread: one being compressed, and one waiting so that the thread does not.
LOADS_A_THREAD = 2
# Bytes of blocks, and number of very small blocks, that are held back until the best way to
# compress the file is known.
SAMPLE_BYTES = 1 << 20
SAMPLE_BLOCKS = 1024


class _Load:
    """Some blocks to be written; `packed` is None until they are compressed."""

    __slots__ = ("blocks", "last_keys", "nbytes", "packed")

    def __init__(self) -> None:
        self.blocks: list[bytes] = []
        self.last_keys: list[bytes] = []
        self.nbytes = 0
        self.packed: Packed | None = None


class BlockPipeline:
    """A pipeline that compresses, writes and indexes the data blocks of one file.

    With one thread the caller does all the work. With more, the other threads compress while the
    caller makes the next blocks; if too many blocks wait, the caller compresses as well. The thread
    that completes the oldest blocks writes them, so the bytes and their order do not depend on the
    threads.

    The threads start with the first blocks to compress and keep no reference to the caller. An
    error in a thread is raised by the next `put` or `finish`.

    If the codec can be tuned, the first blocks are the sample that decides how.

    Attributes:
        compressor: Compressor of the blocks, which has the dictionary of the file once all are
            written.
        index: Index block, with one record for each block written.
        codecs: Number of blocks by codec.
        plain_bytes: Size of all blocks before compression, in bytes.
    """

    def __init__(
        self,
        output: Output,
        dialect: Dialect,
        index: BlockBuilder,
        compressor: Compressor,
        threads: int,
    ) -> None:
        self.compressor: Compressor = compressor
        self.index = index
        self.codecs: dict[str, int] = {}
        self.plain_bytes: int = 0
        self._output = output
        self._dialect = dialect
        self._sample: list[tuple[bytes, bytes]] | None = [] if compressor.samples else None
        self._sampled = 0
        self._helpers = threads - 1
        self._most = LOADS_A_THREAD * threads
        self._load = _Load()
        self._threads: list[threading.Thread] = []
        self._todo: queue.SimpleQueue[_Load | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        # Guarded by _changed:
        self._on_the_way: deque[_Load] = deque()
        self._writing = False
        self._stopped = False
        self._error: BaseException | None = None
        self._process = os.getpid()

    def put(self, block: bytes, last_key: bytes) -> None:
        """Add a block after the others.

        Raises:
            OSError: This block or one before it could not be written.
        """
        if self._sample is None:
            self._add(block, last_key)
            return
        self._sample.append((block, last_key))
        self._sampled += len(block)
        if self._sampled >= SAMPLE_BYTES or len(self._sample) >= SAMPLE_BLOCKS:
            self._tune(self._sample)

    def _tune(self, sample: list[tuple[bytes, bytes]]) -> None:
        """Choose how to compress the file, and compress the blocks that were held back."""
        self.compressor = self.compressor.tuned([block for block, _ in sample])
        self._sample = None
        for block, last_key in sample:
            self._add(block, last_key)

    def _add(self, block: bytes, last_key: bytes) -> None:
        self._load.blocks.append(block)
        self._load.last_keys.append(last_key)
        self._load.nbytes += len(block)
        if self._load.nbytes >= LOAD:
            self._send()

    def _send(self) -> None:
        load, self._load = self._load, _Load()
        if not self._helpers:
            self._write_alone(load)
            return
        if not self._threads:
            self._start()
        with self._changed:
            self._on_the_way.append(load)
        self._todo.put(load)
        self._help(self._most)

    def finish(self) -> None:
        """Write all remaining blocks, and end the threads.

        Raises:
            OSError: A block could not be written.
        """
        if self._sample is not None:
            self._tune(self._sample)
        if self._threads and self._load.blocks:
            self._send()
        self._write_alone(self._load)  # too few blocks for a thread
        self._load = _Load()
        self._help(0)
        self.stop()

    def stop(self) -> None:
        """End the threads, even if blocks are waiting."""
        if self._process != os.getpid():
            return  # the threads belong to the parent process
        with self._changed:
            self._stopped = True
            self._on_the_way.clear()
        for _ in self._threads:
            self._todo.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():  # garbage collection may run here
                thread.join()
        if self._threads:
            atexit.unregister(self.stop)
        self._threads = []

    def _start(self) -> None:
        # A writer that is never closed must not keep the interpreter from exiting, so the threads
        # are daemons; but they must have ended before the interpreter is finalized.
        atexit.register(self.stop)
        for number in range(self._helpers):
            thread = threading.Thread(
                target=self._work,
                args=(self.compressor.another(),),
                name=f"lookupstore-writer-{number}",
                daemon=True,
            )
            thread.start()
            self._threads.append(thread)

    def _work(self, compressor: Compressor) -> None:
        while (load := self._todo.get()) is not None:
            try:
                self._do(load, compressor)
            except BaseException as error:
                with self._changed:
                    self._error = self._error or error
                    self._stopped = True
                    self._changed.notify_all()

    def _help(self, most: int) -> None:
        """Compress blocks until at most a number of loads are waiting."""
        while len(self._on_the_way) > most and not self._stopped:
            try:
                load = self._todo.get_nowait()
            except queue.Empty:  # other threads have all of them
                with self._changed:
                    while len(self._on_the_way) > most and not self._stopped:
                        self._changed.wait()
            else:
                assert load is not None
                self._do(load, self.compressor)
        if self._stopped:
            # The error is removed: a stored error would keep the frames through which it was
            # raised.
            error, self._error = self._error, None
            raise error or ClosedError(f"{self._output.path}: the writer is closed")

    def _do(self, load: _Load, compressor: Compressor) -> None:
        if self._stopped:
            return
        load.packed = compressor.packed(load.blocks, self._dialect)
        load.blocks.clear()
        with self._changed:
            if self._writing:  # the thread that is writing checks again
                return
            self._writing = True
        while (oldest := self._next_to_write()) is not None:
            self._write(*oldest)

    def _next_to_write(self) -> tuple[_Load, Packed] | None:
        with self._changed:
            self._changed.notify_all()
            if not self._stopped and self._on_the_way:
                load = self._on_the_way[0]
                if load.packed is not None:
                    self._on_the_way.popleft()
                    return load, load.packed
            self._writing = False
            return None

    def _write_alone(self, load: _Load) -> None:
        if load.blocks:
            self._write(load, self.compressor.packed(load.blocks, self._dialect))

    def _write(self, load: _Load, packed: Packed) -> None:
        offset = self._output.offset
        for piece in packed.pieces:
            self._output.write(piece)
        add_handles(self.index, load.last_keys, offset, packed.sizes)
        for codec, count in Counter(packed.codecs).items():
            name = CODECS[codec].name
            self.codecs[name] = self.codecs.get(name, 0) + count
        self.plain_bytes += load.nbytes
