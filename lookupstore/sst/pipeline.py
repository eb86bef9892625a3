"""Compress finished blocks in several threads, and write them to the file in their order."""

from __future__ import annotations

import atexit
import os
import queue
import threading
from collections import Counter, deque
from itertools import chain

from lookupstore.errors import ClosedError
from lookupstore.sst._block import BlockBuilder
from lookupstore.sst._load import BlockLoad
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


class _Waiting:
    """Blocks to be written; `packed` is None until they are compressed."""

    __slots__ = ("load", "packed")

    def __init__(self, load: BlockLoad) -> None:
        self.load = load
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
        self._sample: list[BlockLoad] | None = [] if compressor.samples else None
        self._helpers = threads - 1
        self._most = LOADS_A_THREAD * threads
        self._threads: list[threading.Thread] = []
        self._todo: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        # Guarded by _changed:
        self._on_the_way: deque[_Waiting] = deque()
        self._writing = False
        self._stopped = False
        self._error: BaseException | None = None
        self._process = os.getpid()

    def put(self, load: BlockLoad) -> None:
        """Add blocks after the others.

        Raises:
            OSError: These blocks or some before them could not be written.
        """
        if self._sample is None:
            self._send(load)
            return
        self._sample.append(load)
        if (
            sum(one.nbytes for one in self._sample) >= SAMPLE_BYTES
            or sum(map(len, self._sample)) >= SAMPLE_BLOCKS
        ):
            self._tune(self._sample)

    def _tune(self, sample: list[BlockLoad]) -> None:
        """Choose how to compress the file, and compress the blocks that were held back."""
        blocks, size = [], 0
        for block in chain.from_iterable(load.blocks() for load in sample):
            blocks.append(bytes(block))
            size += len(block)
            if size >= SAMPLE_BYTES or len(blocks) >= SAMPLE_BLOCKS:
                break
        self.compressor = self.compressor.tuned(blocks)
        self._sample = None
        for load in sample:
            self._send(load)

    def _send(self, load: BlockLoad) -> None:
        if not len(load):
            return
        if not self._helpers or (not self._threads and load.nbytes < LOAD):  # too few for a thread
            self._write(load, self.compressor.packed(load, self._dialect))
            return
        if not self._threads:
            self._start()
        waiting = _Waiting(load)
        with self._changed:
            self._on_the_way.append(waiting)
        self._todo.put(waiting)
        self._help(self._most)

    def finish(self) -> None:
        """Write all remaining blocks, and end the threads.

        Raises:
            OSError: A block could not be written.
        """
        if self._sample is not None:
            self._tune(self._sample)
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
        while (waiting := self._todo.get()) is not None:
            try:
                self._do(waiting, compressor)
            except BaseException as error:
                with self._changed:
                    self._error = self._error or error
                    self._stopped = True
                    self._changed.notify_all()

    def _help(self, most: int) -> None:
        """Compress blocks until at most a number of loads are waiting."""
        while len(self._on_the_way) > most and not self._stopped:
            try:
                waiting = self._todo.get_nowait()
            except queue.Empty:  # other threads have all of them
                with self._changed:
                    while len(self._on_the_way) > most and not self._stopped:
                        self._changed.wait()
            else:
                assert waiting is not None
                self._do(waiting, self.compressor)
        if self._stopped:
            # The error is removed: a stored error would keep the frames through which it was
            # raised.
            error, self._error = self._error, None
            raise error or ClosedError(f"{self._output.path}: the writer is closed")

    def _do(self, waiting: _Waiting, compressor: Compressor) -> None:
        if self._stopped:
            return
        waiting.packed = compressor.packed(waiting.load, self._dialect)
        with self._changed:
            if self._writing:  # the thread that is writing checks again
                return
            self._writing = True
        while (oldest := self._next_to_write()) is not None:
            self._write(*oldest)

    def _next_to_write(self) -> tuple[BlockLoad, Packed] | None:
        with self._changed:
            self._changed.notify_all()
            if not self._stopped and self._on_the_way:
                oldest = self._on_the_way[0]
                if oldest.packed is not None:
                    self._on_the_way.popleft()
                    return oldest.load, oldest.packed
            self._writing = False
            return None

    def _write(self, load: BlockLoad, packed: Packed) -> None:
        offset = self._output.offset
        self._output.write(packed.written)
        add_handles(self.index, load, offset, packed.sizes)
        for codec, count in Counter(packed.codecs).items():
            name = CODECS[codec].name
            self.codecs[name] = self.codecs.get(name, 0) + count
        self.plain_bytes += load.nbytes
