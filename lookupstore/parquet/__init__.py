"""Parquet below Arrow: footers, column chunks and pages, as they are stored.

Arrow encodes and decodes columns. Here whole chunks go from one file into another, and values are
replaced inside of them, without either.
"""
