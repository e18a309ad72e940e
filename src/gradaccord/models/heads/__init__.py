"""What reads the trunk: one head per task."""
