"""From lowered functions to C11 text: no compiler's extensions, and nothing whose behaviour C leaves undefined."""
