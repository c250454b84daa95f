"""What passes and schedule primitives share: the rewrite as a value, its context and options, and the tools of rewriting."""
