"""The commands of `memjax`, one file each: what its help says, and what it does."""
