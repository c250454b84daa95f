"""What the machines have that code is made for: targets, and the processor we run on. Knows nothing of the language."""
