"""hudi."""
