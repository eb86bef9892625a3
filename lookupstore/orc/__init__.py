"""ORC below Arrow: footers, and what stripes claim, before Arrow believes it.

Arrow reads ORC. It ends the process at some footers, and takes what memory a file asks for: so
what is in `footer` is looked at in every file, and what is in `claims` in small ones.
"""
