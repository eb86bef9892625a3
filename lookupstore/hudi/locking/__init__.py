"""locking."""
