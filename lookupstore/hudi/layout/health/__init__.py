"""Estimate the share of the current files of a table that queries read.

`known_bounds` reads bounds from statistics or footers. `spread` estimates the distribution of rows
between them. `layout_health` computes the shares of files that queries read. `picture` draws files
as boxes.
"""
