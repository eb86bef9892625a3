"""Copy-on-write tables in the format of Apache Hudi."""
