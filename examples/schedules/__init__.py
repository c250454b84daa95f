"""Programs as they are defined, and the schedules that make them fast."""
