#!/usr/bin/env bash
# Look planes up in pipes: keys from one program, rows to the next, and a join from file to file.
# The answers are compared with those of DuckDB, from Python. Give a folder for the data, or none.
set -euo pipefail
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
cd "$folder"

python -c 'import pathlib, lookupstore.demo; lookupstore.demo.write_data(pathlib.Path("."))'
lookupstore build data/planes.parquet planes.store --key tailnum > built.txt

# Lines of keys in, lines of JSON out, in the same order.
printf '%s\n' N14228 N24211 N619AA | lookupstore get planes.store --keys - --columns model,seats --output json

# All rows of a file, with columns of the store, to a file; then the rows whose key is missing.
lookupstore join data/flights.parquet planes.store --on tailnum --columns model,seats -o joined.parquet
lookupstore join data/flights.parquet planes.store --on tailnum --how anti -o unknown.parquet

python - <<'END'
import duckdb

own = duckdb.sql(
    "SELECT f.*, model, seats FROM 'data/flights.parquet' f LEFT JOIN 'data/planes.parquet' p USING (tailnum)"
)
ours = duckdb.sql("FROM 'joined.parquet'")
assert ours.columns == own.columns
assert len(ours) == len(own) and len(ours.except_(own)) == 0
unknown = len(duckdb.sql("FROM 'unknown.parquet'"))
assert unknown == len(own.filter("model IS NULL AND seats IS NULL"))
print(f"{len(ours):,} flights, {unknown:,} of unknown planes: equal to DuckDB's join")
END
