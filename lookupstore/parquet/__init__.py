"""Read and write Parquet footers, column chunks and pages without decoding them.

Arrow encodes and decodes columns. This package copies whole chunks from file to file, and replaces
values in them, without encoding or decoding.
"""
