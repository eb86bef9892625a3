"""Check footers and stripes of ORC files before Arrow reads them.

Arrow reads ORC. At some footers it ends the process, and it allocates the memory that a file claims
to need. Therefore `footer` checks every file, and `claims` small files.
"""
