"""Automatic schedules: naive loops classified, and scheduled by recipes that a model of the processor chooses from."""
