"""hostcache."""
